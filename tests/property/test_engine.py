"""Random programs and random deaths: the last life comes to what an undisturbed run comes to."""

from hypothesis import given

from perdure.model.entry import TaskSucceeded
from tests.property.playing import Player, deaths, live_on, played, steps, undisturbed
from tests.worlds import DEAD, Death, World


@given(plan=steps, lives=deaths)
def test_a_killed_run_ends_as_the_undisturbed_one(plan, lives):
    """Result and state are equal; effects happened once; what is safe to repeat ran once more per death at most."""
    expected, sent = undisturbed(plan)
    world, player, result = played(plan, lives)
    assert expected == result == world.state()
    assert sent.keys() == player.service.calls.keys()
    for item, calls in player.service.calls.items():
        assert calls <= 1 + len(lives), item
    assert all(len(keys) == 1 for keys in player.service.keys.values())
    for number, (kind, *parts) in enumerate(plan):
        if "irreversible" in parts and kind != "loop":
            assert player.service.calls[str(number)] == 1


@given(plan=steps)
def test_recovering_twice_is_recovering_once(plan):
    """A life that is ended while it opens the task leaves no trace in what the next one comes to."""
    expected, _ = undisturbed(plan)
    for deaths_in_opening in (["during_recovery"], ["during_recovery", "during_recovery"]):
        world, player = World(), Player(plan)
        if world.live(player.play, death=Death("after_append", 5)) != DEAD or "TaskSucceeded" in world.kinds():
            return  # a short program
        for where in deaths_in_opening:
            assert DEAD == world.live(player.play, death=Death(where, 2))
        assert expected == live_on(world, player)
        assert 1 == len([entry for entry in world.journal() if isinstance(entry.payload, TaskSucceeded)])
