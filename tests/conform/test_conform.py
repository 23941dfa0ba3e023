"""The public suite `crashresume` (`conform`) passes on perdure, and finds what is wrong with agents written naively."""

import contextlib
import io
from collections import defaultdict

import pytest

from tests.conform.agents import Charges, Subject

crashresume = pytest.importorskip("crashresume", reason="the package crashresume is not installed: no conform run")
selftest = pytest.importorskip("crashresume.cli")

JOBS = ["job-1", "job-2", "job-3"]


def judge(kind, tmp_path):
    """Let the suite judge one kind of agent; each of its scenarios has a folder and a service of its own."""
    charges = defaultdict(Charges)
    with contextlib.ExitStack() as lives:

        def factory(context):
            folder = tmp_path / context.run_id
            folder.mkdir(exist_ok=True)
            subject = Subject(context, kind, folder, charges[context.run_id])
            lives.callback(subject.leave)
            return subject

        return crashresume.conform(factory, JOBS)


@pytest.mark.parametrize("kind", ["keyed", "probed", "programs"])
def test_perdure_conforms(kind, tmp_path):
    """Killed right after each effect and started again: no state lost, no effect again, the same end."""
    report = judge(kind, tmp_path)
    assert (len(JOBS), []) == (report.crash_points, report.findings), str(report)


@pytest.mark.parametrize(
    ("kind", "findings"),
    [
        ("home-made", {"effect_replayed"}),
        ("forgetful", {"resume_diverged", "state_lost"}),
        ("careless", {"effect_replayed"}),
    ],
)
def test_naive_agents_do_not(kind, findings, tmp_path):
    """A state saved after the effect doubles it; a state in memory is lost; and so is who declares a charge as pure."""
    report = judge(kind, tmp_path)
    assert len(JOBS) == report.crash_points
    assert findings == {found.kind for found in report.findings}, str(report)
    assert {1, 2, 3} == {found.crash_after for found in report.findings}


def test_the_suite_finds_its_own_bad_agents():
    """The suite that passes us is one that fails its two broken agents."""
    with contextlib.redirect_stdout(io.StringIO()) as told:
        assert 0 == selftest.main(["--selftest"])
    assert ("effect_replayed" in told.getvalue(), "state_lost" in told.getvalue()) == (True, True)
