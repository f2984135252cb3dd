"""Programs of the pages and the examples are forked from one process that has loaded what they need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.docs.forks import Forks, forking

OTHERS = (
    "httpcore2",
    "jsonschema_rs",
    "rich.logging",
    "jaato.plugins.files.plugin",
    "jaato.plugins.introspection",
    "jaato.plugins.shell",
    "jaato.server.registry.application",
    "jaato.tools.network.proxy",
    "jaato.plugins.mcp.stdio_transport",
    "jaato.plugins.mcp.client",
    "jaato.plugins.mcp.http_transport",
    "jaato.cli.sources.mcp",
    "mcp.client.session",
    "mcp.server.mcpserver",
)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The process that forks."""
    with forking(*OTHERS) as made:
        yield made
