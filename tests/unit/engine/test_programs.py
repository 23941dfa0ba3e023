"""A program is declared once, found again by another process, and never taken for another one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.codec import values
from perdure.engine.programs import Program, load_program, plain_args, program, source_changed
from perdure.errors import ProgramNotImportable, Unstorable, UsageError
from perdure.model.strategy import Strategy

FIRST = {"pages": [], "seen": {1}}

SOURCE = """
import pathlib
import sibling
from perdure.engine.programs import program

@program(state={"n": 0})
async def report(task, urls, limit=3):
    return sibling.VALUE

renamed = program(name="other name")(report.fn)
text = "not a program"

async def bare(task):
    pass

if __name__ == "__main__":
    pathlib.Path("marker").touch()
"""


@program(state=FIRST, failures_max=2, strategies=[Strategy("a"), Strategy("b")])
async def top(task, urls, *, limit=3):
    """Do the work."""
    return task, urls, limit


@program
async def bare(task):
    """Take no arguments."""


@pytest.fixture
def fresh_imports(monkeypatch):
    """What a test imports is forgotten after it."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


@pytest.fixture
def project(tmp_path, fresh_imports):
    """A folder with a package, a script and a module beside each."""
    for folder in (tmp_path / "proj", tmp_path / "proj" / "jobs"):
        folder.mkdir()
        (folder / "sibling.py").write_text("VALUE = 42\n")
        (folder / "script.py").write_text(SOURCE)
    (tmp_path / "proj" / "jobs" / "nightly.py").write_text(SOURCE)
    return tmp_path / "proj"


def run_python(folder, *args):
    """Run another interpreter in `folder` and return its one line of output."""
    source = Path(sys.modules["perdure"].__path__[0]).parent
    done = subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env={"PYTHONPATH": str(source), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


# ---------------------------------------------------------------- declaring


def test_a_program_keeps_what_was_declared():
    """Options, name and docstring; calling it calls the function."""
    assert ("top", "Do the work.", 2, 1) == (top.name, top.__doc__, top.failures_max, top.state_version)
    assert ["a", "b"] == [strategy.name for strategy in top.strategies]
    with pytest.raises(StopIteration) as ended:
        top("task", "urls").send(None)
    assert ("task", "urls", 3) == ended.value.value


def test_a_bare_decorator_takes_the_defaults():
    """Nothing has to be said."""
    assert ({}, (), 3, None) == (bare.state, bare.strategies, bare.failures_max, bare.state_type)


def test_the_first_state_cannot_be_changed():
    """Neither through the declaration's dict nor through what was read."""
    FIRST["pages"].append("late")
    top.state["pages"].append("later")
    assert values.same({"pages": [], "seen": {1}}, top.state)


def test_a_program_is_frozen():
    """A declaration is a value."""
    with pytest.raises(AttributeError):
        top.failures_max = 9


async def function(task):
    """Not declared."""


async def taskless():
    """Has no place for a task."""


async def by_place(task, urls, /):
    """Cannot be called by names."""


def not_async(task):
    """Is no coroutine function."""


@pytest.mark.parametrize(
    ("fn", "options", "message"),
    [
        (not_async, {}, "async def"),
        (Program, {}, "async def"),
        (taskless, {}, "takes no task"),
        (by_place, {}, "right after the task"),
        (function, {"state": []}, "write a dict"),
        (function, {"state": {"a": {"b": Path("x")}}}, r"\['state'\]\['a'\]\['b'\]"),
        (function, {"failures_max": 0}, "failures_max=0"),
        (function, {"failures_max": True}, "failures_max=True"),
        (function, {"state_version": 0}, "state_version=0"),
        (function, {"strategies": ["direct"]}, "perdure.Strategy"),
        (function, {"strategies": [Strategy("a"), Strategy("a")]}, "the same name"),
        (function, {"strategies": Strategy("a")}, "no list of strategies"),
        (function, {"strategies": None}, "no list of strategies"),
        (function, {"strategies": [Strategy("")]}, "is empty"),
        (function, {"strategies": [Strategy(3)]}, "Expected `str`, got `int` - at `..name`"),
        (function, {"strategies": [Strategy("a", change="banana")]}, "Invalid enum value 'banana' - at `..change`"),
        (function, {"strategies": [Strategy("a", tools="look_up")]}, "Expected `array`, got `str` - at `..tools`"),
        (function, {"strategies": [Strategy("a", prompt=None)]}, "at `..prompt`"),
        (function, {"strategies": [Strategy("a", temperature="hot")]}, "at `..temperature`"),
        (function, {"strategies": [Strategy("a", temperature=float("nan"))]}, "temperature=nan is none"),
        (function, {"reached": function}, "a plain function"),
        (function, {"reached": lambda state, task: True}, "takes the state and nothing else"),
        (function, {"name": ""}, "empty"),
    ],
)
def test_a_wrong_declaration_is_refused(fn, options, message):
    """The refusal says what to write."""
    with pytest.raises(UsageError, match=message):
        program(**options)(fn)


def test_an_unknown_keyword_is_refused():
    """A misspelt option is not passed over."""
    with pytest.raises(TypeError, match="'strategy'"):
        program(strategy=[])


# ---------------------------------------------------------------- arguments


def test_arguments_are_checked_and_copied():
    """What is recorded is not what the caller goes on changing."""
    urls = ["u"]
    args = plain_args(top, {"urls": urls})
    urls.append("v")
    assert {"urls": ["u"]} == args


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "'urls' is missing; its arguments are: urls, limit=…"),
        ({"urls": [], "url": 1}, "does not take 'url'; its arguments are: urls, limit=…"),
        ({"urls": [], "task": 1}, "does not take 'task'"),
    ],
)
def test_wrong_names_are_refused_with_the_right_ones(args, message):
    """Before anything is written."""
    with pytest.raises(UsageError, match=message):
        plain_args(top, args)


def test_an_argument_that_cannot_be_stored_is_refused():
    """With the path to it."""
    with pytest.raises(Unstorable, match=r"\['args'\]\['urls'\]\[1\]"):
        plain_args(top, {"urls": ["u", Path("v")]})


def test_a_program_may_take_any_argument():
    """`**others` takes what has no name of its own."""

    @program
    async def open_handed(task, **others): ...

    assert {"a": 1} == plain_args(open_handed, {"a": 1})


# ---------------------------------------------------------------- the driver


def test_the_driver_leads_back_to_the_program():
    """Import path, the folder it is rooted in, arguments and source; loading gives the very same object."""
    driver = top.driver({"urls": ["u"]})
    assert ("program", "tests.unit.engine.test_programs:top") == (driver.kind, driver.target)
    assert str(Path(__file__).parents[3]) == driver.folder
    assert {"urls": ["u"]} == values.decode(driver.arguments)
    assert top is load_program(driver.target, driver.folder)


def test_what_is_made_inside_a_function_is_refused():
    """No other process could make it again."""

    @program
    async def nested(task): ...

    with pytest.raises(ProgramNotImportable, match="inside a function"):
        nested.driver({})


def test_what_has_no_name_in_its_module_is_refused():
    """The function is there, the program is not."""
    with pytest.raises(ProgramNotImportable, match="no name for it"):
        program(function).driver({})


def test_what_was_typed_in_is_refused(tmp_path):
    """There is no file to load it from."""
    code = """
from perdure.engine.programs import program
from perdure.errors import ProgramNotImportable
@program
async def report(task): ...
try:
    report.driver({})
except ProgramNotImportable as error:
    print(error)
"""
    assert "was typed in and is in no file" in run_python(tmp_path, "-c", code)


@pytest.mark.parametrize(
    ("args", "target", "folder"),
    [
        (["script.py"], "script.py:report", ""),
        (["jobs/script.py"], "script.py:report", "jobs"),
        (["-m", "jobs.nightly"], "jobs.nightly:report", ""),
    ],
)
def test_a_program_of_main_is_found_by_another_process(project, args, target, folder):
    """By its file, or by its import path after `python -m`; loaded there, its `__main__` block does not run."""
    shown = "    d = report.driver({})\n    print(d.target, d.folder, d.source_digest)\n"
    for script in (project / "script.py", project / "jobs" / "script.py", project / "jobs" / "nightly.py"):
        script.write_text(SOURCE + shown)
    found = run_python(project, *args).rsplit(" ", 2)
    assert [target, str(project / folder).rstrip("/")] == found[:2]
    (project / "marker").unlink()
    loaded = load_program(found[0], found[1])
    assert not (project / "marker").exists()
    assert not source_changed(loaded, found[2])
    assert (target, found[1]) == (loaded.driver({}).target, loaded.driver({}).folder)


def test_main_is_not_loaded_twice(project):
    """A script that loads its own program gets the one it has."""
    extra = "    from perdure.engine.programs import load_program\n"
    extra += "    d = report.driver({})\n    print(load_program(d.target, d.folder) is report)\n"
    (project / "jobs" / "nightly.py").write_text(SOURCE + extra)
    assert "True" == run_python(project / "jobs", "nightly.py")
    assert "True" == run_python(project, "-m", "jobs.nightly")


# ---------------------------------------------------------------- loading


@pytest.mark.parametrize("target", ["jobs.nightly:report", "script.py:report", "jobs/script.py:report"])
def test_a_program_is_loaded_once_with_what_lies_beside_it(project, target):
    """From the recorded folder, whatever the current one is; a second load gives the same object."""
    loaded = load_program(target, str(project))
    assert {"n": 0} == loaded.state
    assert loaded is load_program(target, str(project))


def test_a_second_name_is_a_second_program(project):
    """The attribute counts, not the function's name."""
    loaded = load_program("jobs.nightly:renamed", str(project))
    assert "other name" == loaded.name
    assert "jobs.nightly:renamed" == loaded.driver({}).target


def test_app_names_another_place(project, monkeypatch):
    """A moved project is found by target in the current folder; what was recorded is not looked at."""
    monkeypatch.chdir(project)
    assert "report" == load_program("gone:report", "/gone", app="jobs/nightly.py:report").name


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("jobs.nightly", "package.module:name"),
        (":report", "package.module:name"),
        ("jobs.nightly:", "package.module:name"),
        ("jobs.weekly:report", "ModuleNotFoundError"),
        ("weekly.py:report", "there is no file"),
        ("jobs.nightly:reprot", "its programs are: renamed, report"),
        ("jobs.nightly:bare", "@perdure.program"),
        ("jobs.nightly:text", "is a str, not a program"),
    ],
)
def test_what_is_not_there_is_refused_with_target_and_reason(project, target, reason):
    """The target stands in the message, and what to do."""
    with pytest.raises(ProgramNotImportable, match=reason) as refused:
        load_program(target, str(project))
    assert target == refused.value.target


def test_a_folder_that_is_gone_is_refused(project):
    """Nothing is looked for elsewhere."""
    with pytest.raises(ProgramNotImportable, match="is gone"):
        load_program("jobs.nightly:report", str(project / "away"))


@pytest.mark.parametrize("code", ["1 / 0", "import no_such_module", "raise SystemExit(3)", "def broken(:"])
@pytest.mark.parametrize("target", ["bad:report", "bad.py:report"])
def test_an_import_that_raises_keeps_its_cause(project, target, code):
    """The error names target, folder and cause; the next try starts anew."""
    (project / "bad.py").write_text(code + "\n")
    with pytest.raises(ProgramNotImportable, match=r"importing it from '.*proj' raised") as refused:
        load_program(target, str(project))
    assert isinstance(refused.value.__cause__, Exception | SystemExit)
    (project / "bad.py").write_text(f"import sibling  # repaired, longer than {code}\n{SOURCE}")
    assert "report" == load_program(target, str(project)).name


def test_ctrl_c_during_an_import_passes(project):
    """It is no fault of the program's."""
    (project / "bad.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_program("bad.py:report", str(project))


def test_a_module_of_the_same_name_from_elsewhere_is_refused(project, tmp_path):
    """Working with another project's code would be worse than not working."""
    (project / "task_of_two.py").write_text(SOURCE)
    other = tmp_path / "other"
    other.mkdir()
    (other / "task_of_two.py").write_text(SOURCE)
    load_program("task_of_two:report", str(project))
    with pytest.raises(ProgramNotImportable, match="not from the recorded folder"):
        load_program("task_of_two:report", str(other))


def test_a_changed_source_is_told(project):
    """Compared is the file as it was when the program was declared; where nothing is recorded, nothing is said."""
    first = load_program("jobs/script.py:report", str(project))
    recorded = first.driver({}).source_digest
    (project / "jobs" / "script.py").write_text(SOURCE + "\n# changed\n")
    assert not source_changed(first, recorded)
    assert not source_changed(first, "")
    del sys.modules[first.fn.__module__]
    assert source_changed(load_program("jobs/script.py:report", str(project)), recorded)


def test_tools_of_a_strategy_may_be_a_list():
    """They are kept as they will be read from the journal."""
    assert (Strategy("a", tools=("look_up",)),) == program(strategies=[Strategy("a", tools=["look_up"])])(
        function
    ).strategies
