"""Pages agree with the code and with each other: tables, names, links, length."""

import re
from typing import get_args

import pytest

import perdure
from perdure.core.classify import elsewhere, rows
from perdure.model.effect import PRESETS
from perdure.model.failure import FailureClass
from perdure.model.status import Status
from tests.docs import pages, rendering

ROOT = pages.ROOT
ARCHITECTURE_LINES_MAX = 300


@pytest.mark.parametrize("part", rendering.PARTS)
def test_reference_says_what_the_code_says(part):
    """A rendered part is as the code gives it today; `python -m tests.docs.rendering` writes it anew."""
    name, render = rendering.PARTS[part]
    assert render() == rendering.part_of((rendering.REFERENCE / name).read_text("utf-8"), part)


def test_every_public_name_is_in_the_reference():
    """The groups of api.md are exactly `perdure.__all__`."""
    assert sorted(perdure.__all__) == sorted(name for names in rendering.GROUPS.values() for name in names)


def test_every_preset_is_explained():
    """effects.md has a row for each preset, with its two answers."""
    text = (ROOT / "docs" / "explanation" / "effects.md").read_text("utf-8")
    rows = re.findall(r'^\|[^|]*\| `effect="(\w+)"[^|]*\| `(\w+)` \| `(\w+)` \|$', text, re.MULTILINE)
    assert {name: (effect.retry, effect.undo) for name, effect in PRESETS.items()} == {n: (r, u) for n, r, u in rows}


def test_every_status_is_in_the_glossary():
    """The glossary names each status of a task."""
    line = next(row for row in (ROOT / "GLOSSARY.md").read_text("utf-8").splitlines() if row.startswith("| status |"))
    assert set(get_args(Status)) <= set(re.findall(r"`(\w+)`", line))


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Each link inside the repository leads to a file that exists, and to a heading of it."""
    broken = [
        link
        for link, target, heading in pages.links_of(page)
        if not target.exists() or (heading and heading not in pages.headings_of(target))
    ]
    assert [] == broken


def test_every_class_that_an_error_can_have_is_explained():
    """recovery.md names each class that a table gives, and those that need none."""
    text = (ROOT / "docs" / "reference" / "recovery.md").read_text("utf-8").partition("## Which class an error has")[2]
    tables = (rows.HTTP, elsewhere.TLS, elsewhere.TYPES, elsewhere.PROCESS, elsewhere.MCP, elsewhere.MCP_WORDS)
    given = {row.failure_class for table in tables for row in table}
    given |= {failure_class for _, failure_class, _ in elsewhere.REASONS} | set(elsewhere.MCP_CODES.values())
    assert set() == given - set(get_args(FailureClass))
    assert set() == set(get_args(FailureClass)) - set(re.findall(r"`(\w+)`", text))


def test_every_page_is_in_the_index():
    """docs/README.md links every page below it."""
    index = ROOT / "docs" / "README.md"
    linked = {target for _, target, _ in pages.links_of(index)}
    assert [] == sorted(str(page) for page in (ROOT / "docs").rglob("*.md") if page != index and page not in linked)


def test_decisions_are_numbered_without_gaps():
    """Decisions are numbered from 1, and the title of each begins with its number."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert list(range(1, len(decisions) + 1)) == [int(page.name[:4]) for page in decisions]
    titles = [page.read_text("utf-8").partition("\n")[0] for page in decisions]
    assert [f"# {number}. " for number in range(1, len(decisions) + 1)] == [re.match(r"# \d+\. ", t)[0] for t in titles]


def test_the_tour_is_short():
    """ARCHITECTURE.md can be read in twelve minutes."""
    assert ARCHITECTURE_LINES_MAX >= len((ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines())


def test_the_tour_names_modules_that_exist():
    """Every module path in ARCHITECTURE.md is one of the package."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|\.sql|/))`", text))
    package = ROOT / "src" / "perdure"
    # In the table of rooms, names stand without their folder.
    alone = {path.name + "/" * path.is_dir() for path in package.rglob("*")}
    missing = [name for name in named if name not in alone and not any((at / name).exists() for at in (package, ROOT))]
    assert [] == sorted(missing)
    assert named


def test_the_version_has_its_changes():
    """The newest section of CHANGELOG.md is about the version that the package says."""
    found = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert found
    assert perdure.__version__ == found[1]
