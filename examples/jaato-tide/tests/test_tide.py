"""What the author of a plugin tests: that it conforms, and that it does what it should."""

from __future__ import annotations

from jaato_tide.ebb import EbbStrategy
from jaato_tide.plugin import TidePlugin

from jaato.testing import assert_plugin


def test_the_plugin_conforms() -> None:
    """Declarations, calls, commands, enrichment and shutdown are as jaato asks."""
    report = assert_plugin(TidePlugin, calls={"record_tide": {"harbour": "Husum", "hour": 3.5}})
    assert report.tools == ["tide_at", "record_tide"]


def test_the_strategy_conforms() -> None:
    """The verdict and the history it leaves are as jaato asks."""
    assert_plugin(EbbStrategy)
