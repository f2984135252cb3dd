"""Any file at all: reading a configuration never fails, and what it gives can be used."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mcp.hosting import load

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import expand_variables
from jaato.plugins.mcp.directory import ServerTrust, find_referenced_programs

KEYS = st.sampled_from(
    "type transport command cmd args env environment cwd url serverUrl headers oauth timeout disabled enabled".split()
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(
        [
            "stdio",
            "http",
            "sse",
            "npx",
            "./run.py",
            "https://h.example/",
            "${HOME}",
            "${X:-y}",
            "\u202e",
            "\ud800",
            "\0",
        ]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
ENTRIES = st.dictionaries(KEYS, VALUES, max_size=6) | VALUES


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=12), ENTRIES, max_size=4))
def test_any_entries(servers: dict[str, Any]) -> None:
    """Each entry is either a server that can be shown, expanded and judged, or a problem with its name."""
    with tempfile.TemporaryDirectory() as folder:
        work, home = Path(folder, "work"), Path(folder, "home")
        work.mkdir()
        home.mkdir()
        (work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        found = load(work, home)
        assert len(found.sources) + len(found.problems) == len(servers)
        for config in found.sources.values():
            assert not ServerTrust(home / "state").holds(config)
            assert all(text.isprintable() for row in ServerTrust(Path()).describe(config) for text in row)
            find_referenced_programs(config)
            config.variables()
            with suppress(ConfigError):
                expand_variables(config, {"HOME": str(home)})


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """Bytes that are no configuration are one problem, never a failure."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / ".mcp.json").write_bytes(content)
        load(home / "work", home)
