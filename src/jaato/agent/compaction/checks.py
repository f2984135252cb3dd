"""Checks what a strategy, which may be anybody's code, returns, and describes what it raises."""

from __future__ import annotations

from inspect import getattr_static
from typing import TypeGuard

from jaato.abc.compactor import GCResult, SummarizingGCPlugin
from jaato.agent.compaction.summary import truncate
from jaato.errors import PluginError
from jaato.tools.call import safe_text


def check_verdict(given: object) -> tuple[bool, str]:
    """The result of `should_collect`. Raises `PluginError` for anything but (bool, reason)."""
    match given:
        case (bool() as wanted, str() | None as reason):
            return wanted, truncate(reason or "")
    raise PluginError(f"should_collect() gives (bool, reason), not {short_repr(given)}")


def check_collected(given: object) -> tuple[object, GCResult]:
    """What `collect` gave. Raises `PluginError` for anything but (history, GCResult)."""
    match given:
        case (proposed, GCResult() as result):
            return proposed, result
    raise PluginError(f"collect() gives (history, GCResult), not {short_repr(given)}")


def check_question(given: object) -> str | None:
    """What `question` gave. Raises `PluginError` for anything but text and None."""
    if given is None or isinstance(given, str):
        return given
    raise PluginError(f"question() gives text or None, not {short_repr(given)}")


def is_summarizing(strategy: object) -> TypeGuard[SummarizingGCPlugin]:
    """Whether a strategy wants words of the model; none of its own code runs for that."""
    return all(callable(getattr_static(strategy, name, None)) for name in ("question", "collect_with"))


def name_of(strategy: object) -> str:
    """The strategy's name, as far as it has one."""
    try:
        name = getattr(strategy, "name", None)
    except BaseException:  # noqa: BLE001 even its name is third-party code
        name = None
    return truncate(name, 64) if isinstance(name, str) and name else type(strategy).__name__


def short_repr(value: object) -> str:
    """A value on a short line, whatever it is."""
    return safe_text(value)[:100]


def describe_error(error: BaseException) -> str:
    """The message of a plugin's exception."""
    return truncate(f"{type(error).__name__}: {safe_text(error, str)}")


def to_remark(value: object) -> str | None:
    """A remark of a strategy, whatever it made one of; None for none."""
    if value is None or value == "":
        return None
    return truncate(value if isinstance(value, str) else safe_text(value))


def clears_results(strategy: object) -> bool:
    """Whether a strategy wants old tool results to be cleared before it is asked; none of its own code runs for that."""
    return getattr_static(strategy, "clears_results", False) is True
