"""Clients over a scripted model: how they are made, and a plugin for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.spec.documented import Documented, schema

from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.embedding.client import JaatoClient

Connect = Callable[..., JaatoClient]


def provider_of(client: JaatoClient) -> ScriptedProvider:
    """The scripted model behind a client."""
    provider = client.get_session().live.model.provider
    assert isinstance(provider, ScriptedProvider)
    return provider


def approved(name: str, run: Callable[[dict[str, Any]], Any], tool: str = "do") -> Documented:
    """A plugin with one core tool that runs without asking."""
    plugin = Documented(name, schema(tool, discoverability="core"))
    plugin.executors = {tool: run}
    plugin.get_auto_approved_tools = lambda: [tool]  # type: ignore[method-assign]  # this one is approved
    return plugin
