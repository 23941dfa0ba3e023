"""`perdure.open`: a store and a runtime on it, for as long as a block lasts."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import AsyncGenerator, Sequence
from typing import cast

import msgspec

from perdure.clock import SystemClock
from perdure.codec.known import process
from perdure.config import Config, find_place, load_config
from perdure.core.health import HealthRules
from perdure.core.recovery import Rules
from perdure.engine.runtime import Runtime
from perdure.engine.scribe import Scribe, find_log_files
from perdure.errors import UsageError
from perdure.ids_source import SystemIds
from perdure.limits import LEASE_TTL_S
from perdure.logs.masking import mask_log
from perdure.logs.scroll import LogFiles
from perdure.ports import Clock, Hook, Ids, Store
from perdure.stores.opening import open_store


def rules_of(config: Config) -> Rules:
    """Return the settings of recovery as configured. Raises ConfigInvalid."""
    valid_min, calls_min = config.share("health_min")
    return Rules(health=HealthRules(valid_min=valid_min, calls_min=calls_min))


def _checked(rules: object, *, unattended: bool, wait_inline_s: float | None) -> Rules:
    """Return `rules` with what was said beside them. Raises UsageError where a value is of no use."""
    if not isinstance(rules, Rules):
        raise UsageError(f"rules={rules!r} are none; write `rules=perdure.Rules(…)`")
    asked = msgspec.structs.replace(
        rules,
        unattended=rules.unattended or unattended,
        wait_inline_s=rules.wait_inline_s if wait_inline_s is None else wait_inline_s,
    )
    try:
        return msgspec.convert(msgspec.to_builtins(asked), Rules)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"the settings of recovery are refused: {error}") from None


def _checked_hooks(hooks: object) -> tuple[Hook, ...]:
    """Return the hooks. Raises UsageError where they are none."""
    found = cast("Sequence[object]", hooks) if isinstance(hooks, Sequence) else (hooks,)
    if not isinstance(hooks, Sequence) or not all(map(callable, found)):
        raise UsageError(f"hooks={hooks!r} cannot be called; write `hooks=[perdure.Webhook(url)]`, or functions")
    return tuple(cast("Sequence[Hook]", found))


def _checked_ttl(lease_ttl_s: object) -> float:
    """Return the time to live of a lease. Raises UsageError where it is none."""
    if not isinstance(lease_ttl_s, int | float) or not 0 < lease_ttl_s < math.inf:
        raise UsageError(f"lease_ttl_s={lease_ttl_s!r} is no time to live; write seconds, more than 0")
    return float(lease_ttl_s)


@contextlib.asynccontextmanager
async def open_runtime(  # noqa: PLR0913 - every setting of a runtime is a keyword of its own
    store: str | os.PathLike[str] | Store | None = None,
    *,
    hooks: Sequence[Hook] = (),
    unattended: bool = False,
    rules: Rules | None = None,
    wait_inline_s: float | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    lease_ttl_s: float = LEASE_TTL_S,
    log_dir: str | os.PathLike[str] | LogFiles | None = None,
) -> AsyncGenerator[Runtime]:
    """Open a store and a runtime on it: `async with perdure.open() as runtime:`.

    `store`: a URL (`sqlite:///path.db`, `memory://`), a path, or a store; None: the nearest `.perdure/` upwards, else
    `./.perdure/perdure.db`. `unattended`: where a person would be asked, the task fails instead. `rules`: the
    settings of recovery, where they are not the usual ones. `wait_inline_s`: a longer wait parks the task, a shorter
    one is waited for here; 300 where nothing is said. `lease_ttl_s`: after so many seconds without a beat a holder that
    still lives may be followed; the same for all who share a store.
    `log_dir`: folder for live log files, "" for none; None: as configured, none for a store of the caller's.
    Secrets of the environment are known from here on, and masked in all that is recorded or said. Raises
    UsageError for settings of no use, StoreUnreadable, StoreTooNew, StoreBroken; what is there is never overwritten.
    """
    process.read_environment(os.environ)
    mask_log()
    clock = clock or SystemClock()
    is_ours = store is None or isinstance(store, str | os.PathLike)
    files = find_log_files(log_dir) if log_dir is not None or is_ours else None
    if rules is None:
        rules = rules_of(load_config()) if is_ours else Rules()
    rules = _checked(rules, unattended=unattended, wait_inline_s=wait_inline_s)
    called, ttl_s = _checked_hooks(hooks), _checked_ttl(lease_ttl_s)
    place = cast("str", store) if is_ours else ""
    opened = await open_store(place or find_place(), clock) if is_ours else cast("Store", store)
    try:
        runtime = Runtime(opened, clock, ids or SystemIds(), hooks=called, rules=rules, lease_ttl_s=ttl_s)
        runtime.scribe = Scribe(opened, clock, files)
        async with runtime:
            yield runtime
    finally:
        if is_ours:
            await opened.close()
