"""One line of a server, whatever it holds."""

from __future__ import annotations

from jaato.plugins.mcp.transports.stdio import message_of


def test_a_broken_character_costs_only_itself() -> None:
    """A line of JSON with a byte that is no UTF-8 is read, that byte replaced."""
    message = message_of(b'{"jsonrpc":"2.0","method":"a","params":{"b":"\xff"}}')
    assert message.model_dump()["params"] == {"b": "\ufffd"}
