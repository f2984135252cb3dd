"""The third level of detail: example arguments, with the schema and in a verbose list."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaato.runtime.plugins.lazy import KnownTool, load_manifests
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.schema import Validator

KNOWN = [tool for plugin in load_manifests().values() for tool in plugin.tools]
WITH_EXAMPLES = [tool for tool in KNOWN if tool.spec.examples]


@pytest.mark.parametrize("known", WITH_EXAMPLES, ids=lambda known: known.spec.name)
def test_every_example_is_valid(known: KnownTool) -> None:
    """An example can be called as it stands."""
    validator = Validator(known.checked if known.checked is not None else known.spec.parameters)
    assert [validator.issues(example) for example in known.spec.examples] == [[]] * len(known.spec.examples)


@pytest.mark.parametrize("name", ["updateFile", "multiFileEdit", "sqlite_query", "csv_query"])
def test_what_is_hard_to_call_has_examples(tmp_path: Path, name: str) -> None:
    """Tools with arguments that are easily got wrong show how, where they are asked for in detail and only there."""
    registry = PluginRegistry(workspace=tmp_path)
    registry.expose_all()
    try:
        run = registry.get_exposed_executors()
        [row] = run["get_tool_schemas"]({"names": [name]})["schemas"]
        assert row["examples"]
        for verbose in (False, True):
            found = run["list_tools"]({"query": name, "limit": 1, "verbose": verbose})
            assert ("examples" in found["results"][0]["tools"][0]) is verbose
    finally:
        registry.shutdown()
