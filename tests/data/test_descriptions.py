"""What a model is shown of the data tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.data_workspace import Desk

from jaato.abc.plugin import Plugin
from jaato.plugins.archives.plugin import ArchivesPlugin
from jaato.plugins.calculation import CalculationPlugin
from jaato.plugins.clock import ClockPlugin
from jaato.plugins.data.plugin import DataPlugin

EXPECTED = {
    CalculationPlugin: {"calculate": ("code", "read")},
    ClockPlugin: {"date_time": ("system", "read")},
    ArchivesPlugin: {
        "archive_list": ("filesystem", "read"),
        "archive_extract": ("filesystem", "write"),
        "archive_create": ("filesystem", "write"),
    },
    DataPlugin: {
        "sqlite_query": ("data", "read"),
        "sqlite_execute": ("data", "write"),
        "sqlite_schema": ("data", "read"),
        "csv_query": ("data", "read"),
        "csv_describe": ("data", "read"),
        "json_query": ("data", "read"),
        "json_validate": ("data", "read"),
    },
}


@pytest.mark.spec("C1", "Tool names")
@pytest.mark.parametrize("kind", EXPECTED, ids=lambda kind: kind.name)
def test_each_tool_has_its_class_and_a_short_description(kind: type[Plugin], tmp_path: Path) -> None:
    """Every tool is discoverable, has its category and what it may touch, and says what it is for in 40 words."""
    tools = Desk(kind, tmp_path).tools
    assert {name: (tool.spec.category, tool.spec.access) for name, tool in tools.items()} == EXPECTED[kind]
    for tool in tools.values():
        assert tool.spec.discoverability == "discoverable"
        assert 10 <= len(tool.spec.description.split()) <= 40
