"""The page about running unattended does what it says; its cron line and its systemd unit run as they stand there."""

import configparser
import re
import shlex

import pytest

from perdure.cli import exits
from tests.docs import pages
from tests.docs.test_examples import follow, shell, typed_lines

PAGE = pages.ROOT / "docs" / "how-to" / "run-unattended.md"
BLOCKS = pages.blocks_of(PAGE)
PLACE = "/srv/project"


def named(name):
    """Return the text of the page's file `name`."""
    (text,) = [block.text for block in BLOCKS if block.name == name]
    return text


@pytest.fixture
def project(tmp_path):
    """A folder with the files of the page."""
    (tmp_path / ".perdure").mkdir()
    for name in (".perdure/config.toml", "tell.sh", "nightly.py"):
        (tmp_path / name).write_text(named(name), "utf-8")
    return tmp_path


@pytest.fixture
def answered(project):
    """The same, with a task whose question is answered: it is due."""
    (asking, answering) = [block for block in BLOCKS if block.language == "console"]
    assert [] == follow(asking, project)
    answer, _ = typed_lines(answering)[0]
    assert 0 == shell(answer, project).returncode
    return project


def test_the_page_is_what_happens(project):
    """A question without a terminal is exit 3 and fires the hook; answered, the next run of the timer goes on."""
    assert [] == [wrong for block in BLOCKS if block.language == "console" for wrong in follow(block, project)]


def test_the_cron_line_resumes_what_is_due(answered):
    """Five fields of time, and a command that runs in the project's folder."""
    (line,) = [block.text.strip() for block in BLOCKS if block.language == "cron"]
    found = re.fullmatch(r"(?:[\d*/,-]+ ){5}(cd /srv/project && .+)", line)
    done = shell(found[1].replace(PLACE, shlex.quote(str(answered))), answered)
    assert (0, "") == (done.returncode, done.stdout + done.stderr)
    assert "sent: yes" in (answered / "resume.log").read_text("utf-8")


def test_the_unit_resumes_what_is_due(answered):
    """What systemd would run, in the folder that it would run it in; what is no failure is known to it."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(named("perdure.service"))
    service = unit["Service"]
    assert ("oneshot", PLACE) == (service["Type"], service["WorkingDirectory"])
    done = shell(service["ExecStart"], answered)
    assert (0, True) == (done.returncode, "sent: yes" in done.stdout)
    fine = {exits.NEEDS_A_PERSON, exits.PARKED, exits.BUSY}
    assert fine == set(map(int, service["SuccessExitStatus"].split()))


def test_the_timer_is_one():
    """It names no other unit, and is wanted by the timers."""
    timer = configparser.ConfigParser(interpolation=None)
    timer.optionxform = str
    timer.read_string(named("perdure.timer"))
    assert {"OnBootSec", "OnUnitInactiveSec"} == set(timer["Timer"])
    assert "timers.target" == timer["Install"]["WantedBy"]
