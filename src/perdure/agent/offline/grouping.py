"""Which documents belong together, which stand alone, which are nearly the same.

Two documents are related by the cosine of their weighted terms; related documents form a graph, and the graph falls
into groups by itself (`communities`). Then each group is looked at: documents that hardly fit it stand alone, and so do
the least typical ones until the rest have `COMMON_TERMS` terms in common. By construction every document is in
exactly one group or single, and the first terms of a group stand in at least half of its documents, and in two.

Works on profiles only. Pure. Called by the tool `compare_documents`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TypedDict

from perdure.agent.offline.communities import communities_of
from perdure.agent.offline.likeness import pairs_alike
from perdure.agent.offline.profile import Profile
from perdure.agent.offline.weights import Vector, shared_vectors, singulars, term_weights

COMMON_TERMS = 3
GROUP_TERMS_MAX = 8
KEY_TERMS_MAX = 5


class Group(TypedDict):
    """Documents that share a topic."""

    # The first `COMMON_TERMS` stand in at least half of the documents, the others in a quarter; the most telling first.
    terms: list[str]
    # The most typical first.
    names: list[str]


class Comparison(TypedDict):
    """What comes of comparing all documents."""

    # The largest first.
    groups: list[Group]
    single: list[str]
    # Name, name, share of shingles in common: the most alike first.
    alike: list[tuple[str, str, float]]
    # Name → what this document has more than others.
    key_terms: dict[str, list[str]]


def compare(profiles: Mapping[str, Profile]) -> Comparison:
    """Group documents by what they are about. The order of `profiles` does not matter."""
    profiles = {name: profiles[name] for name in sorted(profiles)}
    term_of = singulars({word for profile in profiles.values() for word in profile["terms"]})
    weights = term_weights({name: _term_counts(profile, term_of) for name, profile in profiles.items()})
    related = _relations(shared_vectors(weights))
    groups: list[Group] = []
    for names in communities_of(_graph(related)):
        fitting = _fitting(names, related)
        while len(fitting) > 1:
            terms = _group_terms(fitting, profiles, weights, term_of)
            if terms:
                groups.append(Group(terms=terms, names=fitting))
                break
            fitting = fitting[: -1 - len(fitting) // 20]
    grouped = {name for group in groups for name in group["names"]}
    return Comparison(
        groups=sorted(groups, key=lambda group: (-len(group["names"]), min(group["names"]))),
        single=[name for name in profiles if name not in grouped],
        alike=pairs_alike({name: profile["sketch"] for name, profile in profiles.items()}),
        key_terms={name: _key_terms(profiles[name], weights[name], term_of) for name in profiles},
    )


Relations = dict[str, dict[str, float]]
"""Name → other name → how related, 0 to 1; what is not there is not related."""

_RELATED_FROM = 0.03
# How related a document must be, on average, to the others of its group: more in a small group, where chance does more.
_FIT_MIN, _FIT_OF_ONE = 0.02, 0.05
_HOLDERS_MIN = 2  # What one document alone says is nothing in common.


def _term_counts(profile: Profile, term_of: Mapping[str, str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, count in profile["terms"].items():
        counts[term_of[word]] += count
    return counts


def _relations(vectors: Mapping[str, Vector]) -> Relations:
    """Take the cosine of each pair of documents that share a term, by way of the terms."""
    holders: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, vector in vectors.items():
        for term, weight in vector.items():
            holders[term].append((name, weight))
    related: Relations = {name: {} for name in vectors}
    for held in holders.values():
        for place, (name, weight) in enumerate(held):
            row = related[name]
            for other, other_weight in held[place + 1 :]:
                row[other] = row.get(other, 0.0) + weight * other_weight
    for name, row in related.items():
        for other, relation in row.items():
            if other > name:
                related[other][name] = relation
    return related


def _graph(related: Relations) -> Relations:
    return {
        name: {other: relation for other, relation in row.items() if relation >= _RELATED_FROM}
        for name, row in related.items()
    }


def _fitting(names: Sequence[str], related: Relations) -> list[str]:
    """Keep the documents that are related to the rest of their group, the most typical first."""
    others = len(names) - 1
    if not others:
        return []
    fit = {name: sum(related[name].get(other, 0.0) for other in names if other != name) / others for name in names}
    fitting = [name for name in names if fit[name] >= _FIT_MIN + _FIT_OF_ONE / len(names)]
    return sorted(fitting, key=lambda name: (-fit[name], name))


def _group_terms(
    names: Sequence[str], profiles: Mapping[str, Profile], weights: Mapping[str, Vector], term_of: Mapping[str, str]
) -> list[str]:
    """Choose the terms that a group has more than others, each as its commonest word; none if too few are common."""
    spread = Counter(word for name in names for word in profiles[name]["terms"])
    words: dict[str, str] = {}
    for word, holders in sorted(spread.items(), key=lambda item: (-item[1], item[0])):
        if holders >= _HOLDERS_MIN and 4 * holders >= len(names):
            words.setdefault(term_of[word], word)
    weight = {word: sum(weights[name].get(term, 0.0) for name in names) for term, word in words.items()}
    telling = sorted(weight, key=lambda word: (-weight[word], word))
    common = [word for word in telling if 2 * spread[word] >= len(names)][:COMMON_TERMS]
    if len(common) < COMMON_TERMS:
        return []
    return [*common, *(word for word in telling if word not in common)][:GROUP_TERMS_MAX]


def _key_terms(profile: Profile, weights: Vector, term_of: Mapping[str, str]) -> list[str]:
    """Choose the heaviest terms of one document, each as the word that it uses most."""
    words: dict[str, str] = {}
    for word in profile["terms"]:
        words.setdefault(term_of[word], word)
    return [words[term] for term in list(weights)[:KEY_TERMS_MAX]]
