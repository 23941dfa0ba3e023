"""What perdure says to `logging` holds no known secret, in message or trace."""

import io
import logging

import pytest

from perdure.codec.known import process
from perdure.engine.boundary import Boundary
from perdure.logs.masking import mask_log

SECRET = "sk-4f9aQ27xLmPo30"


@pytest.fixture
def said():
    """What a handler on the logger has written; the logger is afterwards as it was."""
    log, heard = logging.getLogger("perdure"), io.StringIO()
    handler, before = logging.StreamHandler(heard), log.filters[:]
    log.addHandler(handler)
    mask_log()
    yield heard
    log.removeHandler(handler)
    log.filters[:] = before


def _fail_and_log():
    with Boundary() as caught:
        raise ValueError(f"no {SECRET}")
    logging.getLogger("perdure").error("hook_failed key=%s", SECRET, exc_info=caught.error)


def test_messages_and_traces_are_masked(said):
    """Texts, arguments of texts and exceptions are written without the secret; where they stood can be seen."""
    process.know("KEY", SECRET)
    _fail_and_log()
    text = said.getvalue()
    assert SECRET not in text
    assert "hook_failed key=[secret KEY]" in text
    assert "ValueError: no [secret KEY]" in text
    assert "in _fail_and_log" in text


def test_what_holds_no_secret_is_said_as_it_was(said, caplog):
    """A record without a secret reaches handlers untouched, its exception included."""
    process.know("KEY", SECRET)
    error = ValueError("no")
    logging.getLogger("perdure").error("hook_failed key=%s", "x", exc_info=error)
    (record,) = caplog.records
    assert (("x",), error) == (record.args, record.exc_info[1])
    assert "hook_failed key=x\nValueError: no\n" == said.getvalue()
