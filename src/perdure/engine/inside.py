"""stand-in"""

from perdure.model.budget import Cost


def charge(cost: Cost) -> None: ...
def emit(event: str, **fields: object) -> None: ...
