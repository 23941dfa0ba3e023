"""What a tool of an MCP server answers, as the text that is recorded and that a model reads. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perdure.limits import MCP_TEXT_BYTES_MAX
from perdure.model.ids import cut_text

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


def render(result: CallToolResult) -> str:
    """Return the parts of an answer below each other; what is no text is named, with type and size.

    An answer that is only structured comes as JSON.
    """
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, sort_keys=True)]
    return cut_text("\n".join(parts), MCP_TEXT_BYTES_MAX)


def _part(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.mime_type}, {_size(block.data)} bytes, not shown]"
        case "resource_link":
            return f"[{block.name}]({block.uri})"
        case "resource":
            resource = block.resource
            text = getattr(resource, "text", None)
            kind = resource.mime_type or "bytes"
            size = _size(getattr(resource, "blob", ""))
            return (
                f"{resource.uri}:\n{text}"
                if isinstance(text, str)
                else f"[{resource.uri}: {kind}, {size} bytes, not shown]"
            )


def _size(base64: str) -> int:
    """Return how many bytes a text of base64 stands for."""
    return len(base64) * 3 // 4 - base64.count("=", -2)
