"""What lies outside can be refused for, or fail with: pages, searches, MCP servers. The tree stands in the package.

Each names the class of failure that recovery works with.
"""

from __future__ import annotations

from perdure.errors.base import PerdureError


class SourceError(PerdureError):
    """Something outside could not be read or called."""

    failure_class = "tool"


class AddressRefused(SourceError):
    """An address that is not asked: another scheme, a private network, a name that nobody knows."""

    failure_class = "request"

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"{url!r} was not asked: {reason}")


class ContentRefused(SourceError):
    """An answer of a kind that is not read, or whose bytes are not what they are said to be."""

    failure_class = "request"

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"{url!r} was not read: {reason}")


class SearchFailed(SourceError):
    """A search engine gave no answer that can be used."""

    def __init__(self, engine: str, reason: str, failure_class: str) -> None:
        self.engine = engine
        self.reason = reason
        self.failure_class = failure_class
        super().__init__(f"{engine}: {reason}")


class ServerUnavailable(SourceError):
    """An MCP server cannot be started or reached; nothing was sent to it."""

    failure_class = "capacity"

    def __init__(self, server: str, reason: str) -> None:
        self.server = server
        self.reason = reason
        super().__init__(f"MCP server {server!r} is not there, nothing was sent: {reason}")


class ServerLost(SourceError):
    """A call went out to an MCP server and no answer came that says what became of it."""

    failure_class = "network"

    def __init__(self, server: str, tool: str, reason: str) -> None:
        self.server = server
        self.tool = tool
        self.reason = reason
        super().__init__(f"{tool!r} of MCP server {server!r} was sent, and what became of it is not known: {reason}")


class ServerRefused(SourceError):
    """A tool of an MCP server has answered that it failed."""

    def __init__(self, server: str, tool: str, reason: str, failure_class: str = "tool") -> None:
        self.server = server
        self.tool = tool
        self.reason = reason
        self.failure_class = failure_class
        super().__init__(f"{tool!r} of MCP server {server!r}: {reason}")
