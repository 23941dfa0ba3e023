"""stand-in"""

from typing import Any

import msgspec


class Questions(msgspec.Struct):
    questions: dict


class Permitted(msgspec.Struct):
    refused: dict = {}
    change: Any = None
    said: str = ""
    said_key: str = ""


def permits(view, settings, calls):
    return Permitted()
