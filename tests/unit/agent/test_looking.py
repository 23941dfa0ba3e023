"""What a check of a plan finds in the files of a workspace: met, or why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.agent.looking import look


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ({"kind": "file_exists", "path": "note.txt"}, ""),
        ({"kind": "file_exists", "path": "inside/.."}, "is no file of the workspace"),
        ({"kind": "file_exists", "path": "../outside.txt"}, "is no file of the workspace"),
        ({"kind": "file_exists", "path": "leads_out"}, "is no file of the workspace"),
        ({"kind": "file_exists", "path": "nowhere.txt"}, "there is no 'nowhere.txt'"),
        ({"kind": "text_contains", "path": "note.txt", "text": "hello"}, ""),
        ({"kind": "text_contains", "path": "note.txt", "text": "farewell"}, "'farewell' does not stand in"),
        ({"kind": "text_contains", "path": "inside", "text": "x"}, "no file that can be read"),
        ({"kind": "json_valid", "path": "found.json", "keys": ["name"]}, ""),
        ({"kind": "json_valid", "path": "found.json", "keys": ["name", "age"]}, "has no age"),
        ({"kind": "json_valid", "path": "note.txt"}, "is no JSON"),
    ],
)
def test_a_check_is_made_of_what_lies_in_the_workspace(check: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """Nothing outside counts, whether it is named or linked; what is not met says why."""
    workspace = tmp_path / "workspace"
    (workspace / "inside").mkdir(parents=True)
    (workspace / "note.txt").write_text("hello world")
    (workspace / "found.json").write_text('{"name": "ada"}')
    (tmp_path / "outside.txt").write_text("hello")
    (workspace / "leads_out").symlink_to(tmp_path / "outside.txt")
    finding = look.fn(check, str(workspace))
    assert finding["passed"] is (reason == "")
    assert reason in finding["reason"]
