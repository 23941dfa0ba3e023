"""`perdure.sync`: plain programs in the caller's thread, the loop in the portal's, and nothing lost between the two."""

import asyncio
import inspect
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import perdure
import perdure.sync
from perdure.clock import SystemClock
from perdure.engine.loading import load_fold
from perdure.errors import EditOpen, LoopBlocked, NestedAct
from perdure.stores.memory import MemoryStore, MemoryWorld
from tests.worlds import until

ROOT = Path(__file__).parents[2]
HERE = threading.get_ident


@perdure.tool(effect="pure", quick=True)
def double(n: int) -> int:
    """Twice n."""
    return 2 * n


@perdure.tool(effect="pure")
async def halve(n: int) -> int:
    """Half of n, on the loop."""
    return n // 2


@perdure.tool(effect="pure", quick=True)
def broken() -> int:
    """Fail."""
    raise ZeroDivisionError("by nothing")


def new_store():
    """An empty store."""
    return MemoryStore(MemoryWorld(), SystemClock())


def attempt(body, state=None, name="job", **options):
    """Run `body(task)` as an inline task of a new store in memory; return what it returns."""
    with perdure.sync.open(new_store(), **options) as runtime, runtime.task(name, state=state or {}) as task:
        return body(task)


def ledger_of(store, name="job"):
    """What the journal says of a task."""

    async def load():
        return await load_fold(store, (await store.find(name)).task)

    return asyncio.run(load())


def test_an_edit_refuses_calls_of_the_task_in_its_block():
    """As the asynchronous one: an act, and a map, inside of an edit raise EditOpen, and the edit is undone."""

    def body(task):
        with pytest.raises(EditOpen), task.edit() as state:  # noqa: PT012 - the block is what is tested
            state["n"] = 1
            task.act(double, 1)
        return task.state.plain()

    assert {"n": 0} == attempt(body, {"n": 0})


@perdure.sync.program(state={"got": []})
def doubling(task, n: int = 3):
    """Double n numbers."""
    for item in task.each("numbers", (k for k in range(n))):
        task.act(double, item, then=lambda state, result: state["got"].append(result))
    with task.edit() as state:
        state["all"] = len(state["got"])
    task.checkpoint("end")
    return task.state.plain() | {"halves": task.map("halves", halve, [8, 6])}


def test_a_plain_program_runs_and_its_result_is_recorded():
    """Loops, reducers, edits, checkpoints, maps do what those with await do; a second run returns the result."""
    expected = {"got": [0, 2, 4], "all": 3, "halves": [4, 3]}
    with perdure.sync.open(new_store()) as runtime:
        assert expected == runtime.run(doubling, "job")
        assert expected == runtime.run(doubling, "job")
        assert {"ok"} == {row.verdict for row in runtime.report("job")} - {"warn"}


def test_a_program_and_its_edits_run_in_the_callers_thread_and_reducers_in_the_portals():
    """Thread-bound things of the caller (windows, connections) can be used in the program."""
    seen = {}

    def body(task):
        seen["program"] = HERE()
        task.act(double, 1, then=lambda *_: seen.update(reducer=threading.current_thread().name))
        with task.edit():
            seen["edit"] = HERE()
        task.check("mine", lambda: seen.update(check=HERE()) is None)

    program = perdure.sync.program(body)
    with perdure.sync.open(new_store()) as runtime, pytest.raises(perdure.UsageError):
        runtime.run(program, "job")  # made inside a function: nobody could find it again
    attempt(body)
    assert {"program": HERE(), "edit": HERE(), "check": HERE(), "reducer": "perdure-portal"} == seen


threads = []


@perdure.sync.program
def where(task):
    """Note the thread it runs in."""
    threads.append(HERE())
    return task.act(double, 2)


def test_a_declared_program_runs_in_the_thread_that_called_run():
    """Not in the portal's, and not in one of a pool."""
    threads.clear()
    with perdure.sync.open(new_store()) as runtime:
        assert 4 == runtime.run(where, "job")
    assert [HERE()] == threads


def test_the_asynchronous_runtime_runs_a_plain_program_in_a_thread_of_its_own():
    """So `perdure resume` and a service of coroutines can go on with it."""
    threads.clear()

    async def main():
        async with perdure.open(new_store()) as runtime:
            return await runtime.run(where, "job"), await runtime.run(doubling, "other", args={"n": 1})

    assert (4, {"got": [0], "all": 1, "halves": [4, 3]}) == asyncio.run(main())
    assert [HERE()] != threads


def test_a_call_from_the_loops_own_thread_is_refused():
    """A reducer that calls its task would wait for itself: LoopBlocked is what `then=` raised, the outcome stays."""

    def body(task):
        with pytest.raises(perdure.ReducerFailed) as caught:
            task.act(double, 1, then=lambda *_: task.act(double, 2))
        return type(caught.value.__cause__)

    assert LoopBlocked is attempt(body)


def test_a_tool_cannot_call_its_task():
    """In a thread of the pool it is NestedAct, as with await."""
    held = []

    @perdure.tool(effect="pure")
    def nested() -> str:
        try:
            held[0].act(double, 1)
        except NestedAct:
            return "refused"
        return "made"

    assert "refused" == attempt(lambda task: held.append(task) or task.act(nested))


def test_exceptions_cross_with_their_types():
    """What a tool raised is ActionFailed here as well, a failed check CheckFailed, wrong use UsageError."""

    def body(task):
        with pytest.raises(perdure.ActionFailed, match="by nothing"):
            task.act(broken)
        assert isinstance(task.act_outcome(broken), perdure.Failed)
        with pytest.raises(perdure.CheckFailed, match="KeyError: 'k'"):
            task.check("c", lambda: {}["k"])
        with pytest.raises(TypeError):
            task.act(double)
        return "all"

    assert "all" == attempt(body)


def test_an_edit_that_raises_leaves_nothing():
    """The exception is the block's own, and the state is as before."""

    def body(task):
        error = KeyError("mine")
        with pytest.raises(KeyError) as caught, task.edit() as state:  # noqa: PT012 - the block is what is tested
            state["n"] = 1
            raise error
        return caught.value is error, task.state.plain()

    assert (True, {"n": 0}) == attempt(body, {"n": 0})


def test_loops_within_loops_keep_their_places():
    """Acts of an inner loop, of what follows it, and behind a break are found again where they were."""
    calls = []

    @perdure.tool(effect="irreversible", quick=True)
    def send(what: str) -> str:
        calls.append(what)
        return what

    def body(task, stop):
        for i in task.each("outer", [1, 2]):
            for j in task.each("inner", "abc"):
                if j == "c":
                    break
                task.act(send, f"{i}{j}")
            task.act(send, f"{i} end")
        task.using(key="last").act(send, "last")
        if stop:
            raise KeyError

    store = new_store()
    for stop in (True, False):
        with (
            perdure.sync.open(store) as runtime,
            pytest.raises(KeyError) if stop else threading.Lock(),
            runtime.task("job") as task,
        ):
            body(task, stop)
    assert ["1a", "1b", "1 end", "2a", "2b", "2 end", "last"] == calls


def test_threads_of_one_program_may_call_side_by_side():
    """A call in one thread knows nothing of the call that another is in."""
    both = threading.Barrier(2, timeout=20)

    @perdure.tool(effect="pure")
    def meet(n: int) -> int:
        both.wait()
        return n

    def body(task):
        other = threading.Thread(target=lambda: task.using(key="a").act(meet, 1))
        other.start()
        got = task.using(key="b").act(meet, 2)
        other.join()
        return got, task.using(key="a").act(meet, 1)

    assert (2, 1) == attempt(body)


interrupted = []


@perdure.sync.program(state={"n": 0})
def interruptible(task):
    """Is interrupted at its first call only."""
    task.act(double, 1, then=lambda state, result: state.update(n=result))
    if not interrupted:
        interrupted.append(True)
        raise KeyboardInterrupt
    return task.state["n"]


def test_ctrl_c_in_a_program_pauses_its_task_and_is_raised():
    """No failure is counted; the next run goes on."""
    store = new_store()
    interrupted.clear()
    with pytest.raises(KeyboardInterrupt), perdure.sync.open(store) as runtime:
        runtime.run(interruptible, "job")
    ledger = ledger_of(store).ledger
    assert ("paused", 0, 0) == (ledger.status, ledger.failures, ledger.retries)
    with perdure.sync.open(store) as runtime:
        assert 2 == runtime.run(interruptible, "job")


def test_ctrl_c_in_an_inline_block_pauses_its_task_and_is_raised():
    """The block's own KeyboardInterrupt comes out, and the loop has survived it."""
    store = new_store()
    with perdure.sync.open(store) as runtime:
        with pytest.raises(KeyboardInterrupt), runtime.task("job"):
            raise KeyboardInterrupt
        assert "paused" == ledger_of(store).ledger.status
        with runtime.task("job") as task:
            assert 4 == task.act(double, 2)


@perdure.sync.program
def rolling(task):
    """Roll back once."""
    task.checkpoint("before")
    if task.attempt == 1:
        task.rollback("before")
    return task.attempt


@perdure.sync.program
def stopping(task):
    """End itself."""
    task.fail("enough")


def test_what_unwinds_a_program_unwinds_a_plain_one():
    """A rollback calls it anew, `fail` ends its task."""
    with perdure.sync.open(new_store()) as runtime:
        assert 2 == runtime.run(rolling, "job")
        with pytest.raises(perdure.TaskFailed, match="enough"):
            runtime.run(stopping, "other")


begun = threading.Event()


@perdure.sync.program
def endless(task):
    """Act until it is stopped."""
    n = 0
    while True:
        n += task.using(key=f"{n}").act(double, 1)
        begun.set()


def test_leaving_the_block_waits_for_other_threads():
    """Their tasks are paused where it is left by an exception, and their calls have ended when it is left."""
    store, ends = new_store(), []

    def other(runtime):
        with pytest.raises(perdure.TaskPaused) as caught:
            runtime.run(endless, "job")
        ends.append(caught.value)

    begun.clear()
    with pytest.raises(KeyError), perdure.sync.open(store) as runtime:  # noqa: PT012 - all of it leads to the error
        thread = threading.Thread(target=other, args=(runtime,))
        thread.start()
        assert begun.wait(20)
        raise KeyError
    thread.join(20)
    assert 1 == len(ends)
    assert "paused" == ledger_of(store).ledger.status


let_go = threading.Event()


@perdure.tool(effect="irreversible")
def slow() -> str:
    """Take until it is let go."""
    begun.set()
    let_go.wait(20)
    return "sent"


@perdure.sync.program
def sending(task):
    """Make one slow call, and another behind it."""
    sent = task.using(key="s").act(slow)
    task.checkpoint("sent")
    return sent


def test_leaving_the_block_in_order_lets_other_threads_finish():
    """Their programs come to their ends: the runtime is not taken from under them."""
    store, results = new_store(), []
    begun.clear()
    let_go.clear()
    with perdure.sync.open(store) as runtime:
        thread = threading.Thread(target=lambda: results.append(runtime.run(sending, "job")))
        thread.start()
        assert begun.wait(20)
        threading.Timer(0.05, let_go.set).start()
    thread.join(20)
    assert ["sent"] == results
    assert "succeeded" == ledger_of(store).ledger.status


stuck = threading.Event()
came_out = []


@perdure.sync.program
def sleeping(task):
    """Wait in a call until it is cancelled."""
    stuck.set()
    try:
        task.act(long)
    except BaseException as error:
        came_out.append(type(error))
        raise


@perdure.tool(effect="pure")
async def long() -> None:
    """Take for ever."""
    await asyncio.sleep(600)


def test_a_cancelled_plain_program_leaves_its_call():
    """The second request to stop cancels the call it waits for; the task is paused, nothing is counted as failed."""
    store = new_store()
    stuck.clear()
    came_out.clear()

    async def main():
        async with perdure.open(store) as runtime:
            running = asyncio.create_task(runtime.run(sleeping, "job"))
            await until(stuck.is_set)
            runtime.request_stop()
            runtime.request_stop()
            await running

    with pytest.raises(perdure.TaskPaused, match="signal"):
        asyncio.run(main())
    ledger = ledger_of(store).ledger
    assert ("paused", 0, 0) == (ledger.status, ledger.failures, ledger.retries)
    assert [asyncio.CancelledError] == came_out


def test_a_coroutine_function_is_no_plain_program():
    """It says which decorator to take."""

    async def fn(task):
        return task

    with pytest.raises(perdure.UsageError, match=r"@perdure\.program"):
        perdure.sync.program(fn)


SCRIPT = """
import sys, asyncio, perdure, perdure.sync

@perdure.tool(effect="pure")
async def slow(n: int) -> int:
    if n == 2 and sys.argv[1] == "first":
        print("in it", flush=True)
        await asyncio.sleep(60)
    return n

@perdure.sync.program(state={"got": []})
def job(task):
    for n in task.each("n", [1, 2, 3]):
        task.act(slow, n, then=lambda state, result: state["got"].append(result))
    return task.state["got"].plain()

if __name__ == "__main__":
    with perdure.sync.open("x.db") as runtime:
        print(runtime.run(job, "job"))
"""


def test_a_real_ctrl_c_ends_the_running_call_and_the_command_line_goes_on(tmp_path):
    """SIGINT while a coroutine tool runs: the script ends by it, `perdure resume` finds the program and finishes."""
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    environment = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path), "PATH": ""}
    first = subprocess.Popen(
        [sys.executable, "script.py", "first"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "in it\n" == first.stdout.readline()
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=30)
    assert (-signal.SIGINT, "KeyboardInterrupt") == (first.returncode, err.strip().splitlines()[-1])
    command = "import sys; from perdure.cli import main; sys.exit(main())"
    resumed = subprocess.run(
        [sys.executable, "-c", command, "resume", "job", "--store", "x.db", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert 0 == resumed.returncode, resumed.stderr
    assert [1, 2, 3] == json.loads(resumed.stdout)["result"]


@perdure.sync.program(state={"n": 1}, name="sync_taken")
def handed(task):
    """Ask, unless a person has had the task."""
    if not task.advice:
        task.ask("go on?")
    return [task.state["n"], task.advice.kind]


def test_a_person_takes_a_task_over_and_hands_it_back():
    """As in the asynchronous API: changed by hand, told to the program."""
    with perdure.sync.open(new_store()) as runtime:
        with pytest.raises(perdure.NeedsHuman):
            runtime.run(handed, "job")
        runtime.take_over("job", by="ann")
        assert runtime.edit_state("job", [("n", 2)])
        assert runtime.adopt_plan("job", ["one"])
        assert ("state: n = 2", "plan: one") == runtime.hand_back("job", say="well")
        assert [2, "observe"] == runtime.resume("job", handed)


@pytest.mark.parametrize(
    ("awaited", "plain", "left_out"),
    [
        (perdure.Task, perdure.sync.Task, {}),
        (perdure.Runtime, perdure.sync.Runtime, {"fold_of": "of the engine's own tests: the live fold is the loop's"}),
    ],
)
def test_whatever_can_be_awaited_can_be_called_with_the_same_parameters(awaited, plain, left_out):
    """A name that is added to the one is added to the other."""
    public = {name for name in dir(awaited) if not name.startswith("_")}
    assert public - left_out.keys() == {name for name in dir(plain) if not name.startswith("_")}
    for name in public - left_out.keys():
        theirs, ours = getattr(awaited, name), getattr(plain, name)
        assert isinstance(theirs, property) == isinstance(ours, property), name
        if callable(theirs):
            assert _parameters(theirs) == _parameters(ours), name


def _parameters(fn):
    return [(one.name, one.kind, one.default) for one in inspect.signature(fn).parameters.values()]
