"""What a strategy answers, checked before anybody relies on it."""

from __future__ import annotations

from inspect import getattr_static
from typing import TypeGuard

from jaato.abc.compactor import GCResult, SummarizingGCPlugin
from jaato.errors import PluginError
from jaato.tools.call import replace_surrogates, safe_text

MAX_SAID_CHARS = 500


def verdict(given: object) -> tuple[bool, str]:
    """What `should_collect` said. Raises `PluginError` for anything but (bool, reason)."""
    match given:
        case (bool() as wanted, str() | None as reason):
            return wanted, cut(reason or "")
    raise PluginError(f"should_collect() gives (bool, reason), not {shown(given)}")


def parted(given: object) -> tuple[object, GCResult]:
    """What `collect` gave. Raises `PluginError` for anything but (history, GCResult)."""
    match given:
        case (proposed, GCResult() as result):
            return proposed, result
    raise PluginError(f"collect() gives (history, GCResult), not {shown(given)}")


def asked(given: object) -> str | None:
    """What `question` gave. Raises `PluginError` for anything but text and None."""
    if given is None or isinstance(given, str):
        return given
    raise PluginError(f"question() gives text or None, not {shown(given)}")


def summarising(strategy: object) -> TypeGuard[SummarizingGCPlugin]:
    """Whether a strategy wants words of the model; none of its own code runs for that."""
    return all(callable(getattr_static(strategy, name, None)) for name in ("question", "collect_with"))


def name_of(strategy: object) -> str:
    """The strategy's name, as far as it has one."""
    try:
        name = getattr(strategy, "name", None)
    except BaseException:  # noqa: BLE001 even its name is a stranger's code
        name = None
    return cut(name, 64) if isinstance(name, str) and name else type(strategy).__name__


def shown(value: object) -> str:
    """A value on a short line, whatever it is."""
    return safe_text(value)[:100]


def told(error: BaseException) -> str:
    """What somebody's exception says."""
    return cut(f"{type(error).__name__}: {safe_text(error, str)}")


def remark(value: object) -> str | None:
    """A remark of a strategy, whatever it made one of; None for none."""
    if value is None or value == "":
        return None
    return cut(value if isinstance(value, str) else safe_text(value))


def cut(text: str, limit: int = MAX_SAID_CHARS) -> str:
    """The text, cut where it is long."""
    return replace_surrogates(text if len(text) <= limit else text[: limit - 1] + "…")
