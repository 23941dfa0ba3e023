"""The first real job under the sweep: the offline digest, killed on its way, writes the same digest.md, byte for byte.

A topic here is one of CPython's own help topics, so the documents are real and always there.
"""

from pathlib import Path
from pydoc_data.topics import topics

import pytest

from tests.crash import playing

FEW = 12  # topics, for the sweep that every run of the tests makes
EVERY = 7  # kill point


def test_the_digest_of_a_few_topics_killed_here_and_there_is_the_same(tmp_path: Path):
    """Killed at every 7th point, resumed, the digest has the same bytes, and no document is read twice."""
    _sweep(tmp_path, FEW, EVERY)


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(EVERY))
def test_the_digest_of_all_topics_killed_at_any_point_is_the_same(tmp_path: Path, offset: int):
    """All 79 topics of the language reference, killed at each point (a seventh of them in each of seven tests)."""
    _sweep(tmp_path, len(topics), EVERY, offset)


def _sweep(folder: Path, count: int, step: int, offset: int = 0) -> None:
    documents = folder / "documents"
    documents.mkdir()
    for name, text in sorted(topics.items())[:count]:
        (documents / f"{name}.txt").write_text(text, "utf-8")
    [undisturbed] = playing.play(str(documents), [[]], folder / "undisturbed")
    points = undisturbed["reached"][0]["any"]
    cases = [[f"any:{number}"] for number in range(1 + offset, points + 1, step)]
    outcomes = playing.play(str(documents), cases, folder / "killed")
    print(f"{len(outcomes)} of {points} points, {sum(len(outcome['kills']) for outcome in outcomes)} kills")

    assert ["digest.md"] == list(undisturbed["files"])
    assert points > 4 * 2 * count  # four points for each document read and each profile drawn from it
    assert [] == playing.not_landed(outcomes)
    assert [] == playing.judge_all(outcomes, undisturbed)
