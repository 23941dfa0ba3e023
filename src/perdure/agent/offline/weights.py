"""How much each word tells about each document, compared with all the others (TF-IDF).

A word that stands in every document tells nothing, one that stands in few tells much. Singular and plural count as one
*term* where both stand somewhere in the documents (`query`, `queries`), so no dictionary is needed; a term goes by its
singular here and is shown as a word that really stands in a file. Pure. Called by `grouping`.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from math import log, sqrt

VECTOR_TERMS_MAX = 80

Vector = dict[str, float]
"""Term → weight."""


def singulars(words: Collection[str]) -> dict[str, str]:
    """Say for each word which term it counts as: its singular if that is one of `words`, else itself."""
    known = frozenset(words)
    return {word: next((form for form in _singulars_of(word) if form in known), word) for word in known}


def term_weights(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Vector]:
    """Weigh the terms of each document: heavier where frequent in it and rare elsewhere. Heaviest first."""
    spread = Counter(term for terms in counts.values() for term in terms)
    documents = len(counts) + _ELSEWHERE
    weights: dict[str, Vector] = {}
    for name, terms in counts.items():
        rated = {term: (1 + log(count)) * log(documents / spread[term]) for term, count in terms.items()}
        weights[name] = dict(sorted(rated.items(), key=lambda item: (-item[1], item[0])))
    return weights


def shared_vectors(weights: Mapping[str, Vector]) -> dict[str, Vector]:
    """Make of each document a vector for comparing: its heaviest terms that another document has too.

    A vector is shorter than 1 by what the document has for itself alone: a document that shares two words of hundred
    is not like another one just because they are the same two.
    """
    spread = Counter(term for vector in weights.values() for term in vector)
    vectors: dict[str, Vector] = {}
    for name, vector in weights.items():
        shared = {term: weight for term, weight in vector.items() if spread[term] > 1}
        heaviest = dict(list(shared.items())[:VECTOR_TERMS_MAX])
        whole, part, kept = (_length(each) for each in (vector, shared, heaviest))
        vectors[name] = {term: weight * part / (whole * kept) for term, weight in heaviest.items()} if kept else {}
    return vectors


# Documents imagined beside those there are, on other things: so that what four documents on one topic have in common
# still tells something, although all four have it.
_ELSEWHERE = 4
_PLURALS = (("ies", "y"), ("es", ""), ("s", ""))


def _singulars_of(word: str) -> list[str]:
    return [word[: -len(ending)] + rest for ending, rest in _PLURALS if word.endswith(ending)]


def _length(vector: Vector) -> float:
    return sqrt(sum(weight * weight for weight in vector.values()))
