"""What a model says to an agent that writes about lamps: the script of the service in `test_run_an_agent.py`."""

from __future__ import annotations

import json

from tests.agent.modelserver import Answer, Asked

PLAN = {
    "steps": [
        {"title": "read the notes"},
        {"title": "write lamps.md", "check": {"kind": "text_contains", "path": "lamps.md", "text": "keeper"}},
        {"title": "count its words", "check": {"kind": "command_succeeds", "command": "wc -w lamps.md"}},
    ],
    "goal_check": {"kind": "judged", "criterion": "lamps.md says what the notes say of lamps"},
}
PLAIN = "# Lamps\n\nThe keeper lights the lamp each evening. It burns oil.\n"
NAMED = "# Lamps\n\nThe keeper lights the lamp each evening (keeper.md). It burns oil (lamp.md).\n"


def keeper(asked: Asked) -> Answer:
    """Plan, read two files at once, write one as people want it, count its words."""
    if "You plan the work" in asked.system:
        return Answer(text=json.dumps(PLAN))
    if "You judge whether" in asked.system:
        return Answer(text=json.dumps({"passed": True, "reason": "the calls show it"}))
    match asked.turn:
        case 0:
            reads = tuple(("read_file", {"filename": name}) for name in ("keeper.md", "lamp.md"))
            return Answer(text="Two notes; I read both.", calls=reads)
        case 2:
            text = NAMED if "name the note" in json.dumps(asked.messages) else PLAIN
            return Answer(calls=(("write_to_file", {"filename": "lamps.md", "contents": text}),))
        case 4:
            return Answer(calls=(("execute_shell", {"command_line": "wc -w lamps.md"}),))
        case 5:
            return Answer(calls=(("step_done", {"result": "lamps.md is written, and its words are counted"}),))
        case _:
            return Answer(text="Done.", calls=(("step_done", {"result": "that is done"}),))
