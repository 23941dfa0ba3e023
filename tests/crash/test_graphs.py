"""Programs inside of a graph of LangGraph with a checkpointer, killed at every third point."""

from tests.crash.forked import play_apart
from tests.crash.graphs import FIRMS, ROUNDS

LETTERS = sorted(f"{firm} {what} paper offers" for firm in FIRMS for what in ("first", "last")) * ROUNDS


def test_killed_in_nodes_the_graph_goes_on_in_them(tmp_path):
    """LangGraph runs the node again, which finds its task: each letter of each visit goes out once."""
    (undisturbed,) = play_apart("tests.crash.graphs", [[]], tmp_path / "undisturbed")
    cases = [[f"any:{number}"] for number in range(1, undisturbed["points"] + 1, 3)]
    played = play_apart("tests.crash.graphs", cases, tmp_path / "killed")
    kills = sum(bool(signal) for found in played for signal in found["kills"])
    print(f"killed {kills} times")
    assert kills == len(cases) > 10
    for found in (undisturbed, *played):
        assert sorted(LETTERS) == found["letters"], found["case"]
        assert [f"receipt for {letter}" for letter in sorted(LETTERS)] == sorted(found["result"]["letters"])
        assert ROUNDS + 1 == found["result"]["rounds"]
