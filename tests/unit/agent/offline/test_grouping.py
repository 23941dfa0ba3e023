"""Grouping: documents on a topic come together, others stay alone, and a group's first terms are common to it."""

import importlib
from collections import Counter
from math import comb
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.agent.offline.grouping import COMMON_TERMS, compare
from perdure.agent.offline.profile import profile_of
from perdure.agent.offline.terms import words_of
from tests.unit.agent.offline.planted import LONERS, TOPICS

FAMILIES = {
    "data": """html.parser html.entities xml.dom.minidom xml.dom.pulldom xml.sax.handler xml.sax.saxutils
        xml.sax.xmlreader xml.sax.expatreader xml.etree.ElementTree xml.etree.ElementPath xml.dom.expatbuilder xml.dom
        xml.sax html json json.decoder json.encoder json.scanner plistlib csv""",
    "concurrency": """asyncio.base_events asyncio.events asyncio.futures asyncio.locks asyncio.queues asyncio.streams
        asyncio.subprocess asyncio.tasks asyncio.transports asyncio.runners threading queue concurrent.futures._base
        concurrent.futures.thread concurrent.futures.process multiprocessing.context multiprocessing.managers
        multiprocessing.pool multiprocessing.connection multiprocessing.shared_memory""",
    "internet": """email.message email.header email.headerregistry email.policy email.charset email.utils
        email.generator email.parser email.feedparser email._policybase http.client http.cookies http.cookiejar
        http.server urllib.request urllib.parse urllib.response urllib.robotparser smtplib ftplib""",
}
FAMILY_OF = {f"{module}.py": family for family, modules in FAMILIES.items() for module in modules.split()}


def compare_texts(texts):
    """Compare documents given as name → text."""
    return compare({name: profile_of(name, text, "utf-8") for name, text in texts.items()})


def labels(comparison):
    """Name → number of its group; a single document is a group of its own."""
    found = {name: number for number, group in enumerate(comparison["groups"]) for name in group["names"]}
    return found | {name: name for name in comparison["single"]}


def adjusted_rand_index(one, other):
    """Agreement of two partitions: 1 when equal, about 0 by chance (Hubert and Arabie 1985)."""
    both = Counter((one[name], other[name]) for name in one)
    together = sum(comb(count, 2) for count in both.values())
    in_one, in_other = (sum(comb(count, 2) for count in Counter(part.values()).values()) for part in (one, other))
    by_chance = in_one * in_other / comb(len(one), 2)
    return (together - by_chance) / ((in_one + in_other) / 2 - by_chance)


def check_promises(comparison, texts):
    """Each document is in one place, and a group's first terms stand in half of its files."""
    places = [name for group in comparison["groups"] for name in group["names"]] + comparison["single"]
    assert sorted(texts) == sorted(places)
    for group in comparison["groups"]:
        assert len(group["names"]) >= 2
        assert len(group["terms"]) >= COMMON_TERMS
        for term in group["terms"][:COMMON_TERMS]:
            holders = [name for name in group["names"] if term in words_of(texts[name])]
            assert 2 * len(holders) >= max(4, len(group["names"]))


def test_the_index_itself_is_right():
    """Equal partitions agree fully, and a known example gives the published value."""
    assert 1.0 == adjusted_rand_index({1: "a", 2: "a", 3: "b"}, {1: 0, 2: 0, 3: 1})
    one = dict(enumerate("aabb"))
    assert pytest.approx(0.5714, abs=1e-4) == adjusted_rand_index(one, dict(enumerate("aabc")))


def test_three_topics_come_out_as_three_groups():
    """Twelve short documents on three topics are three groups of four."""
    texts = {name: text for topic in TOPICS for name, text in topic.items()}
    comparison = compare_texts(texts)
    assert [sorted(topic) for topic in TOPICS] == sorted(
        (sorted(group["names"]) for group in comparison["groups"]), key=[sorted(topic) for topic in TOPICS].index
    )
    check_promises(comparison, texts)


def test_what_fits_no_group_is_single():
    """Two documents on nothing else stay alone among three topics."""
    texts = {name: text for topic in (*TOPICS, LONERS) for name, text in topic.items()}
    comparison = compare_texts(texts)
    assert sorted(LONERS) == comparison["single"]
    assert [4, 4, 4] == [len(group["names"]) for group in comparison["groups"]]


def test_a_folder_of_one_topic_is_one_group():
    """Four documents on bees and nothing else are a group, though what they share is in all of them."""
    comparison = compare_texts(TOPICS[0])
    assert [sorted(TOPICS[0])] == [sorted(group["names"]) for group in comparison["groups"]]


def test_sixty_real_documents_of_three_families():
    """The docstrings of sixty modules of three families of the standard library are told apart."""
    sources = {
        f"{name}.py": Path(importlib.import_module(name).__file__) for name in " ".join(FAMILIES.values()).split()
    }
    texts = {name: path.read_text(encoding="utf-8") for name, path in sources.items()}
    comparison = compare_texts(texts)
    assert 60 == len(texts)
    assert adjusted_rand_index(FAMILY_OF, labels(comparison)) >= 0.5
    check_promises(comparison, texts)


def test_real_documents_among_strangers():
    """Four documents on bees among sixty on programming are found as a group, two loners as none."""
    texts = {name: text for topic in (TOPICS[0], LONERS) for name, text in topic.items()}
    for name in " ".join(FAMILIES.values()).split():
        texts[f"{name}.py"] = Path(importlib.import_module(name).__file__).read_text(encoding="utf-8")
    comparison = compare_texts(texts)
    assert sorted(TOPICS[0]) in [sorted(group["names"]) for group in comparison["groups"]]
    assert set(LONERS) <= set(comparison["single"])


def test_singular_and_plural_count_as_one():
    """`queries` and `query` are one term, shown once, as a word that stands in the files."""
    texts = {
        "a.txt": "A query planner rewrites every query. The index serves the planner.",
        "b.txt": "Slow queries need an index. The planner orders queries by cost.",
        "c.txt": "The cost of queries depends on the index that the planner takes.",
    }
    terms = compare_texts(texts)["groups"][0]["terms"]
    assert 1 == len({"query", "queries"} & set(terms))
    check_promises(compare_texts(texts), texts)


def test_the_order_of_documents_does_not_matter():
    """The same documents in another order give the same comparison."""
    texts = {name: text for topic in (*TOPICS, LONERS) for name, text in topic.items()}
    assert compare_texts(texts) == compare_texts(dict(reversed(texts.items())))


@pytest.mark.parametrize("texts", [{}, {"a.txt": ""}, {"a.txt": "", "b.txt": ""}, {"a.txt": "One bee."}])
def test_few_or_empty_documents_are_single(texts):
    """Nothing to compare is no error."""
    comparison = compare_texts(texts)
    assert sorted(texts) == comparison["single"]
    assert [] == comparison["groups"]


VOCABULARY = [
    f"{syllable}{ending}" for syllable in ("bee", "wax", "hive", "sun", "moon", "loaf") for ending in ("lo", "s", "")
]
TEXTS = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=25).map(" ".join), max_size=12)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_the_promises_hold_for_any_documents(texts):
    """Whatever the documents: each is in exactly one place, and the first terms of a group are common to it."""
    named = {f"{number:02}.txt": text for number, text in enumerate(texts)}
    check_promises(compare_texts(named), named)
