"""The process in which the model on this machine thinks: one request in, its reply out in pieces, then the end.

    python -m perdure.llm.localworker WEIGHTS < request

The first line of its input is a request of chat completions as JSON; its output is the stream's chunks, a line of JSON
each. When its input ends it ends, in the middle of a word: whoever asked is gone. Started by `local.py`, and nothing of
it runs in any other process.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

CONTEXT_TOKENS: Final = 4096
_THREADS_MAX: Final = 4
_SEED: Final = 1


def main(weights: str) -> None:
    """Answer the one request on standard input."""
    out = os.dup(1)
    os.dup2(2, 1)  # what the library prints is no reply
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(chunk: Mapping[str, Any]) -> bool:
        os.write(out, json.dumps(chunk).encode() + b"\n")
        return False  # go on

    _answer(weights, {"seed": _SEED, **request, "stream": True, "stream_options": {"include_usage": True}}, tell)
    os._exit(0)  # the library's threads are not waited for


def _answer(weights: str, request: dict[str, Any], tell: Callable[[Mapping[str, Any]], bool]) -> None:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # compiled, without stubs
    options = xllamacpp.CommonParams()
    options.model.path = weights
    options.n_ctx = CONTEXT_TOKENS
    options.n_parallel = 1
    options.n_gpu_layers = 0
    options.cpuparams.n_threads = min(os.cpu_count() or 1, _THREADS_MAX)
    options.warmup = False
    options.ui = False
    options.verbosity = -1
    # The library insists on listening; where nobody can connect, nobody does.
    with tempfile.TemporaryDirectory() as folder:
        options.hostnames = [os.path.join(folder, "unused.sock")]
        server = xllamacpp.Server(options)
    server.handle_chat_completions(request, tell)


def _end_with_parent() -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock an interpreter that fails would wait for
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
