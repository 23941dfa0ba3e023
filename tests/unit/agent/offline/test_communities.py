"""Communities: what belongs together in a graph comes out together, always in the same way."""

from random import Random

from perdure.agent.offline.communities import communities_of


def graph_of(edges):
    """An undirected graph from (node, node, weight)."""
    graph = {}
    for one, other, weight in edges:
        graph.setdefault(one, {})[other] = weight
        graph.setdefault(other, {})[one] = weight
    return graph


def clique(names, weight=1.0):
    """All edges between `names`."""
    return [(one, other, weight) for place, one in enumerate(names) for other in names[place + 1 :]]


def test_two_cliques_with_a_bridge():
    """A weak edge between two dense parts does not join them."""
    graph = graph_of([*clique("abcd"), *clique("wxyz"), ("a", "z", 0.5)])
    assert [["a", "b", "c", "d"], ["w", "x", "y", "z"]] == communities_of(graph)


def test_a_ring_of_cliques_needs_more_than_one_level():
    """Thirty triangles in a ring come out as whole triangles."""
    edges = [edge for part in range(30) for edge in clique([f"{part:02}{letter}" for letter in "abc"])]
    edges += [(f"{part:02}a", f"{(part + 1) % 30:02}b", 0.1) for part in range(30)]
    found = communities_of(graph_of(edges))
    assert all({f"{node[:2]}{letter}" for letter in "abc"} <= set(nodes) for nodes in found for node in nodes)
    assert 10 <= len(found) <= 30


def test_nodes_without_edges_are_alone():
    """A node with no neighbour is a community of one; an empty graph has none."""
    assert [["a"], ["b"]] == communities_of({"b": {}, "a": {}})
    assert [] == communities_of({})


def test_the_order_of_nodes_and_edges_does_not_matter():
    """The same graph, written down in another order, falls into the same communities."""
    source = Random(7)
    names = [f"n{number}" for number in range(40)]
    edges = [(*sorted(source.sample(names, 2)), source.random()) for _ in range(200)]
    edges = list({(one, other): (one, other, weight) for one, other, weight in edges}.values())
    expected = communities_of(graph_of(edges))
    source.shuffle(edges)
    assert expected == communities_of(graph_of(edges))
