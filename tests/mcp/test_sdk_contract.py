"""The parts of the SDK that jaato uses though they are not public: a version without one fails here, by its name."""

from __future__ import annotations

import inspect

import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher


@pytest.mark.parametrize(
    ("owner", "name", "parameters"),
    [
        (Client, "_build_session", ["self", "exit_stack"]),
        (ClientSession, "_absorb_tool_listing", ["self", "result", "complete"]),
        (JSONRPCDispatcher, "_dispatch", ["self", "item", "on_request", "on_notify", "sender_ctx"]),
        (OAuthClientProvider, "_perform_authorization", ["self"]),
        (OAuthClientProvider, "_select_authorization_server", ["self", "advertised"]),
    ],
)
def test_a_private_method_is_there(owner: type, name: str, parameters: list[str]) -> None:
    """`client` and `oauth.provider` of `jaato.plugins.mcp` override or call it with these parameters."""
    assert list(inspect.signature(getattr(owner, name)).parameters) == parameters


def test_private_attributes_are_there() -> None:
    """`jaato.plugins.mcp.client` stamps a request of its own and looks up who waits for an answer."""
    dispatcher = JSONRPCDispatcher.__new__(JSONRPCDispatcher)
    JSONRPCDispatcher.__init__(dispatcher, None, None)  # type: ignore[arg-type]
    assert dispatcher._pending == {}
    session = ClientSession(dispatcher=dispatcher)
    assert session._dispatcher is dispatcher
    assert callable(session._stamp)
