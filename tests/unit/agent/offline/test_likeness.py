"""Likeness: the share of shingles, exact for short texts and close for long ones."""

from random import Random

import pytest

from perdure.agent.offline.likeness import COMMON_MAX, likeness, pairs_alike, sketch_of


def words(seed, count):
    """Words that depend on `seed` only."""
    source = Random(seed)
    return [f"w{source.randrange(5_000)}" for _ in range(count)]


def test_short_texts_are_compared_exactly():
    """Six shingles of which two are shared give a third, as by hand."""
    one = list("abcdefgh")
    other = list("abcdefxy")
    assert 2 / 6 == likeness(sketch_of(one), sketch_of(other))


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.8, 1.0])
def test_long_texts_are_estimated_closely(kept):
    """From two hundred digests the share of ten thousand shingles is known to a tenth."""
    shared = words(1, int(10_000 * kept))
    one, other = shared + words(2, 10_000 - len(shared)), shared + words(3, 10_000 - len(shared))
    truth = kept / (2 - kept)
    assert abs(truth - likeness(sketch_of(one), sketch_of(other))) < 0.1


def test_nothing_is_like_nothing():
    """Texts without words are no near-duplicates of one another."""
    assert 0.0 == likeness(sketch_of([]), sketch_of([]))
    assert [] == pairs_alike({"a": b"", "b": b""})


def test_pairs_are_found_among_others():
    """A text with a changed word is paired with its original, texts of their own with none."""
    text = words(1, 300)
    texts = {f"other{seed}": words(seed, 300) for seed in range(10, 40)}
    texts |= {"original": text, "copy": text, "edited": [*text[:100], "changed", *text[101:]]}
    pairs = pairs_alike({name: sketch_of(text) for name, text in texts.items()})
    assert ("copy", "original", 1.0) == pairs[0]
    assert {("copy", "edited"), ("edited", "original")} == {pair[:2] for pair in pairs[1:]}


def test_many_copies_are_all_named():
    """More copies than make candidates pairwise are still each paired with a neighbour."""
    names = [f"{number:03}" for number in range(COMMON_MAX + 5)]
    pairs = pairs_alike(dict.fromkeys(names, sketch_of(words(1, 50))))
    assert set(names) == {name for pair in pairs for name in pair[:2]}
