"""Clients and registries for the tests that ask for them; what was collected, for the test of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.spec.collect import COLLECTED, marks_of
from tests.spec.facades import Connect

from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.embedding.client import JaatoClient
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.ledger import TokenLedger


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the marks of a whole collection; a part of it would make the table look poor."""
    whole = str(config.rootpath / "tests")
    asked = {str((config.invocation_params.dir / name).resolve()) for name in config.args}
    if asked == {whole} and not config.option.keyword and config.option.markexpr == "not system":
        COLLECTED.extend(marks_of(one for one in items if one.get_closest_marker("system") is None))


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Makes clients over a scripted model; they are closed in the end."""
    made: list[JaatoClient] = []
    registries: list[PluginRegistry] = []
    (tmp_path / "work").mkdir()

    def client(
        script: Sequence[Answer] | ScriptedProvider,
        *plugins: Any,
        ledger: TokenLedger | None = None,
        permission: Any = None,
    ) -> JaatoClient:
        provider = (
            script if isinstance(script, ScriptedProvider) else ScriptedProvider(script, keep_requests=True)
        )
        registry = PluginRegistry(workspace=tmp_path / "work")
        registries.append(registry)
        for plugin in plugins:
            registry.register_plugin(plugin, expose=True)
        found = JaatoClient(state_dir=tmp_path / "state")
        made.append(found)
        found.connect(model="script", provider=provider, workspace=tmp_path / "work")
        found.configure_tools(registry, permission, ledger)
        return found

    yield client
    for found in made:
        found.close()
    for registry in registries:
        registry.shutdown()


@pytest.fixture
def registry(tmp_path: Path) -> Any:
    """Every built-in plugin, exposed over a workspace of its own."""
    made = PluginRegistry(workspace=tmp_path, services={"environ": {"PATH": "/usr/bin:/bin", "HOME": "/"}})
    made.expose_all()
    assert made.problems == {}
    yield made
    made.shutdown()
