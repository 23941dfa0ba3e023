"""A wait as a person sees it: parked, listed, shown, waited for or skipped."""

import json

RUN = ("run", "--program", "programs.py:patient", "--name", "patient")


def ended(spawn, *arguments):
    """Run one command as a process of its own: its breakers end with it; return (exit code, stdout, stderr)."""
    out, err = (process := spawn(*arguments)).communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def test_a_long_wait_parks_and_can_be_skipped(spawn, perdure):
    """Exit 4 with the time, the same again before it, and the answer at once with --now."""
    code, _, err = ended(spawn, *RUN)
    assert (4, True) == (code, "is parked until" in err)
    assert 4 == ended(spawn, *RUN)[0]
    assert 4 == ended(spawn, "resume", "patient")[0]
    assert "ok   wait: until " in perdure("resume", "patient", "--dry-run")[1]
    _, out, _ = perdure("list")
    (row,) = json.loads(perdure("list", "--json")[1])
    assert f"parked until {row['until'][:16].replace('T', ' ')}" in out
    code, out, _ = ended(spawn, "resume", "patient", "--now")
    assert (0, "answer") == (code, out.splitlines()[-1])


def test_waiting_instead_of_parking_says_until_when(spawn):
    """--wait stays; Ctrl-C ends it, and the task waits on."""
    process = spawn(*RUN, "--wait")
    for line in process.stderr:
        if b"waiting until" in line:
            break
    process.send_signal(2)
    assert 130 == process.wait(30)
    code, _, err = ended(spawn, *RUN)
    assert (4, True) == (code, "is parked until" in err)


def test_show_tells_how_well_what_is_called_works(spawn, perdure):
    """As text and as JSON; the provider beside its tool."""
    ended(spawn, *RUN)
    _, out, _ = perdure("show", "patient")
    assert "tool busy: 0 of 1, valid 0; provider busy service: 0 of 1, valid 0" in out
    shown = json.loads(perdure("show", "patient", "--json")[1])
    assert {"of": "tool busy", "calls": 1, "succeeded": 0, "valid": 0} == {
        key: value for key, value in shown["health"][0].items() if key != "is_bad"
    }
    assert "parked" == shown["status"]


def test_thresholds_of_health_come_from_the_settings(perdure, monkeypatch):
    """A wrong one is refused with its place and an example."""
    monkeypatch.setenv("PERDURE_HEALTH_MIN", "half")
    code, _, err = perdure(*RUN)
    assert 2 == code
    assert "PERDURE_HEALTH_MIN" in err
    assert "50 % of 6" in err
