"""The conformance kit for authors of plugins: `check_plugin` in a test, `jaato plugins check` in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaato.testing.plugin import assert_plugin, check_plugin
    from jaato.testing.report import Finding, Report

__all__ = ["Finding", "Report", "assert_plugin", "check_plugin"]


def __getattr__(name: str) -> Any:
    """A name of the kit, imported when it is first used: the checks of registries need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jaato.testing import plugin, report

    return getattr(report if name in ("Finding", "Report") else plugin, name)
