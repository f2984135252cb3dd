"""One line of a server, whatever it holds."""

from __future__ import annotations

from jaato.plugins.mcp.wire import decode


def test_a_broken_character_costs_only_itself() -> None:
    """A line of JSON with a byte that is no UTF-8 is read, that byte replaced."""
    assert decode(b'{"a":"\xff"}') == {"a": "\ufffd"}
