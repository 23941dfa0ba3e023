"""Keeps known secrets out of what perdure says to `logging`, whoever listens there. Called when a runtime is opened.

Not the log of a task: that is made from its journal, which holds none.
"""

from __future__ import annotations

import logging
from typing import Final

from perdure.codec.redact import redact_text


class _Masking(logging.Filter):
    """Rewrites records: message and trace. A handler that formats exceptions itself is given none to format."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, without secrets."""
        said = record.getMessage()
        clear = redact_text(said)
        if clear is not said:
            record.msg, record.args = clear, ()
        if record.exc_info is not None:
            trace = _format_trace(record)
            clear = redact_text(trace)
            if clear is not trace:
                record.exc_text, record.exc_info = clear, None
        return True


def mask_log() -> None:
    """Let nothing secret out by the logger `perdure` from now on."""
    _log.addFilter(_masking)


def _format_trace(record: logging.LogRecord) -> str:
    return "" if record.exc_info is None else _formatter.formatException(record.exc_info)


_log: Final = logging.getLogger("perdure")
_masking: Final = _Masking()
_formatter: Final = logging.Formatter()
