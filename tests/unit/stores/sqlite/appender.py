"""A program that appends to tasks of a store and says what was acknowledged: for tests that kill and inject faults.

    python -m tests.unit.stores.sqlite.appender PATH TASK-NUMBER APPENDS [BLOB-BYTES]

With COMMITS=inline or COMMITS=queued in the environment all commits are made on one thread, so that a fault injected
at the n-th system call of a thread comes, however loaded the machine is.
Prints "N" after the N-th append was acknowledged, "N NameOfError" where it was refused.
"""

import asyncio
import os
import sys

from msgspec.structs import replace

from perdure.clock import SystemClock
from perdure.errors import StoreError
from perdure.stores.sqlite import writer
from perdure.stores.sqlite.store import open_sqlite
from perdure.testing.conformance.place import Chain, begun, digest_of, task_id


def frames_of(number):
    """What the n-th append holds: small and large by turns."""
    return b"%d|" % number * (30 if number % 3 else 4_000)


def choose_thread(where):
    """Have commits made by the loop's thread, or by the writer's."""
    writer.INLINE_COMMIT_MAX_S = {"inline": 1_000, "queued": 0}.get(where, writer.INLINE_COMMIT_MAX_S)


async def main(path, number, appends, blob_bytes):
    """Append, saying each outcome."""
    store = await open_sqlite(path, SystemClock())
    try:
        chain = await begun(store, number)
    except StoreError:
        chain = Chain(task_id(number))
        chain.seq, chain.digest = await store.head(chain.task)
    for turn in range(chain.seq, appends):
        append = chain.peek(frames_of(turn))
        if blob_bytes:
            raw = b"%d " % turn * (blob_bytes // 4)
            append = replace(append, blobs=((digest_of(raw), raw),))
        try:
            await store.append(chain.task, append)
        except StoreError as error:
            print(turn, type(error).__name__, flush=True)
        else:
            print(turn, flush=True)
            chain.seq, chain.digest = append.last_seq, append.last_digest
    await store.close()


if __name__ == "__main__":
    choose_thread(os.environ.get("COMMITS"))
    asyncio.run(main(sys.argv[1], *map(int, [*sys.argv[2:], 0][:3])))
