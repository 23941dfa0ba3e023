"""How alike two texts are, word for word.

A text is cut into *shingles*, runs of five words; how alike two texts are is the share of shingles that they have in
common (Jaccard). Of each text the digests of few shingles are kept, the smallest (a bottom-k sketch, Broder 1997):
enough for the exact share of short texts, and for a close estimate of long ones. Digests come from BLAKE2, so that they
are the same on every machine and in every process. Pure. Called by `profile` (sketches) and `grouping` (pairs).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import combinations, pairwise

SHINGLE_WORDS = 5
SKETCH_DIGESTS_MAX = 200
DIGEST_BYTES = 8
ALIKE_FROM = 0.5
"""Texts that share half of their shingles are near-duplicates."""

COMMON_MAX = 40
"""A shingle that more documents share is boilerplate (a licence, a menu): it makes candidates of neighbours only."""


def sketch_of(words: Sequence[str]) -> bytes:
    """Keep the smallest digests of the shingles of a text, sorted, one after the other."""
    count = max(1, len(words) - SHINGLE_WORDS + 1) if words else 0
    shingles = {" ".join(words[at : at + SHINGLE_WORDS]) for at in range(count)}
    digests = sorted(
        blake2b(shingle.encode("utf-8", "replace"), digest_size=DIGEST_BYTES).digest() for shingle in shingles
    )
    return b"".join(digests[:SKETCH_DIGESTS_MAX])


def likeness(one: bytes, other: bytes) -> float:
    """Estimate from two sketches the share of shingles in common, 0 to 1; exact below `SKETCH_DIGESTS_MAX` shingles."""
    ours, theirs = set(_digests(one)), set(_digests(other))
    sample = sorted(ours | theirs)
    if SKETCH_DIGESTS_MAX in {len(ours), len(theirs)}:
        sample = sample[:SKETCH_DIGESTS_MAX]
    return sum(digest in ours and digest in theirs for digest in sample) / len(sample) if sample else 0.0


def pairs_alike(sketches: Mapping[str, bytes]) -> list[tuple[str, str, float]]:
    """List the pairs of names whose texts are near-duplicates, most alike first. Compares what shares a shingle."""
    holders: defaultdict[bytes, list[str]] = defaultdict(list)
    for name in sorted(sketches):
        for digest in _digests(sketches[name]):
            holders[digest].append(name)
    candidates: set[tuple[str, str]] = set()
    for names in holders.values():
        candidates.update(combinations(names, 2) if len(names) <= COMMON_MAX else pairwise(names))
    rated = ((one, other, likeness(sketches[one], sketches[other])) for one, other in candidates)
    return sorted((pair for pair in rated if pair[2] >= ALIKE_FROM), key=lambda pair: (-pair[2], pair[0], pair[1]))


def _digests(sketch: bytes) -> list[bytes]:
    return [sketch[at : at + DIGEST_BYTES] for at in range(0, len(sketch), DIGEST_BYTES)]
