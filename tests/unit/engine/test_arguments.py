"""Arguments: views of the state are written as references, tools get plain copies, big values become blobs."""

import pytest

import perdure
from perdure.codec import leaves
from perdure.core.touched import Touched
from perdure.core.tracking import StateTree
from perdure.engine import arguments
from perdure.model.entry import ActionIntended, ActionSettled, StateEdited
from tests.worlds import Play, Stop, World, counted

BIG = "b" * 10_000


def _record(value, *, touched=None, seq=9, keyed=False, base=""):
    return arguments.record({"x": value}, touched or Touched(), seq, keyed=keyed, base=base)


# --- views ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("opening", [[], ["system"]], ids=["the view", "a new element and the view's"])
def test_a_history_passed_each_turn_writes_the_same_bytes_each_turn(opening):
    """Turn 240 of a loop that passes all its messages writes what turn 120 wrote, not the square of it."""
    world, seen = World(), []

    @perdure.tool(effect="pure")
    async def think(messages: list[object]) -> str:
        seen.append(len(messages) - len(opening))
        return f"answer {len(messages):06d} " + "x" * 200

    def append(state, answer):
        state["messages"].append({"role": "assistant", "content": answer})

    async def program(task):
        for _ in range(240):
            history = task.state["messages"]
            await task.act(think, [*opening, *history] if opening else history, then=append)

    world.live(Play(program, state={"messages": []}))
    assert list(range(240)) == seen
    sizes = [entry.size for entry in world.journal() if isinstance(entry.payload, ActionIntended | ActionSettled)]
    assert abs(sum(sizes[-20:]) - sum(sizes[200:220])) <= 60


def test_a_tool_gets_a_plain_copy_of_a_view():
    """What the tool does to its argument does not reach the state."""

    @perdure.tool(effect="pure")
    async def spoil(items: list[int], nested: dict[str, object]) -> list[str]:
        kinds = [type(items).__name__, type(nested["deep"]).__name__]
        items.append(99)
        return kinds

    async def program(task):
        kinds = await task.act(spoil, task.state["items"], {"deep": task.state["map"]})
        return [kinds, task.state["items"].plain()]

    assert [["list", "dict"], [1]] == World().live(Play(program, state={"items": [1], "map": {}}))


def test_the_digest_of_a_view_follows_the_patches_at_or_under_it():
    """Another patch elsewhere does not change it, one under it does; for a keyed call only the path counts."""
    tree, touched = StateTree({"a": [1], "b": [2]}), Touched()
    view = tree.view()["a"]
    before = _record(view, touched=touched).digest
    edit = tree.begin()
    edit.view["b"].append(3)
    touched.mark(edit.finish(), 5)
    assert before == _record(view, touched=touched).digest
    edit = tree.begin()
    edit.view["a"].append(4)
    touched.mark(edit.finish(), 6)
    assert before != _record(view, touched=touched).digest
    assert _record(view, touched=touched, keyed=True).digest == _record(view, keyed=True).digest


def test_a_loose_call_with_a_view_is_answered_only_while_the_state_is_the_same():
    """A resumed program that passes the same view of the same state gets the recorded outcome."""
    world, calls = World(), []

    @perdure.tool(effect="pure")
    async def measure(items: list[int]) -> int:
        calls.append(len(items))
        return len(items)

    async def program(task):
        await task.act(measure, task.state["items"])
        if task.attempt == 1:
            raise Stop
        async with task.edit() as state:
            state["items"].append(2)
        await task.act(measure, task.state["items"])

    play = Play(program, state={"items": [1]})
    with pytest.raises(Stop):
        world.live(play)
    world.live(play)
    assert [1, 2] == calls


def test_elements_in_a_row_are_one_run():
    """`[new, *view]` is as short as the view alone, however long that is."""
    sizes = []
    for length in (10, 1000):
        view = StateTree({"items": [["text"] for _ in range(length)]}).view()["items"]
        sizes.append(len(_record(["new", *view]).raw))
    assert sizes[1] - sizes[0] <= 4


def test_plain_leaves_and_containers_have_the_digest_of_their_value():
    """Equal values have equal digests, other types other ones; the order of dict keys means nothing."""
    digests = [_record(value).digest for value in (1, True, 1.0, "1", b"1", None, (1,), [1])]
    assert len(set(digests)) == len(digests)
    assert _record({"a": 1, "b": 2}).digest == _record({"b": 2, "a": 1}).digest


# --- blobs ----------------------------------------------------------------------------------------------------------
def test_big_values_become_blobs_and_come_back():
    """In arguments, results, state and notes: the entries stay small, the values are whole in the next life."""
    world, seen = World(), []

    @perdure.tool(effect="pure")
    async def echo(text: str) -> str:
        return text

    async def program(task):
        got = await task.using(key="k").act(echo, BIG, then=lambda state, text: state.update(text=text))
        await task.note("n", big=BIG)
        async with task.edit() as state:
            state["raw"] = BIG.encode()
        seen.append(got)
        if task.attempt == 1:
            raise Stop
        return [got, task.state.plain()]

    with pytest.raises(Stop):
        world.live(Play(program))
    assert [BIG, {"text": BIG, "raw": BIG.encode()}] == world.live(Play(program))
    assert [BIG, BIG] == seen
    assert max(entry.size for entry in world.journal()) < 2_000
    assert 1 == len([blob for blob in world.memory.blobs.values() if blob == BIG.encode()])


def test_a_patch_refers_to_the_outcome_it_takes_from():
    """A long text that goes from the result into the state is written once."""
    world = World()
    text = "t" * 1_000
    read = counted([], result=text)

    async def program(task):
        await task.act(read, then=lambda state, got: state.update(got=got, again=[got]))

    world.live(Play(program))
    (settled,) = [entry.payload for entry in world.journal() if isinstance(entry.payload, ActionSettled)]
    assert text.encode() not in bytes(settled.patch)
    assert {"got": text, "again": [text]} == world.state()


def test_a_leaf_over_the_maximum_is_refused_with_its_size(monkeypatch):
    """As an argument before the call, as a result after it, and the effect is not sent again (pydantic-ai 7157)."""
    monkeypatch.setattr("perdure.codec.leaves.LEAF_BYTES_MAX", 5_000)
    calls = []
    send = counted(calls, effect="irreversible", result=BIG, name="send")

    async def program(task):
        with pytest.raises(perdure.UsageError, match="10000"):
            await task.act(send, BIG)
        outcome = await task.using(key="k").act_outcome(send, 1)
        assert "10000" in outcome.error.message
        again = await task.using(key="k").act_outcome(send, 1)
        return outcome == again

    assert World().live(Play(program))
    assert [1] == calls


def test_references_read_as_what_they_are():
    """For people, a recorded view is a text that says where it was taken."""
    view = StateTree({"items": [1]}).view()["items"]
    recorded = _record(view)
    assert {"x": "<state [['items'], 9]>"} == leaves.decode(recorded.raw, {})


def test_a_state_edit_of_a_big_value_is_small():
    """The entry names the blob."""
    world = World()

    async def program(task):
        async with task.edit() as state:
            state["a"] = BIG

    world.live(Play(program))
    (edited,) = [entry for entry in world.journal() if isinstance(entry.payload, StateEdited)]
    assert edited.size < 500


# --- the workspace --------------------------------------------------------------------------------------------------
def test_a_path_of_the_workspace_counts_by_its_place_whatever_stands_beside_it():
    """Leaves only, in containers, and beside a view of the state."""
    view = StateTree({"a": [1]}).view()["a"]

    def digests(base, elsewhere=""):
        path = f"{elsewhere or base}/x"
        return [_record(value, base=base).digest for value in (path, [path], {path: (path,)}, [view, path])]

    assert digests("/one") == digests("/the/other")
    others = digests("/one", elsewhere="/one2")
    assert not set(others) & set(digests("/one"))
    assert others == digests("", elsewhere="/one2")


def test_the_path_of_a_view_is_none_of_the_disk():
    """A key of the state stays as it is in a fork, whatever it begins with."""
    view = StateTree({"/one/x": [1]}).view()["/one/x"]
    assert _record(view, base="/one").digest == _record(view, base="/other").digest
    assert _record([view, "/one/y"], base="/one").digest == _record([view, "/other/y"], base="/other").digest


def test_what_is_recorded_and_handed_over_keeps_the_path():
    """Only the digest is made without it."""
    with_base, without = _record(["/one/x"], base="/one"), _record(["/one/x"])
    assert (without.raw, without.plain) == (with_base.raw, with_base.plain)
    assert without.digest != with_base.digest


# --- what is none of its kind ---------------------------------------------------------------------------------------
_look = counted([], name="arguments_look")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda task: task.adopt([1]), "step 1 is no text"),
        (lambda task: task.adopt("abc"), "a list of steps"),
        (lambda task: task.fact("true", source=3), "source 3 is no text"),
        (lambda task: task.fact(3), "fact 3 is no text"),
        (lambda task: task.note(3), "note 3 is no text"),
        (lambda task: task.ask(3), "question 3 is no text"),
        (lambda task: task.ask("why?", key=3), "key 3 is no text"),
        (lambda task: task.checkpoint(3), "checkpoint name 3 is no text"),
        (lambda task: task.check(3, True), "check name 3 is no text"),
        (lambda task: task.using(key=3).act(_look, "a"), "key 3 is no text"),
        (lambda task: task.using(timeout_s=-1).act(_look, "a"), "timeout_s=-1"),
        (lambda task: task.using(timeout_s="soon").act(_look, "a"), "timeout_s='soon'"),
        (lambda task: task.using(timeout_s=float("nan")).act(_look, "a"), "timeout_s=nan"),
        (lambda task: task.map("all", _look, ["a"], concurrency=0), "concurrency=0"),
        (lambda task: task.map("all", _look, ["a"], concurrency="8"), "concurrency='8'"),
    ],
)
def test_what_no_journal_could_give_back_is_refused(call, message):
    """Nothing of it is written: a task whose journal cannot be read is lost."""
    world = World()

    async def program(task):
        with pytest.raises(perdure.UsageError, match=message):
            await call(task)

    world.live(Play(program))
    assert ["TaskStarted", "ProgramCalled", "TaskSucceeded"] == world.kinds()
