"""What recovery, or a person, has to say to a program that is called anew."""

from __future__ import annotations

from typing import Literal

import msgspec

AdviceKind = Literal["", "reask", "rephrase", "condense", "nudge", "observe", "person"]


class Advice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sentence for the next prompt, and what kind it is; false where there is none.

    reask: the last answer was refused, `text` says why. rephrase: the request was refused. condense: the context was
    too long. nudge: the run goes round in circles. observe: a person has changed something, look again. person: what
    somebody has said to a task that was handed over; it stays in `task.messages` too.
    """

    kind: AdviceKind = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.kind)


NO_ADVICE = Advice()
