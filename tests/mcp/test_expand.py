"""Variables in `.mcp.json`, and finding a server by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.hosting import load

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig, expand_variables
from jaato.tools.remote.sources import find_source

C10 = pytest.mark.spec("C10", "Environment variables and files")


def one(tmp_path: Path, entry: Any) -> ServerConfig:
    """The only server, the user's."""
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"it": entry}}))
    return load(tmp_path / "work", tmp_path).sources["it"]


@C10
def test_variables(tmp_path: Path) -> None:
    """`${VAR}` and `${VAR:-default}` are filled in everywhere, once; a missing one is named with its place."""
    made = one(
        tmp_path,
        {
            "command": "${BIN}/x",
            "args": ["--key=${KEY}", "${NONE:-d}", "${EMPTY:-e}", "$KEY", "${env:KEY}"],
            "env": {"A": "${NESTED}"},
            "cwd": "${BIN}",
        },
    )
    environ = {"BIN": "/b", "KEY": "k", "EMPTY": "", "NESTED": "${KEY}"}
    filled = expand_variables(made, environ)
    assert filled.command == "/b/x"
    assert filled.args == ("--key=k", "d", "e", "$KEY", "k")
    assert filled.env == {"A": "${KEY}"}
    assert filled.cwd == "/b"
    assert filled.digest == made.digest
    assert made.variables() == ["BIN", "EMPTY", "KEY", "NESTED", "NONE"]
    with pytest.raises(ConfigError, match=r"'it' needs the variable KEY \(args in .*Set it"):
        expand_variables(made, {"BIN": "/b"})


def test_variables_cannot_break_out(tmp_path: Path) -> None:
    """What is filled in is checked again: no line end in a header, no other scheme in a URL."""
    made = one(
        tmp_path,
        {"url": "${U}", "headers": {"X": "${H}"}, "oauth": {"clientSecret": "${H}", "scopes": ["${U}"]}},
    )
    assert expand_variables(made, {"U": "https://h/", "H": "v"}).oauth == {
        "clientSecret": "v",
        "scopes": ["https://h/"],
    }
    assert expand_variables(made, {"U": "https://h/", "H": "v"}).url == "https://h/"
    for environ in ({"U": "file:///x", "H": "v"}, {"U": "https://h/", "H": "a\r\nb: c"}):
        with pytest.raises(ConfigError, match="'it'"):
            expand_variables(made, environ)


def test_search(tmp_path: Path) -> None:
    """A server that is not there is answered with those that are."""
    one(tmp_path, {"command": "x"})
    servers = {"github": load(tmp_path / "work", tmp_path).sources["it"]}
    assert find_source(ServerConfig, servers, "github").name == "it"
    with pytest.raises(ConfigError, match="is it 'github'"):
        find_source(ServerConfig, servers, "Github")
    with pytest.raises(ConfigError, match="jaato mcp add"):
        find_source(ServerConfig, {}, "x")
