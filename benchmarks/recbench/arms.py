"""What is compared: the same engine and the same agent, with more or less of recovery allowed.

An arm is settings (`Rules`, the variant of the program) and what happens around the engine: whether somebody starts a
killed agent again and looks for what nobody else can know. Nothing of an arm is inside the engine. Called by the stage.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from benchmarks.recbench import agent
from perdure.core.recovery import Rules
from perdure.core.retrying import Patience


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One way to recover."""

    name: str
    about: str
    program: Any = agent.agent
    rules: Rules = Rules()
    is_resumed: bool = True  # a killed or parked run is started again, and a person settles what is in doubt
    knows: bool = False  # the agent is told which strategy is right, and what is a loop

    def brisk_rules(self, pace: float) -> Rules:
        """Return the rules where everything takes `pace` times as long."""
        patience = self.rules.patience
        brisk = msgspec.structs.replace(patience, base_s=patience.base_s * pace, ceiling_s=patience.ceiling_s * pace)
        return msgspec.structs.replace(self.rules, patience=brisk)


_NOTHING: Final = Rules(
    patience=Patience(retries_max=0, outage_s=0.0), rolls_back=False, changes_strategy=False, nudges=False, reasks=False
)
_RESUME: Final = Rules(rolls_back=False, changes_strategy=False, nudges=False, reasks=False)
_ROLLBACK: Final = msgspec.structs.replace(_RESUME, rolls_back=True)
_NUDGE: Final = msgspec.structs.replace(_RESUME, nudges=True)
_ORACLE: Final = msgspec.structs.replace(_RESUME, reasks=True)
ARMS: Final = (
    Arm(
        name="nothing",
        about="the first failure ends the run, a crash loses it",
        program=agent.hasty,
        rules=_NOTHING,
        is_resumed=False,
    ),
    Arm(name="resume only", about="goes on from the journal; what failed is tried again as it is", rules=_RESUME),
    Arm(name="+ rollback", about="goes back too, and tries the same again", rules=_ROLLBACK),
    Arm(name="nudge only", about="resumes; a loop is answered by a hint, and by nothing else", rules=_NUDGE),
    Arm(name="perdure", about="all of recovery, as it is by default"),
    Arm(
        name="oracle",
        about="knows the right strategy of each sub-goal and which fault is which",
        program=agent.patient,
        rules=_ORACLE,
        knows=True,
    ),
)
BY_NAME: Final = {arm.name: arm for arm in ARMS}
