"""Renders the parts of reference pages that say what the code says: entry kinds, the decision table, public names.

Such a part stands between `<!-- name: begin -->` and `<!-- name: end -->`; the rest of a page is written by hand.
`python -m tests.docs.rendering` writes the parts anew, the tests compare. Called by them, and by hand after a change.
"""

import ast
import errno
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import perdure
from perdure.agent.autogpt import table
from perdure.core import strategies
from perdure.core.classify import elsewhere, rows
from perdure.core.effects_table import POINTS, RESUME, ROLLBACK
from perdure.core.recovery import TABLE
from perdure.model import entry
from perdure.model.kinds import KINDS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

# Grouped for reading; a name that stands in no group is reported by the test.
GROUPS = {
    "To begin": ("open", "program", "tool", "migration", "milestone", "spawn"),
    "In the body of a tool": ("charge", "emit", "request_checkpoint"),
    "What you hold": ("Runtime", "Task", "Program", "Tool", "Migration", "Milestone", "MilestoneView"),
    "Hooks that reach people": ("Webhook", "CommandHook"),
    "Recovery": ("Strategy", "variations", "Advice", "Rules", "Patience", "HealthRules"),
    "Values": ("Effect", "EffectKey", "Secret", "Outcome", "Succeeded", "Failed", "InDoubt"),
    "Costs": ("Cost", "Budget", "BudgetState"),
    "How a run ends without a result": (
        "TaskStopped", "TaskPaused", "TaskParked", "NeedsHuman", "ResumeDiverged", "TaskFailed", "TaskCancelled",
        "TaskBusy",
    ),
    "Errors of an action": (
        "ActionFailed", "ActionTimedOut", "OutcomeUnknown", "ReducerFailed", "CheckFailed", "ToolLeftOut",
    ),
    "Other errors": (
        "PerdureError", "UsageError", "Unstorable", "CostInvalid", "CurrencyMismatch", "TaskMismatch", "TaskFinished",
        "StoreError", "RolledBack",
    ),
}  # fmt: skip
# What has no docstring of its own: a union and a NewType.
SAID_HERE = {
    "EffectKey": "Annotates the parameter through which a keyed tool receives its key.",
    "Outcome": "How an action ended: `Succeeded`, `Failed` or `InDoubt`.",
}


def render_kinds() -> str:
    """Return a section for each kind of entry, from the docstrings and comments of `model/entry.py`."""
    source = inspect.getsource(entry)
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    lines = source.splitlines()
    return "\n\n".join(_kind(name, number, classes[kind.__name__], lines) for number, name, kind in KINDS)


def render_order() -> str:
    """Return what is changed first, by class of failure."""
    rows = [
        f"| `{kind}`{' (only by `fall_back`)' if kind in strategies.ELSEWHERE else ''} | "
        f"{', '.join(change.replace('_', ' ') for change in changes)} |"
        for kind, changes in strategies.ORDER.items()
    ]
    return "\n".join(["| class | what is changed first |", "|---|---|", *rows])


def render_decisions() -> str:
    """Return the table of `core/recovery.py`."""
    rows = [f"| `{row.name}` | {row.when} | {row.then} |" for row in TABLE]
    return "\n".join(["| row | when | decision |", "|---|---|---|", *rows])


def render_effects() -> str:
    """Return the two tables of `core/effects_table.py`."""
    resumed = [f"| `{row.retry}` | {' | '.join(row.then)} |" for row in RESUME]
    back = [f"| `{row.undo}` | {row.then} | {row.in_doubt} |" for row in ROLLBACK]
    return "\n".join(
        [
            f"| retry | {' | '.join(f'killed `{point}`' for point in POINTS)} |",
            "|---" * (len(POINTS) + 1) + "|",
            *resumed,
            "",
            "| undo | in a rollback | in doubt |",
            "|---|---|---|",
            *back,
        ]
    )


def render_classes() -> str:
    """Return the tables of `core/classify/`."""
    files = [(f"errno {', '.join(f'`{name}`' for name in sorted(_errnos(found)))}", rule, failure_class)
             for found, rule, failure_class in ((elsewhere.STORAGE_ERRNOS, "os.storage", "storage"),
                                                (elsewhere.NETWORK_ERRNOS, "os.network", "network"))]  # fmt: skip
    calls = f"code {', '.join(map(str, sorted(elsewhere.MCP_CALL_CODES)))}"
    codes = [(f"code {', '.join(str(code) for code, given in elsewhere.MCP_CODES.items() if given == failure_class)}",
              "mcp.CODE", failure_class) for failure_class in dict.fromkeys(elsewhere.MCP_CODES.values())]  # fmt: skip
    reasons = [(f"ended by {', '.join(f'`{reason}`' for reason in found)}", rule, failure_class)
               for rule, failure_class, found in elsewhere.REASONS]  # fmt: skip
    exit_row = ("anything else", "process.exit", "tool")
    tables = {
        "Over HTTP, and events of a stream": _class_rows(rows.HTTP),
        "Sockets, TLS and files": [*_class_rows(elsewhere.TLS), *files, *_class_rows(elsewhere.TYPES)],
        "Processes, by what they wrote to stderr": [*_class_rows(elsewhere.PROCESS), exit_row],
        "MCP": [
            ("a result with `isError`", "mcp.tool_error", "tool"),
            *_class_rows(elsewhere.MCP),
            (calls, "mcp.call", "request"),
            *_class_rows(elsewhere.MCP_WORDS),
            *codes,
        ],
        "Answers with status 200": [*reasons, ("nothing in it, or no JSON", "reply.empty, reply.unreadable", "output")],
    }
    return "\n\n".join(
        "\n".join(
            [f"### {title}", "", "| when | class | rule |", "|---|---|---|"]
            + [f"| {when} | `{failure_class}` | `{rule}` |" for when, rule, failure_class in found]
        )
        for title, found in tables.items()
    )


def render_autogpt() -> str:
    """Return the tables of `agent/autogpt/table.py`."""
    return "\n\n".join(
        "\n".join(
            [
                f"## {' and '.join(f'`{file}`' for file in files.split(', '))}",
                "",
                "| setting | here | |",
                "|---|---|---|",
            ]
            + [f"| `{row.name}` | {row.verdict} | {row.meaning} |" for row in rows]
        )
        for files, rows in table.TABLES.items()
    )


def render_names() -> str:
    """Return a table of public names per group."""
    return "\n\n".join(
        "\n".join([f"### {group}", "", "| name | what it is |", "|---|---|", *map(_name_row, names)])
        for group, names in GROUPS.items()
    )


def render_runtime() -> str:
    """Return the methods of `Runtime`."""
    return _methods(perdure.Runtime)


def render_task() -> str:
    """Return the properties and methods of `Task`."""
    return _methods(perdure.Task)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "kinds": ("journal.md", render_kinds),
    "decisions": ("recovery.md", render_decisions),
    "order": ("recovery.md", render_order),
    "classes": ("recovery.md", render_classes),
    "effects": ("../explanation/effects.md", render_effects),
    "autogpt": ("autogpt-settings.md", render_autogpt),
    "names": ("api.md", render_names),
    "runtime": ("api.md", render_runtime),
    "task": ("api.md", render_task),
}


def part_of(page: str, part: str) -> str:
    """Return what stands between the marks of `part` in the text of a page."""
    found = re.search(_marks(part), page, re.DOTALL)
    if found is None:
        raise ValueError(f"no part {part!r}: write <!-- {part}: begin --> and <!-- {part}: end -->")
    if not (text := found[2].strip("\n")):
        raise ValueError(f"part {part!r} is empty: write anything into it")
    return text


def write_all() -> list[str]:
    """Write every part anew; return the names of the pages that changed."""
    changed = []
    for part, (name, render) in PARTS.items():
        path = REFERENCE / name
        before = path.read_text("utf-8")
        after = before.replace(part_of(before, part), render())
        if after != before:
            path.write_text(after, "utf-8")
            changed.append(f"{name} ({part})")
    return changed


def _class_rows(table: tuple[rows.Row, ...]) -> list[tuple[str, str, str]]:
    return [(row.when, row.rule.replace("{status}", "STATUS"), row.failure_class) for row in table]


def _errnos(numbers: frozenset[int]) -> list[str]:
    return [errno.errorcode[number] for number in numbers]


def _marks(part: str) -> str:
    return rf"(<!-- {part}: begin -->\n)(.*?)(\n<!-- {part}: end -->)"


def _kind(name: str, number: int, node: ast.ClassDef, lines: list[str]) -> str:
    fields = [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]
    rows = [_field_row(field, lines) for field in fields]
    table = ["", "| field | type | |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"### `{name}` ({number})", "", _joined(ast.get_docstring(node) or ""), *table])


def _field_row(field: ast.AnnAssign, lines: list[str]) -> str:
    assert isinstance(field.target, ast.Name)
    kind = ast.unparse(field.annotation).replace("|", "or")
    comment = lines[field.lineno - 1].partition("  # ")[2]
    default = "" if field.value is None else ast.unparse(field.value)
    may_be_absent = f"default `{default}`" if default and default not in {"''", "b''", "NOTHING", "()"} else ""
    said = "; ".join(part for part in (comment.replace("|", "\\|"), may_be_absent) if part)
    return f"| `{field.target.id}` | `{kind}` | {said} |"


def _name_row(name: str) -> str:
    return f"| `perdure.{name}` | {SAID_HERE.get(name) or _first_line(getattr(perdure, name))} |"


def _first_line(thing: object) -> str:
    return _joined(inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")


def _methods(owner: type) -> str:
    shown = []
    members = {name: member for base in reversed(owner.__mro__[:-1]) for name, member in vars(base).items()}
    for name, member in members.items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            shown.append(f"#### `{name}`\n\n{_joined(inspect.getdoc(member) or '')}")
        elif callable(member):
            shown.append(f"#### `{_signature(name, member)}`\n\n{_joined(inspect.getdoc(member) or '')}")
    return "\n\n".join(shown)


def _signature(name: str, method: Callable[..., object]) -> str:
    plain = inspect.unwrap(method)
    signature = inspect.signature(plain)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    text = f"{name}{signature.replace(parameters=parameters, return_annotation=signature.empty)}"
    text = text.replace("(/, ", "(")
    if inspect.isasyncgenfunction(plain):
        return f"async with {text}"
    return f"await {text}" if inspect.iscoroutinefunction(plain) else text


def _joined(text: str) -> str:
    """Return `text` with the lines of each paragraph joined."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


if __name__ == "__main__":
    for name in write_all():
        print(f"written: {name}")
