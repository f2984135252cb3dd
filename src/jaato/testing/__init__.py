"""The conformance kit for authors of plugins: `check_plugin` in a test, `jaato plugins check` in a terminal."""

from __future__ import annotations

from jaato.testing.plugin import assert_plugin, check_plugin
from jaato.testing.report import Finding, Report

__all__ = ["Finding", "Report", "assert_plugin", "check_plugin"]
