"""The values agents share: bounded in number and size, read and set by any of them."""

from __future__ import annotations

from typing import Any

from jaato.abc.subagents import Crew
from jaato.errors import ToolError
from jaato.protocol.codec import encode
from jaato.tools.call import plain
from jaato.tools.names import alike

MAX_KEYS = 200
MAX_VALUE_BYTES = 64 * 1024
MAX_TOTAL_BYTES = 1024 * 1024


class NotShared(ToolError):
    """The value cannot be kept, or there is none."""

    code = "not_shared"


def put(crew: Crew, by: str, key: str, value: Any, expected_version: int | None) -> dict[str, Any]:
    """Set a value, or take it away with None. Raises `NotShared` where a bound or the version says no."""
    there = crew.shared()
    now = there[key][1] if key in there else 0
    if expected_version is not None and expected_version != now:
        raise NotShared(
            f"{key!r} has version {now} by now, not {expected_version}: somebody changed it. "
            "Read it again with get_shared_state, and set it from what it is."
        )
    if value is None:
        known = key in there
        if known:
            crew.share(by, key, None, gone=True)
        return {"key": key, "removed": known}
    value = plain(value)
    size = len(encode(value))
    if size > MAX_VALUE_BYTES:
        raise NotShared(
            f"The value has {size:,} bytes, and {MAX_VALUE_BYTES:,} is the most. Write it to a file and share its path."
        )
    others = {name: entry for name, entry in there.items() if name != key}
    if len(others) >= MAX_KEYS:
        raise NotShared(f"There are {MAX_KEYS} keys already; remove some by setting them to null.")
    total = size + sum(entry[3] for entry in others.values())
    if total > MAX_TOTAL_BYTES:
        raise NotShared(
            f"All shared values would have {total:,} bytes, and {MAX_TOTAL_BYTES:,} is the most; remove some by "
            "setting them to null."
        )
    return {"key": key, "version": crew.share(by, key, value)}


def got(crew: Crew, key: str) -> dict[str, Any]:
    """A value and its version. Raises `NotShared` with keys that are like it."""
    there = crew.shared()
    if key not in there:
        close = alike(key, there) or list(there)[:10]
        raise NotShared(
            f"Nothing is shared as {key[:80]!r}. " + (f"There are: {', '.join(close)}." if close else "")
        )
    value, version, by, _size = there[key]
    return {"key": key, "value": value, "version": version, "set_by": by}


def listed(crew: Crew, prefix: str) -> dict[str, Any]:
    """The keys, without their values."""
    rows = [
        {"key": key, "version": version, "set_by": by, "bytes": size}
        for key, (_value, version, by, size) in sorted(crew.shared().items())
        if key.startswith(prefix)
    ]
    return {"keys": rows, "count": len(rows)}
