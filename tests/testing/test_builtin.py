"""The conformance kit, turned on what comes with jaato."""

from __future__ import annotations

import pytest

from jaato.plugins import BUILTIN
from jaato.runtime.plugins.discovery import BUILTIN_STRATEGIES
from jaato.testing import assert_plugin

WRITTEN = ("skills",)
"""Their tools are what somebody has written; in an empty workspace there are none."""


@pytest.mark.parametrize("name", [*BUILTIN, *BUILTIN_STRATEGIES])
def test_a_built_in_plugin_passes(name: str) -> None:
    """What we ask of others we do ourselves."""
    report = assert_plugin(name)
    assert report.tools or name in (*BUILTIN_STRATEGIES, *WRITTEN)
