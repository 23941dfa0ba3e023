"""Programs of the agent try to get out of the sandbox: to files, processes, networks, memory, and past their own end.

Each attempt is made twice: without walls, where it has to come off (else it would show nothing), and within them.
"""

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from perdure.errors import CommandOutOfTime
from perdure.tools.builtin import bubblewrap, keeper, sandbox
from perdure.tools.builtin.sandbox import Limits, Order

HERE = bubblewrap.find()
walls = pytest.mark.skipif(not HERE.program, reason=f"nothing is isolated here: {HERE.reason}")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched on Linux only")
SECRET = "the-secret-outside"
OPEN = {"sandbox": "off"}
MIB = 1024 * 1024
SYSTEM_PYTHON = Path("/usr/bin/python3")


def run(command, workspace, settings=None, text=None, **limits):
    """Run a shell command (or Python code, given as `text`) as the tools do."""
    argv = ("/bin/bash", "-c", command) if text is None else (sys.executable, "-")
    order = Order(argv=argv, workspace=str(workspace), text=text, limits=Limits(**{"wall_s": 60.0, **limits}))
    return asyncio.run(sandbox.run(order, settings or {}))


class Place:
    """A task's folder beside a store, a home, and what is none of the agent's business."""

    def __init__(self, root):
        self.root = root
        self.outside = root / "outside"
        self.home = root / "home"
        self.workspace = root / "project" / ".perdure" / "workspaces" / "t1"
        for folder in (
            self.outside,
            self.home / ".ssh",
            self.workspace / ".git" / "hooks",
            self.workspace / ".perdure",
        ):
            folder.mkdir(parents=True)
        for secret in (
            self.outside / "secret",
            self.home / ".ssh" / "id",
            self.workspace.parents[1] / "perdure.db",
            self.workspace / ".perdure" / "config.toml",
        ):
            secret.write_text(SECRET)
        (self.workspace / ".git" / "config").write_text("[core]\n")
        (self.workspace / "link").symlink_to(self.outside / "secret")
        (self.workspace / "folder").symlink_to(self.outside)

    def traces(self):
        """What stands outside, and in what is protected inside."""
        seen = {}
        for top in (self.outside, self.home, self.workspace / ".git", self.workspace / ".perdure"):
            seen |= {path: path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}
        return seen


ASK = "import socket\ns = socket.create_connection(('127.0.0.1', {port}), 5)\nprint(s.recv(99))"

READING = {
    "dots": "cat ../../../../outside/secret",
    "absolute path": "cat {outside}/secret",
    "a link that was there": "cat link",
    "a linked folder": "cat folder/secret",
    "a link of its own": "ln -s {outside} mine && cat mine/secret",
    "the root of a process": "cat /proc/{pid}/root{outside}/secret",
    "the folder of a process": "cat /proc/{pid}/cwd/secret",
    "home": "cat {home}/.ssh/id",
    "the store": "cat ../../perdure.db",
    "settings of perdure in the workspace": "cat .perdure/config.toml",
    "a hard link": "ln {outside}/secret hard && cat hard",
    "an archive of it all": "tar -cf - -C {root} . | strings",
    "whatever can be found": "find {root} /home /root /srv /mnt -maxdepth 3 -name secret -exec cat {{}} +",
    "keys in the environment of others": "cat /proc/*/environ",
    "keys of its parent": "cat /proc/$PPID/environ /proc/1/environ /proc/{pid}/environ",
    "the command lines of others": "cat /proc/*/cmdline",
    "the arguments of others": "ps -ef",
    "a socket outside": "python3 - <<'E'\nimport socket\ns = socket.socket(socket.AF_UNIX)\n"
    "s.connect('{socket}')\nprint(s.recv(99))\nE",
    "a socket without a path": "python3 - <<'E'\nimport socket\ns = socket.socket(socket.AF_UNIX)\n"
    "s.connect('\\0{abstract}')\nprint(s.recv(99))\nE",
    "the network": f"python3 - <<'E'\n{ASK}\nE",
    "the network by bash": "exec 3<>/dev/tcp/127.0.0.1/{port} && head -c 18 <&3",
    "the network by another address": "python3 - <<'E'\nimport socket\n"
    "s = socket.create_connection(('127.9.9.9', {port}), 5)\nprint(s.recv(99))\nE",
}

if os.getuid() == 0:  # it writes what stands there, and tells of it
    READING["settings of the kernel"] = (
        'v=$(cat /proc/sys/kernel/core_pattern); echo "$v" > /proc/sys/kernel/core_pattern && echo ' + SECRET
    )

WRITING = {
    "a file outside": "echo x > {outside}/new",
    "over a file outside": "echo x > {outside}/secret",
    "through a link": "echo x > link",
    "through a linked folder": "echo x > folder/new",
    "through a link of its own": "ln -s {outside} mine; echo x > mine/new",
    "a file outside away": "rm {outside}/secret",
    "a folder outside away": "mv {outside} {root}/elsewhere",
    "home": "echo x >> {home}/.ssh/authorized_keys",
    "the root of a process": "echo x > /proc/{pid}/root{outside}/new",
    "a hook of git": "echo x > .git/hooks/post-commit",
    "the settings of git": "echo x >> .git/config",
    "git itself, by another one": "mv .git old; mkdir .git; echo x > .git/config",
    "settings of perdure in the workspace": "echo x > .perdure/config.toml",
    "settings of perdure away": "rm -r .perdure",
    "the packages of Python": "touch {prefix}/escaped-{pid}",
    "a process outside": "kill -9 {victim}",
    "a stopped process outside": "kill -STOP {victim}",
    "a namespace of its own": "unshare -U true && touch {outside}/new; unshare -U true && echo x > in-namespace",
}


@contextmanager
def told(family, address):
    """A server that tells the secret to whoever reaches it."""
    with socket.socket(family) as server:
        server.bind(address)
        server.listen(50)

        def serve():
            while True:
                try:
                    visitor, _ = server.accept()
                except OSError:
                    return
                with visitor:
                    visitor.sendall(SECRET.encode())

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield server.getsockname()
        finally:
            server.shutdown(socket.SHUT_RDWR)


@contextmanager
def stage(root, monkeypatch):
    """A place, with a process and servers outside, and secrets in the environment of this process."""
    place = Place(root)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    abstract, path = f"perdure{root}", str(root / "s")
    with (
        told(socket.AF_INET, ("0.0.0.0", 0)) as (_, port),
        told(socket.AF_UNIX, f"\0{abstract}"),
        told(socket.AF_UNIX, path),
        subprocess.Popen(["bash", "-c", f"exec -a {SECRET} sleep 600"], cwd=place.outside) as victim,
    ):
        try:
            names = {"outside": place.outside, "home": place.home, "root": root, "pid": victim.pid}
            names |= {"socket": path, "abstract": abstract, "port": port, "victim": victim.pid, "prefix": sys.prefix}
            yield place, names, victim
        finally:
            victim.kill()


def is_harmed(victim):
    """Whether the process outside is over or held still."""
    stat = Path(f"/proc/{victim.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] in "ZXTt"


def comes_off(kind, name, settings, root, monkeypatch):
    """Make one attempt in a place of its own; whether it got anything out of it."""
    command = {"reading": READING, "writing": WRITING}[kind][name]
    with stage(root, monkeypatch) as (place, names, victim):
        before = place.traces()
        mark = Path(sys.prefix, f"escaped-{victim.pid}")
        try:
            # With the user's own rights the environment is cleared as well, so these keys are in that of others.
            said = run(command.format(**names), place.workspace, settings)
            if kind == "reading":
                return SECRET in said["output"]
            return place.traces() != before or mark.exists() or is_harmed(victim) or is_in_namespace(place)
        finally:
            mark.unlink(missing_ok=True)


def is_in_namespace(place):
    """Whether it said that it could make itself a namespace."""
    return (place.workspace / "in-namespace").exists()


@walls
@pytest.mark.parametrize("kind", ["reading", "writing"])
def test_no_attempt_on_files_processes_and_networks_comes_off(kind, tmp_path, monkeypatch):
    """What an attempt reaches with the user's own rights it does not reach within the walls."""
    attempts = {"reading": READING, "writing": WRITING}[kind]
    got, vain = [], []
    for place, name in enumerate(attempts):
        (tmp_path / f"o{place}").mkdir()
        (tmp_path / f"i{place}").mkdir()
        if not comes_off(kind, name, OPEN, tmp_path / f"o{place}", monkeypatch):
            vain.append(name)
        if comes_off(kind, name, {}, tmp_path / f"i{place}", monkeypatch):
            got.append(name)
    print(f"{len(attempts)} escapes by {kind}: {len(got)} came off within the walls, {len(vain)} in vain without them")
    assert attempts
    assert ([], []) == (got, vain)


@walls
def test_the_network_is_reached_where_it_is_allowed(tmp_path):
    """With the setting `network`, and only with it, a program reaches a server of this machine."""
    command = f"python3 - <<'E'\n{ASK}\nE"
    with told(socket.AF_INET, ("127.0.0.1", 0)) as (_, port):
        reached = [
            SECRET in run(command.format(port=port), tmp_path, settings)["output"]
            for settings in ({"network": True}, {"network": False}, {})
        ]
    assert [True, False, False] == reached


# --- past its own end -----------------------------------------------------------------------------------------------
STAYING = {
    "in the background": "sleep {mark} &",
    "with the output held open": "(sleep {mark}; echo late) & echo early",
    "in a session of its own": "setsid sleep {mark} &",
    "without a parent": "(setsid nohup sleep {mark} >/dev/null 2>&1 &)",
    "as a daemon": "python3 - <<'E'\nimport os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
    "        os.execvp('sleep', ['sleep', '{mark}'])\nE",
    "deaf to signals": "(trap '' TERM INT HUP; sleep {mark}) &",
    "held still": "sleep {mark} & kill -STOP $!",
    "begun again and again": "(while :; do setsid sleep {mark} & sleep 0.001; done) &",
}


def marked():
    """Return a text that stands in the arguments of a program, and in nobody else's."""
    marked.count += 1
    return f"600.{os.getpid()}{marked.count:04d}"


marked.count = 0


def living(mark):
    """Return the processes with `mark` in their arguments that are not over."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and mark.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def is_at_work(mark):
    """Whether a command has come so far that the sleepers that it starts sleep."""
    return any(Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep") for pid in living(mark))


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
def test_nothing_outlives_its_command(settings, tmp_path):
    """Whatever a command leaves behind is over when its result is there, and its output does not wait for it."""
    stayed = []
    for name, command in STAYING.items():
        mark = marked()
        began = time.monotonic()
        said = run(command.format(mark=mark), tmp_path, settings)
        if living(mark) or said["exit_code"] or time.monotonic() - began > 30:
            stayed.append(name)
    print(f"{len(STAYING)} ways to outlive a command: {len(stayed)} came off")
    assert STAYING
    assert [] == stayed


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
@pytest.mark.parametrize("command", ["while :; do :; done", "sleep 600", "trap '' TERM; sleep 600", "yes >/dev/null"])
def test_an_endless_command_is_ended(command, settings, tmp_path):
    """At its time-out it is ended with all that it has started, and the error has the end of what it said."""
    mark = marked()
    began = time.monotonic()
    with pytest.raises(CommandOutOfTime) as caught:
        run(f"echo begun; setsid sleep {mark} & {command}", tmp_path, settings, wall_s=1.0)
    assert time.monotonic() - began < 10
    assert "begun\n" == caught.value.said
    assert [] == living(mark)


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
def test_a_cancelled_command_is_over_before_its_caller_goes_on(settings, tmp_path):
    """The cancellation is passed on once nothing of it is left."""
    mark = marked()

    async def cancel():
        order = Order(argv=("/bin/sh", "-c", f"setsid sleep {mark} & sleep {mark}"), workspace=str(tmp_path))
        running = asyncio.ensure_future(sandbox.run(order, settings))
        while len(living(mark)) < 3:  # noqa: ASYNC110 - the shell, and two that sleep
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return living(mark)

    assert [] == asyncio.run(cancel())


ROOT = Path(__file__).parents[2]
ACTING = """
import asyncio, json, sys
from perdure.tools.builtin.sandbox import Order, run
command, workspace, settings = json.loads(sys.argv[1])
asyncio.run(run(Order(argv=("/bin/bash", "-c", command), workspace=workspace), settings))
"""


@contextmanager
def acting(command, workspace, settings):
    """Another process that runs a command as the tools do."""
    argv = [sys.executable, "-c", ACTING, json.dumps([command, str(workspace), settings])]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, stderr=subprocess.DEVNULL) as it:
        try:
            yield it
        finally:
            it.kill()


def until(holds, within_s=20.0):
    """Wait until `holds()`; whether it came to that."""
    end = time.monotonic() + within_s
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
def test_nothing_outlives_a_perdure_that_is_killed(settings, tmp_path):
    """After SIGKILL to the process that runs a command, all that the command has started is over."""
    for command in ("setsid sleep {mark} & sleep {mark}", "(setsid nohup sleep {mark} &); exec sleep {mark}"):
        mark = marked()
        with acting(command.format(mark=mark), tmp_path, settings) as perdure:
            assert until(lambda mark=mark: is_at_work(mark))
            perdure.kill()
            perdure.wait()
            assert until(lambda mark=mark: not living(mark))


@walls
def test_nothing_outlives_a_keeper_that_is_killed(tmp_path):
    """Within the walls, a keeper that is killed takes everything with it; its control group goes with the next one."""
    mark = marked()
    with acting(f"setsid sleep {mark} & sleep {mark}", tmp_path, {}) as perdure:
        assert until(lambda: is_at_work(mark))
        children = [file.read_text() for file in Path(f"/proc/{perdure.pid}").glob("task/*/children")]
        (pid,) = "".join(children).split()
        os.kill(int(pid), signal.SIGKILL)
        assert until(lambda: not living(mark))
        assert until(lambda: not Path(f"/proc/{pid}").exists())
    run("true", tmp_path)
    assert [] == list(Path("/sys/fs/cgroup").rglob(f"perdure-{pid}"))


# --- more than its share --------------------------------------------------------------------------------------------
BOMBS = {
    "by the shell": "bomb() { bomb | bomb & }; bomb; sleep 1",
    "by forks": "python3 -c 'import os\nwhile True: os.fork()'",
    "by sessions": "python3 -c 'import os\nwhile True: os.fork() or os.setsid()'",
    "by threads": "python3 -c 'from threading import *\nwhile True: Thread(target=Event().wait, daemon=True).start()'",
}


def may_make_groups():
    """Whether the keeper can make a control group of processes."""
    made = keeper._make_group(10)
    if made:
        os.rmdir(made)
    return bool(made)


@contextmanager
def counting(mark):
    """The most processes with `mark` that are seen at once, as the only item of a list."""
    seen, is_over = [0], threading.Event()

    def count():
        while not is_over.wait(0.02):
            seen[0] = max(seen[0], len(living(mark)))

    counter = threading.Thread(target=count)
    counter.start()
    try:
        yield seen
    finally:
        is_over.set()
        counter.join()


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
@pytest.mark.skipif(os.getuid() == 0 and not may_make_groups(), reason="root, and no control group of processes here")
def test_a_fork_bomb_goes_off_alone(settings, tmp_path):
    """The kernel refuses more processes and threads than the limit; nothing of the bomb is left."""
    went_off, most = [], 0
    for name, command in BOMBS.items():
        mark = marked()
        with counting(mark) as seen:
            said = run(f"{command} # {mark}", tmp_path, settings, tasks=100, wall_s=20.0)
        most = max(most, seen[0])
        is_held = any(text in said["output"] for text in ("more than 100 processes", "unavailable", "can't start"))
        if living(mark) or not is_held:
            went_off.append((name, said["exit_code"], said["output"][-200:]))
    print(f"{len(BOMBS)} fork bombs of {most} processes at most: {len(went_off)} went off")
    assert BOMBS
    assert [] == went_off
    assert 20 < most <= 100


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
def test_ten_gigabytes_of_output_are_cut(settings, tmp_path):
    """Neither memory nor disk fills: the beginning and the end are kept, the command is ended, a note says so."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = run("echo first; head -c 10G /dev/zero | tr '\\0' x; echo last", tmp_path, settings)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 64 * MIB
    assert len(said["output"]) < 5 * MIB
    assert said["output"].removeprefix("[not isolated: the setting `sandbox` is off]\n").startswith("first\nxxx")
    assert "bytes left out" in said["output"]
    assert said["output"].endswith("\n[ended: more than 256 MiB of output]")
    assert 256 * MIB < said["cut"] + 4 * MIB < 300 * MIB


def test_much_output_is_read_to_its_end(tmp_path):
    """A command that says much and not too much ends by itself; the middle of what it said is left out."""
    said = run("echo first; seq 1000000; echo last; exit 7", tmp_path, {} if HERE.program else OPEN)
    assert said["output"].endswith("999999\n1000000\nlast\n")
    assert 7 == said["exit_code"]
    assert said["cut"] > 1 * MIB


FILLING = {
    "one file": ("head -c 10G /dev/zero > big; ls -s", 64 * MIB),
    "by a file that is full of holes": ("truncate -s 10G big", 64 * MIB),
}


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
@pytest.mark.parametrize("name", FILLING)
def test_one_file_does_not_fill_the_disk(name, settings, tmp_path):
    """A file ends at the limit."""
    command, most = FILLING[name]
    run(command, tmp_path, settings, file_bytes=most)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= most


@walls
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/var/tmp"])
def test_private_folders_are_small(place, tmp_path):
    """What is not the workspace has an end as well, and is gone with the command."""
    said = run(f"head -c 10G /dev/zero > {place}/big; stat -c %s {place}/big", tmp_path)
    assert "No space left on device" in said["output"]
    assert int(said["output"].split()[-1]) <= 256 * MIB
    assert "gone\n" == run(f"test -e {place}/big || echo gone", tmp_path)["output"]


HOGS = {
    "alone": "x = bytearray(8 << 30)",
    "piece by piece": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "with others": "import os\nfor _ in range(8): os.fork()\nx = b'y' * (100 << 20)\nimport time; time.sleep(30)",
    "in shared memory": "import mmap\nx = mmap.mmap(-1, 4 << 30)\nfor at in range(0, 4 << 30, 4096): x[at] = 1",
}


@pytest.mark.parametrize("settings", [pytest.param({}, marks=walls, id="walled"), pytest.param(OPEN, id="open")])
def test_memory_has_an_end(settings, tmp_path):
    """Alone or with others, in its own memory or in shared memory: it is refused more, or the command is ended."""
    got = []
    for name, code in HOGS.items():
        said = run("", tmp_path, settings, text=code, memory_bytes=256 * MIB, tasks=1000, wall_s=25.0)
        if not ("MemoryError" in said["output"] or "more than 256 MiB of memory" in said["output"]):
            got.append((name, said["exit_code"], said["output"][-200:]))
    print(f"{len(HOGS)} ways to take all memory: {len(got)} came off")
    assert HOGS
    assert [] == got


@pytest.mark.skipif(os.getuid() != 0 or not SYSTEM_PYTHON.exists(), reason="not root, or no Python that others may run")
def test_another_user_than_root_is_held_without_a_control_group(tmp_path):
    """Where nobody may make a group, the number of processes that a user may have is the limit: it goes for no root."""
    source = Path(keeper.__file__).read_text()
    limits = msgspec.to_builtins(Limits(wall_s=20.0, tasks=60))
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 1"
    order = {"argv": ["/bin/bash", "-c", bomb], "cwd": "/", "env": {}, "input": None, "limits": limits}
    argv = [str(SYSTEM_PYTHON), "-I", "-S", "-c", source]
    options = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/", "env": {}}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(argv, **pipes, **options) as process:
        process.stdin.write(json.dumps({**order, "is_isolated": False}).encode() + b"\n")
        process.stdin.flush()
        said, report = process.stdout.read(), json.loads(process.stderr.read())
    assert b"Resource temporarily unavailable" in said
    assert {"exit_code": 0, "ended": ""} == report
