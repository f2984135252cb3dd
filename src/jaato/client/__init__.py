"""Clients of a server: connections that reconnect, and the state of a session as every view shows it."""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which is slow to import

if TYPE_CHECKING:
    from jaato.client.blocking import Client as BlockingClient
    from jaato.client.connection import Client, connect
    from jaato.client.session import RemoteSession
    from jaato.client.state import apply
    from jaato.protocol.events.state import State

__all__ = ["BlockingClient", "Client", "RemoteSession", "State", "apply", "connect"]

SOURCES = {
    "BlockingClient": ("jaato.client.blocking", "Client"),
    "Client": ("jaato.client.connection", "Client"),
    "RemoteSession": ("jaato.client.session", "RemoteSession"),
    "State": ("jaato.protocol.events.state", "State"),
    "apply": ("jaato.client.state", "apply"),
    "connect": ("jaato.client.connection", "connect"),
}


def __getattr__(name: str) -> object:
    if name not in SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, attribute = SOURCES[name]
    return getattr(importlib.import_module(module), attribute)
