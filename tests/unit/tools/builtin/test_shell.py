"""Tools that run programs: what they return, what they may do to the world, and how they fare in a task."""

import asyncio
import ctypes
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.errors import CommandOutOfTime, OutsideWorkspace, SandboxUnavailable, UsageError, WorkspaceInvalid
from perdure.ids_source import SystemIds
from perdure.model.effect import PRESETS
from perdure.testing import Death
from perdure.tools.builtin import bubblewrap, keeper, sandbox, shell
from perdure.tools.builtin.catalogue import catalogue
from perdure.tools.builtin.sandbox import Limits, _Output
from perdure.tools.offering import offer, offered_parameters
from perdure.tools.recording import record_error
from perdure.workspace import processes
from tests.worlds import DEAD, Play, Stop, World

OPEN = {"sandbox": "off"}
HEAD = "[not isolated: the setting `sandbox` is off]\n"
walls = pytest.mark.skipif(not bubblewrap.find().program, reason=f"nothing is isolated: {bubblewrap.find().reason}")
each_way = pytest.mark.parametrize(
    "settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")]
)


def said(tool, *args, **kwargs):
    """Call a tool without a task; return its result without the line that says that nothing is isolated."""
    result = asyncio.run(tool(*args, **kwargs))
    return {**result, "output": result["output"].removeprefix(HEAD)}


@pytest.fixture
def no_bubblewrap(monkeypatch):
    """A path on which no program is found."""
    monkeypatch.setenv("PATH", "/nowhere")
    bubblewrap.find.cache_clear()
    yield
    bubblewrap.find.cache_clear()


# --- results --------------------------------------------------------------------------------------------------------
@each_way
def test_a_command_says_how_it_ended(settings, tmp_path):
    """Exit code, both streams in the order in which they were written, and whether it was isolated; no failure."""
    result = said(shell.execute_shell, "echo one; echo two >&2; echo three; exit 3", str(tmp_path), settings)
    assert {"exit_code": 3, "output": "one\ntwo\nthree\n", "cut": 0, "isolated": settings == {}} == result


@each_way
@pytest.mark.parametrize(
    ("command", "code"), [("kill -9 $$", 137), ("kill -TERM $$", 143), ("no-such-program", 127), ("exit 255", 255)]
)
def test_exit_codes_are_those_of_shells(command, code, settings, tmp_path):
    """A signal counts from 128 on, a program that is not there is 127."""
    assert code == said(shell.execute_shell, command, str(tmp_path), settings)["exit_code"]


@each_way
def test_a_command_works_in_the_workspace(settings, tmp_path):
    """It starts in the task's folder, which is made if need be, or in the folder of it that is named."""
    folder = tmp_path / "work"
    said(shell.execute_shell, "mkdir -p a/b && echo here > a/b/c", str(folder), settings)
    assert "here\n" == said(shell.execute_shell, "cat c", str(folder), settings, working_dir="a/b")["output"]


@each_way
def test_a_workspace_may_be_reached_through_a_link(settings, tmp_path):
    """The path that the agent knows is the path inside, whatever it stands for."""
    (tmp_path / "real").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "real")
    said(shell.execute_shell, f"echo x > {tmp_path}/named/file", str(tmp_path / "named"), settings)
    assert "x\n" == (tmp_path / "real" / "file").read_text()


@each_way
def test_a_command_is_bash_where_there_is_one(settings, tmp_path):
    """What models write is for bash."""
    result = said(
        shell.execute_shell, "x=(a b); [[ ${x[1]} == b ]] && echo ${BASH_VERSION:+bash}", str(tmp_path), settings
    )
    assert "bash\n" == result["output"]


@each_way
def test_python_code_and_files_run_in_this_python(settings, tmp_path):
    """Code of any length and any letters; a file with its arguments, given as a list or as a line."""
    code = f"import sys, msgspec\nprint(sys.executable, 'größer')\n# {'x' * 300_000}\n"
    assert f"{sys.executable} größer\n" == said(shell.execute_python_code, code, str(tmp_path), settings)["output"]
    (tmp_path / "tell.py").write_text("import sys\nprint(sys.argv)\nsys.exit(4)\n")
    for args in (["a b", "c"], "'a b' c"):
        result = said(shell.execute_python_file, "tell.py", str(tmp_path), settings, args=args)
        assert ("['tell.py', 'a b', 'c']\n", 4) == (result["output"], result["exit_code"])


@each_way
def test_a_command_reads_nothing(settings, tmp_path):
    """A program that asks finds the end of its input at once."""
    assert "1\n" == said(shell.execute_shell, "read line; echo $?", str(tmp_path), settings)["output"]


@each_way
def test_a_command_that_takes_too_long_has_failed(settings, tmp_path):
    """It is a failed call, not one in doubt: everything is ended by then. What it said last is told."""
    with pytest.raises(CommandOutOfTime, match=r"after 1 s.*\nso far") as caught:
        said(shell.execute_shell, "echo so far; sleep 600", str(tmp_path), settings, timeout=1)
    assert "tool" == record_error(caught.value).failure_class


@pytest.mark.parametrize("timeout", [0, -1, 601])
def test_a_timeout_has_bounds(timeout, tmp_path):
    """From one second to ten minutes, as AutoGPT has it; nothing is run otherwise."""
    with pytest.raises(UsageError, match=r"not from 1 to 600 seconds"):
        said(shell.execute_shell, "touch ran", str(tmp_path), OPEN, timeout=timeout)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["echo " + "x" * 131_067, "echo a\0b", "echo \ud800"], ids=["long", "nul", "half"])
def test_what_no_program_can_be_given_is_refused_in_words(text, tmp_path):
    """The model is told what to do instead, and not what the system calls it."""
    (tmp_path / "a.py").touch()
    calls = [(shell.execute_shell, text, {}), (shell.execute_python_file, "a.py", {"args": [text]})]
    if len(text) < 100:
        calls.append((shell.execute_python_code, text, {}))
    for tool, first, more in calls:
        with pytest.raises(UsageError, match="nothing was run"):
            said(tool, first, str(tmp_path), {}, **more)
    assert 0 == said(shell.execute_shell, "echo " + "x" * 131_066, str(tmp_path), {})["exit_code"]


def test_paths_that_lead_out_are_refused(tmp_path):
    """By dots, from the root, or through a link."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "other.py").write_text("print(1)")
    (folder / "link").symlink_to(tmp_path)
    for path in ("../other.py", str(tmp_path / "other.py"), "link/other.py"):
        with pytest.raises(OutsideWorkspace):
            said(shell.execute_python_file, path, str(folder), OPEN)
    with pytest.raises(OutsideWorkspace):
        said(shell.execute_shell, "pwd", str(folder), OPEN, working_dir="..")
    with pytest.raises(UsageError, match="no folder of the workspace"):
        said(shell.execute_shell, "pwd", str(folder), OPEN, working_dir="none")


def test_the_whole_system_is_no_workspace():
    """A task whose folder is the root would give everything away."""
    with pytest.raises(WorkspaceInvalid, match="whole system"):
        said(shell.execute_shell, "pwd", "/", OPEN)


# --- what such a call may do to the world -----------------------------------------------------------------------------
TOOLS = (shell.execute_shell, shell.execute_python_code, shell.execute_python_file)


@walls
@pytest.mark.parametrize("tool", TOOLS, ids=str)
def test_a_confined_call_changes_the_workspace_only(tool):
    """Walled in and without the network it may be made again, once the files are back."""
    assert PRESETS["workspace"] == shell.effect_of(tool, {})
    assert PRESETS["workspace"] == shell.effect_of(tool, {"network": False, "sandbox": "required"})


@pytest.mark.parametrize("tool", TOOLS, ids=str)
@pytest.mark.parametrize("settings", [{"network": True}, OPEN, {"sandbox": "required", "network": True}])
def test_a_call_that_reaches_further_may_do_anything(tool, settings):
    """With the network, or with the user's own rights, it is not made again by itself."""
    assert PRESETS["irreversible"] == shell.effect_of(tool, settings)


@pytest.mark.usefixtures("no_bubblewrap")
def test_without_bubblewrap_a_call_may_do_anything():
    """What cannot be isolated is not taken for confined."""
    assert PRESETS["irreversible"] == shell.effect_of(shell.execute_shell, {})


def test_other_tools_keep_their_effect():
    """Only tools that run programs depend on where they run."""
    other = perdure.tool(effect="pure", name="other")(lambda: None)
    assert PRESETS["pure"] == shell.effect_of(other, OPEN)


def test_they_stand_in_the_catalogue_by_autogpts_names():
    """With the older one that did not wait; a model is asked for no workspace and no settings."""
    found = catalogue()
    names = ("execute_shell", "execute_shell_popen", "execute_python_code", "execute_python_file")
    assert (TOOLS[0], *TOOLS) == tuple(found[name] for name in names)
    asked = [offered_parameters(tool) for tool in TOOLS]
    assert [("command_line", "timeout", "working_dir"), ("code", "timeout"), ("filename", "args", "timeout")] == asked
    assert all("1 to 600" in offer(tool)["description"] for tool in TOOLS)


# --- without bubblewrap -----------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("no_bubblewrap")
def test_where_nothing_is_isolated_that_is_said(tmp_path, caplog):
    """In the head of each result, with what to do about it; in the log once."""
    sandbox._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, "perdure"):
        results = [asyncio.run(shell.execute_shell("echo x", str(tmp_path), {})) for _ in range(2)]
    why = "bubblewrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)"
    assert [(False, f"[not isolated: {why}]\nx\n")] * 2 == [(one["isolated"], one["output"]) for one in results]
    assert [f"programs of the agent are not isolated: {why}"] == [record.getMessage() for record in caplog.records]


@pytest.mark.usefixtures("no_bubblewrap")
def test_where_isolation_is_required_nothing_runs_without(tmp_path):
    """The setting `sandbox = "required"` refuses the call, and says why it cannot be isolated."""
    with pytest.raises(SandboxUnavailable, match="not installed"):
        said(shell.execute_shell, "touch ran", str(tmp_path), {"sandbox": "required"})
    assert [] == list(tmp_path.iterdir())


def test_a_bubblewrap_without_rights_is_found_out(tmp_path, monkeypatch):
    """It is tried before it is believed: one that a container forbids isolates nothing, and its words are passed on."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    bubblewrap.find.cache_clear()
    try:
        found = bubblewrap.find()
    finally:
        bubblewrap.find.cache_clear()
    assert "" == found.program
    assert "may not isolate programs here: bwrap: No permissions to create new namespace" in found.reason


# --- the environment --------------------------------------------------------------------------------------------------
@each_way
def test_nothing_of_this_environment_gets_in_but_language_and_time_zone(settings, tmp_path, monkeypatch):
    """No key, whatever it is called, no home, no settings; a home and a /tmp of its own."""
    for name, value in {"LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "OPENAI_API_KEY": "k", "PGPASSWORD": "p"}.items():
        monkeypatch.setenv(name, value)
    output = said(shell.execute_shell, "env", str(tmp_path), settings)["output"]
    found = dict(line.split("=", 1) for line in output.splitlines())
    allowed = {"LANG", "TZ", "PATH", "HOME", "TMPDIR", "USER", "TERM", "PAGER", "PYTHONUNBUFFERED", "PWD", "SHLVL", "_"}
    assert set() == found.keys() - allowed
    assert ("de_DE.UTF-8", "Asia/Tokyo") == (found["LANG"], found["TZ"])
    assert found["HOME"] == found["TMPDIR"] != str(Path.home())


def test_proxies_get_in_with_the_network_and_without_passwords(monkeypatch):
    """Where the network is allowed its ways are known; one with a password in it is left out."""
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy:3128")
    assert "http://proxy:3128" == sandbox._environment("/tmp", has_network=True)["http_proxy"]
    assert "https_proxy" not in sandbox._environment("/tmp", has_network=True)
    assert "http_proxy" not in sandbox._environment("/tmp", has_network=False)


@walls
def test_whoever_runs_it_is_called_agent_inside(tmp_path):
    """No name of this machine is known within the walls, and a program that asks who it is gets an answer."""
    command = "whoami; id -gn; hostname; cut -d: -f1 /etc/passwd | xargs"
    output = said(shell.execute_shell, command, str(tmp_path), {})["output"]
    assert "agent\nagent\nsandbox\nroot agent nobody\n" == output


@walls
def test_no_program_from_outside_of_the_walls_runs_inside(tmp_path):
    """What runs there was started from read-only files: to root, the file of any other would be open through /proc."""
    command = "for one in /proc/[0-9]*; do readlink $one/exe; done | sort -u | xargs; grep -c . /proc/1/cmdline"
    output = said(shell.execute_shell, command, str(tmp_path), {})["output"]
    assert "bwrap" not in output
    assert "/usr/bin/bash" in output
    code = "import os\nfor pid in filter(str.isdecimal, os.listdir('/proc')):\n"
    code += " try: os.close(os.open(f'/proc/{pid}/exe', os.O_RDWR))\n except OSError as e: print(e.strerror)"
    output = said(shell.execute_python_code, code, str(tmp_path), {})["output"]
    assert {"Read-only file system", "Text file busy"} >= set(output.splitlines()) != set()


@each_way
def test_no_descriptor_of_this_process_gets_in(settings, tmp_path):
    """A program has the three that every program has."""
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        looking = "ls /proc/$$/fd > seen.txt; xargs < seen.txt"
        output = said(shell.execute_shell, looking, str(tmp_path), settings)["output"]
    assert {"0", "1", "2"} == set(output.split()) - {"255"}  # bash's own


@each_way
@pytest.mark.skipif(os.uname().machine not in keeper._KEYCTL, reason="the number of the system call is not known here")
def test_no_key_of_the_kernel_gets_in(settings, tmp_path):
    """What the kernel keeps for the session of this process is not there for a program."""
    number = keeper._KEYCTL[os.uname().machine]
    code = f"import ctypes\nprint(ctypes.CDLL(None).syscall({number}, 0, -3, 1))\n"  # the id of the session keyring
    mine = ctypes.CDLL(None).syscall(number, 0, -3, 1)
    theirs = {int(said(shell.execute_python_code, code, str(tmp_path), settings)["output"]) for _ in range(2)}
    assert 2 == len(theirs - {mine})


# --- output -----------------------------------------------------------------------------------------------------------
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 40))
def test_the_beginning_and_the_end_of_output_are_kept(pieces, half):
    """Whatever the pieces: all of it up to the limit, else so many bytes from both ends, and the rest is counted."""
    output = _Output(Limits(output_bytes=2 * half))
    for piece in pieces:
        output.take(piece)
    whole = b"".join(pieces)
    cut = max(0, len(whole) - 2 * half)
    assert cut == output.cut_bytes
    if cut:
        ends = whole[:half].decode("utf-8", "replace"), whole[-half:].decode("utf-8", "replace")
        assert f"\n[… {cut} bytes left out …]\n".join(ends) == output.text()
    else:
        assert whole.decode("utf-8", "replace") == output.text()


def test_a_long_tail_does_not_grow():
    """However much comes, little more than the limit is held."""
    output = _Output(Limits(output_bytes=1000))
    for _ in range(1000):
        output.take(b"x" * 10_000)
    assert len(output._tail) < 200_000
    assert 10_000_000 - 1000 == output.cut_bytes


# --- in a task --------------------------------------------------------------------------------------------------------
def asking(command, settings):
    """A program that runs one command as the agent does: under the effect that it has here."""

    async def program(task):
        using = task.using(key="c", effect=shell.effect_of(shell.execute_shell, settings))
        return await using.act(shell.execute_shell, command, task.workspace, settings)

    return Play(program)


@pytest.fixture
def world():
    """A world whose tasks have ids of their own, since processes are this machine's."""
    made = World()
    made.ids = SystemIds()
    return made


def lived(world, play, folder, death=None):
    """One life of `play` with a workspace; its result, or DEAD."""
    return world.do(lambda runtime: runtime.run(play, "job", workspace=str(folder)), death)


@walls
@pytest.mark.parametrize("where", ["after_intent", "after_effect"])
def test_a_confined_command_that_was_killed_is_made_again_on_the_files_before_it(world, tmp_path, where):
    """What the first try has written goes back, so that the second does not add to it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "log").write_text("before\n")
    play = asking("echo line >> log; cat log", {})
    assert DEAD == lived(world, play, folder, Death(where))
    assert "before\nline\n" == lived(world, play, folder)["output"]
    assert "before\nline\n" == (folder / "log").read_text()


def test_a_command_that_may_do_anything_is_not_made_again(world, tmp_path):
    """Killed behind its effect it is in doubt, and a person says what became of it."""
    play = asking("echo line >> log", OPEN)
    assert DEAD == lived(world, play, tmp_path / "work", Death("after_effect"))
    with pytest.raises(perdure.NeedsHuman):
        lived(world, play, tmp_path / "work")
    assert "line\n" == (tmp_path / "work" / "log").read_text()


@each_way
def test_what_a_command_has_written_is_in_the_journal(world, tmp_path, settings):
    """Also under the effect of one that may do anything: its files are looked at all the same."""
    lived(world, asking("mkdir d; echo text > d/file", settings), tmp_path / "work")
    assert {"d", "d/file"} == {path for path, _ in world.fold().files.items()}


@each_way
def test_a_command_under_way_belongs_to_its_task(world, tmp_path, settings):
    """A look at the files, or a rollback, finds its processes; when the call's time is over, so are they."""
    seen = []

    async def program(task):
        using = task.using(key="c", timeout_s=1.0)
        running = asyncio.ensure_future(using.act_outcome(shell.execute_shell, "sleep 600", task.workspace, settings))
        while not any("sleep" in one.command for one in processes.find(task.id)):  # noqa: ASYNC110 - of the system
            await asyncio.sleep(0.01)
        seen.append(len(processes.find(task.id)))
        world.clock.advance(2.0)
        seen.append(await running)
        seen.append(len(processes.find(task.id)))
        raise Stop

    with pytest.raises(Stop):
        lived(world, Play(program), tmp_path / "work")
    assert seen[0] >= 2
    assert "no result within 1 s" in str(seen[1])
    assert 0 == seen[2]


@each_way
def test_commands_run_side_by_side(world, tmp_path, settings):
    """Looks at the files, which hold the task's processes still for a moment, cost none of them its end."""

    async def program(task):
        async def one(number):
            command = f"for i in $(seq 20); do echo {number} >> file{number}; sleep 0.01; done"
            using = task.using(key=f"c{number}", effect=shell.effect_of(shell.execute_shell, settings))
            return (await using.act(shell.execute_shell, command, task.workspace, settings))["exit_code"]

        return await asyncio.gather(*map(one, range(4)))

    assert [0, 0, 0, 0] == lived(world, Play(program), tmp_path / "work")
    assert {f"file{number}": 20 for number in range(4)} == {
        path.name: len(path.read_text().splitlines()) for path in (tmp_path / "work").iterdir()
    }


@walls
@pytest.mark.skipif(not shutil.which("git"), reason="there is no git here")
def test_a_repository_in_the_workspace_can_be_worked_with(tmp_path):
    """Its settings and hooks are read-only from the second command on; commits and branches are made all the same."""
    who = "-c user.name=a -c user.email=a@example.org"
    for command in (
        "git init -q",
        f"echo one > file; git add file; git {who} commit -qm one",
        f"git checkout -qb more; echo two >> file; git {who} commit -qam two; git checkout -q -; git merge -q more",
    ):
        result = said(shell.execute_shell, command, str(tmp_path), {})
        assert (0, "") == (result["exit_code"], result["output"].strip())
    assert "2\n" == said(shell.execute_shell, "git log --oneline | wc -l", str(tmp_path), {})["output"]
    assert "Read-only" in said(shell.execute_shell, "echo x > .git/hooks/post-commit", str(tmp_path), {})["output"]
