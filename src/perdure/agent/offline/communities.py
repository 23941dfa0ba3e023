"""Which nodes of a weighted graph belong together.

Nodes are put where the weight of their edges exceeds what chance would give (modularity; Newman 2004), by moving them
one at a time and then moving whole communities likewise (Blondel et al. 2008, the Louvain method). The number of
communities comes out of the graph. Nodes are taken in sorted order, so the same graph gives the same answer anywhere.
Pure, knows nothing of documents. Called by `grouping`.
"""

from collections import defaultdict
from collections.abc import Mapping

Graph = Mapping[str, Mapping[str, float]]
"""Node → neighbour → weight > 0, each edge in both directions."""

ROUNDS_MAX = 50
"""Moves end by themselves, as each raises the modularity; this is the belt to those braces."""


def communities_of(graph: Graph) -> list[list[str]]:
    """Split the nodes of `graph` into communities; each is sorted, and so is the list of them."""
    members = {node: [node] for node in sorted(graph)}
    for _ in range(ROUNDS_MAX):
        home = _settle(graph)
        merged: defaultdict[str, list[str]] = defaultdict(list)
        for node, community in home.items():
            merged[community] += members[node]
        if len(merged) == len(members):
            break
        graph, members = _merge(graph, home), dict(merged)
    return sorted(sorted(nodes) for nodes in members.values())


_GAIN_MIN = 1e-12


def _settle(graph: Graph) -> dict[str, str]:
    """Move single nodes until none gains by moving. Returns node → community, named after one of its nodes."""
    degree = {node: sum(graph[node].values()) for node in sorted(graph)}
    total = sum(degree.values()) or 1.0
    home = {node: node for node in degree}
    weight_of = dict(degree)
    for _ in range(ROUNDS_MAX):
        moved = False
        for node, own in degree.items():
            old = home[node]
            weight_of[old] -= own
            ties = _ties(graph[node], node, home)
            gains = {there: tie - own * weight_of[there] / total for there, tie in ties.items()}
            best = max(sorted(gains), key=gains.__getitem__)
            new = best if gains[best] > gains[old] + _GAIN_MIN else old
            weight_of[new] += own
            home[node] = new
            moved = moved or new != old
        if not moved:
            break
    return home


def _ties(edges: Mapping[str, float], node: str, home: Mapping[str, str]) -> dict[str, float]:
    """Add up the edges of a node by the communities that they lead to; its own is always among them."""
    ties = {home[node]: 0.0}
    for neighbour, weight in edges.items():
        if neighbour != node:
            ties[home[neighbour]] = ties.get(home[neighbour], 0.0) + weight
    return ties


def _merge(graph: Graph, home: Mapping[str, str]) -> Graph:
    """Make a graph whose nodes are the communities; what was inside becomes an edge to itself."""
    merged: dict[str, defaultdict[str, float]] = {community: defaultdict(float) for community in sorted(home.values())}
    for node in sorted(graph):
        for neighbour, weight in graph[node].items():
            merged[home[node]][home[neighbour]] += weight
    return merged
