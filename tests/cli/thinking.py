"""What a model says to an agent that writes a note: the script of the service in `test_agents.py`."""

from __future__ import annotations

import json

from tests.agent.modelserver import Answer, Asked

PLAN = {
    "steps": [
        {"title": "write the note", "check": {"kind": "text_contains", "path": "note.txt", "text": "hello"}},
        {"title": "look at it", "check": {"kind": "command_succeeds", "command": "test -f note.txt"}},
    ],
    "goal_check": {"kind": "judged", "criterion": "the note is there"},
}


def note(asked: Asked) -> Answer:
    """Plan, write, look, finish."""
    if "You plan the work" in asked.system:
        return Answer(text=json.dumps(PLAN))
    if "You judge whether" in asked.system:
        return Answer(text=json.dumps({"passed": True, "reason": "the calls show it"}))
    match asked.turn:
        case 0:
            writes = ("write_to_file", {"filename": "note.txt", "contents": "hello world"})
            return Answer(text="I write it, and look around.", calls=(writes, ("list_folder", {"folder": "."})))
        case 2:
            return Answer(calls=(("execute_shell", {"command_line": "ls"}), ("read_file", {"filename": "note.txt"})))
        case _:
            return Answer(text="It is done.", calls=(("step_done", {"result": f"done in turn {asked.turn}"}),))
