"""The way back undoes what the task did since somebody else last touched a path, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.manifest import Manifest
from perdure.core.way_back import Step, way_back
from perdure.model.entry import FilesCaptured
from perdure.model.files import FileChange, Node

FOLDER = Node("folder", 0o755)
SHUT = Node("folder", 0o555)
TASK, OTHERS = "a1", ""


def file(text):
    """A file that holds `text`."""
    return Node("file", 0o644, len(text), text.encode())


def tree_of(nodes):
    """A manifest of these paths."""
    made = Manifest()
    made.apply(FileChange(path, node) for path, node in nodes.items())
    return made


def captured(who, *changes):
    """A capture of `who`'s changes, given as (path, node)."""
    return FilesCaptured(changes=tuple(FileChange(*change) for change in changes), action=who)


def back(nodes, *captures):
    """The way back to `nodes` from behind the captures, as (steps, foreign)."""
    found = way_back(tree_of(nodes), captures)
    return found.steps, found.foreign


# ---------------------------------------------------------------- by example


def test_what_the_task_changed_goes_back():
    """Changed, new and removed files of the task go back; who changed a path twice goes back to the first."""
    steps, foreign = back(
        {"changed": file("1"), "gone": file("2"), "same": file("3")},
        captured(TASK, ("changed", file("x")), ("gone", None), ("new", file("y"))),
        captured(TASK, ("changed", file("z"))),
    )
    assert steps == (
        Step("changed", file("z"), file("1")),
        Step("gone", None, file("2")),
        Step("new", file("y"), None),
    )
    assert foreign == ()


def test_what_is_back_by_itself_needs_no_step():
    """A file that the task made and removed again, or changed and changed back, is left alone."""
    once = captured(TASK, ("new", file("x")), ("old", file("x")))
    assert back({"old": file("1")}, once, captured(TASK, ("new", None), ("old", file("1")))) == ((), ())


def test_somebody_elses_change_on_top_stays():
    """A path that somebody else changed after the task is kept and named; one changed only by others is not."""
    steps, foreign = back(
        {"both": file("1"), "theirs": file("2")},
        captured(TASK, ("both", file("x"))),
        captured(OTHERS, ("both", file("y")), ("theirs", file("z"))),
    )
    assert (steps, foreign) == ((), ("both",))


def test_the_task_on_top_of_somebody_else_goes_back_to_theirs():
    """What the task did after somebody else is undone down to theirs; nothing of the task stands, so none is named."""
    theirs, ours = captured(OTHERS, ("a", file("y"))), captured(TASK, ("a", file("x")))
    assert back({"a": file("1")}, theirs, ours) == ((Step("a", file("x"), file("y")),), ())


def test_a_change_of_the_task_below_somebody_elses_is_named():
    """Task, somebody else, task: back to theirs, which has the task's first change in it."""
    mine, theirs = captured(TASK, ("a", file("x"))), captured(OTHERS, ("a", file("xy")))
    assert back({"a": file("1")}, mine, theirs, mine) == ((Step("a", file("x"), file("xy")),), ("a",))


def test_a_folder_with_somebody_elses_file_is_kept():
    """The task's folder stays for the sake of the file in it; its own file in there goes."""
    steps, foreign = back(
        {}, captured(TASK, ("d", FOLDER), ("d/mine", file("x"))), captured(OTHERS, ("d/theirs", file("y")))
    )
    assert (steps, foreign) == ((Step("d/mine", file("x"), None),), ("d",))


def test_a_folder_that_is_needed_is_made_again():
    """A file that the task removed comes back into its folder, also if somebody else removed that afterwards."""
    steps, foreign = back({"d": FOLDER, "d/a": file("1")}, captured(TASK, ("d/a", None)), captured(OTHERS, ("d", None)))
    assert (steps, foreign) == ((Step("d", None, FOLDER), Step("d/a", None, file("1"))), ())


def test_a_file_cannot_come_back_below_somebody_elses_file():
    """Where somebody else's file stands in the place of the folder, what was in the folder stays away, and is named."""
    steps, foreign = back(
        {"d": FOLDER, "d/a": file("1")},
        captured(TASK, ("d/a", None)),
        captured(OTHERS, ("d", file("theirs"))),
    )
    assert (steps, foreign) == ((), ("d/a",))


def test_what_stands_of_somebody_else_goes_before_what_he_once_had():
    """Somebody else's file in the task's folder keeps that folder, though it stands in the place of another of his."""
    steps, foreign = back(
        {"d": file("1")},
        captured(OTHERS, ("d", file("theirs"))),
        captured(TASK, ("d", FOLDER), ("d/mine", file("x"))),
        captured(OTHERS, ("d/theirs", file("y"))),
    )
    assert (steps, foreign) == ((Step("d/mine", file("x"), None),), ("d",))


def test_a_read_only_folder_on_the_way_is_a_step():
    """A folder that must be opened for a moment is named, so that a second run knows how to close it."""
    steps, _ = back({"d": SHUT, "d/e": FOLDER, "d/e/a": file("1"), "other": SHUT}, captured(TASK, ("d/e/a", file("x"))))
    assert steps == (Step("d", SHUT, SHUT), Step("d/e/a", file("x"), file("1")))


# ---------------------------------------------------------------- by model

NAMES = [f"{top}{rest}" for top in "abc" for rest in ("", "/d", "/e", "/d/f", "/d/g")]
NODES = st.one_of(
    st.sampled_from([FOLDER, FOLDER, SHUT]),
    st.sampled_from("123").map(file),
    st.sampled_from("12").map(lambda target: Node("link", target=target)),
    st.none(),
)
DEEDS = st.lists(st.tuples(st.sampled_from([TASK, TASK, OTHERS]), st.sampled_from(NAMES), NODES), max_size=14)


def above(path):
    """The folders above a path."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def do(tree, path, node):
    """What a program leaves that puts `node` at `path`: folders on the way made, what was there gone."""
    made = {name: each for name, each in tree.items() if name != path and not name.startswith(f"{path}/")}
    if node is None:
        return made
    if node.kind == "folder" and tree.get(path, file("")).kind == "folder":
        return {**tree, path: node}
    for folder in above(path):
        if made.get(folder, file("")).kind != "folder":
            made[folder] = FOLDER
    return {**made, path: node}


def play(deeds, tree):
    """Do the deeds; return the captures after each and the last tree."""
    captures = []
    for who, path, node in deeds:
        after = do(tree, path, node)
        captures.append(
            captured(who, *((change.path, change.node) for change in tree_of(tree).changes_to(tree_of(after))))
        )
        tree = after
    return captures, tree


def oracle(start, captures, now):
    """What is to stand afterwards, by the letter of the rule: each path alone, then who must give way to whom."""
    wishes = {}
    for path in {change.path for capture in captures for change in capture.changes} | now.keys():
        history = [(None, start.get(path))]
        history += [(one.action, change.node) for one in captures for change in one.changes if change.path == path]
        rank = 2 if any(who == OTHERS for who, _ in history) else 3
        if history[-1][0] != TASK:
            rank = 1
        while history[-1][0] == TASK:
            history.pop()
        if history[-1][1] is not None:
            wishes[path] = (rank, path, history[-1][1])

    def clash(one, other):
        (_, upper, node), (_, lower, _) = sorted((one, other), key=lambda wish: wish[1])
        return lower.startswith(f"{upper}/") and node.kind != "folder"

    true = []
    for wish in sorted(wishes.values(), key=lambda wish: wish[:2]):
        true += [] if any(clash(wish, other) for other in true) else [wish]
    return {path: node for _, path, node in true}


@settings(max_examples=600)
@given(DEEDS, DEEDS)
def test_any_history_goes_back_as_the_rule_says(earlier, later):
    """For any changes by task and others in any order, what stands afterwards is what a naive reading gives."""
    _, start = play(earlier, {})
    captures, now = play(later, start)
    found = way_back(tree_of(start), captures)
    after = {path: node for path, node in now.items() if path not in {step.path for step in found.steps}}
    after.update({step.path: step.target for step in found.steps if step.target is not None})
    wanted = oracle(start, captures, now)
    assert {path: node for path, node in after.items() if path in wanted} == wanted
    extra = after.keys() - wanted.keys()  # folders for the sake of what is in them
    assert extra == {folder for path in wanted for folder in above(path)} - wanted.keys()
    assert all(after[folder].kind == "folder" for folder in extra)
    assert all(now.get(step.path) == step.expected for step in found.steps)
    assert [step.path for step in found.steps] == sorted({step.path for step in found.steps})


@settings(max_examples=300)
@given(DEEDS, DEEDS)
def test_alone_the_task_goes_back_to_the_checkpoint(earlier, later):
    """Where nobody else changed anything, the tree of the checkpoint stands again, whole."""
    _, start = play(earlier, {})
    captures, now = play([(TASK, path, node) for _, path, node in later], start)
    found = way_back(tree_of(start), captures)
    made = tree_of(now)
    made.apply(FileChange(step.path, step.target) for step in found.steps)
    assert (made, found.foreign) == (tree_of(start), ())


@settings(max_examples=300)
@given(DEEDS, DEEDS)
def test_what_is_named_is_what_the_task_left(earlier, later):
    """Paths the task never changed are not named; one that it changed, without others in all its history, is back."""
    _, start = play(earlier, {})
    captures, _ = play(later, start)
    found = way_back(tree_of(start), captures)
    of_task = {change.path for one in captures for change in one.changes if one.action == TASK}
    of_others = {change.path for one in captures for change in one.changes if one.action == OTHERS}
    assert set(found.foreign) <= of_task
    if not of_others:
        assert found.foreign == ()
    for step in found.steps:
        near = {path for path in of_others if path == step.path or path.startswith(f"{step.path}/")}
        near |= of_others & set(above(step.path))
        assert near or step.target == start.get(step.path)
