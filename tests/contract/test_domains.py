"""Domains: the modules a registry's tools come from."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.contract import showing

from jaato.errors import ConfigError
from jaato.plugins.arithmetic import evaluate
from jaato.protocol.specs import ToolSpec
from jaato.runtime.domains import check_tool, load_domains
from jaato.runtime.domains.core import plain_number
from jaato.settings import load
from jaato.tools.call import Call
from jaato.tools.tool import Tool, tool_from

SHOWING = str(Path(showing.__file__))


@pytest.mark.spec("S2", "How tools are registered (MVP)")
def test_the_core_domain_is_there_by_its_name_and_by_its_documented_path() -> None:
    """`core` has `echo`, `calc` and `time_now`, and `tool_registry.domains.core.load_tools()` gives the same."""
    module = importlib.import_module("tool_registry.domains.core")
    for tools in (load_domains(["core"]), module.load_tools()):
        assert [tool.name for tool in tools] == ["echo", "calc", "time_now"]
        assert {tool.spec.access for tool in tools} == {"read"}


@pytest.mark.spec("S2", "How tools are registered (MVP)")
def test_a_domain_is_a_module_or_a_file() -> None:
    """A domain is named by its import path, or by its file; one that is named twice is loaded once."""
    by_path = load_domains(["tests.contract.showing"])
    by_file = load_domains([SHOWING, SHOWING])
    assert [one.name for one in by_path] == [one.name for one in by_file] == ["locked", "broken", "pair"]
    assert (by_path[0].version, by_path[0].tags, by_path[2].returns) == (
        "2.1.0",
        ("show",),
        {"type": "integer"},
    )


BAD = {
    "none": "",
    "no_list": "def load_tools(): return 7",
    "raises": "def load_tools(): raise OSError('no disk')",
    "no_tool": "def load_tools(): return [7]",
    "syntax": "def load_tools(:",
    "raises_too": "raise RuntimeError('at import')",
    "exits": "raise SystemExit(4)",
    "exits_late": "def load_tools(): raise SystemExit(0)",
    "by_place": "def f(a, /): return a\ndef load_tools(): return [f]",
    "generates": "def f() -> int:\n    yield 1\ndef load_tools(): return [f]",
    "no_schema": "from jaato.tools.tool import tool, tool_from\n"
    "@tool(parameters={'type': 'nonsense'})\ndef f() -> int:\n    return 1\ndef load_tools(): return [tool_from(f)]",
    "later": "async def load_tools():\n    return []",
    "nothing": "def load_tools():\n    return None",
    "starred": "def f(*a): return a\ndef load_tools(): return [f]",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_domain_that_is_none_says_what_is_wrong(kind: str, tmp_path: Path) -> None:
    """A module without tools, or with what is none, is refused in words that name it."""
    file = tmp_path / f"{kind}.py"
    file.write_text(BAD[kind])
    with pytest.raises(ConfigError, match=f"{kind}.py") as refused:
        load_domains([str(file)])
    assert "not iterable" not in str(refused.value)


def test_domains_are_refused_that_are_not_there_or_clash() -> None:
    """An unknown domain, and two with a tool of the same name, are refused before anything is served."""
    for name in ("no_such_domain", "no.such.domain", "../etc/passwd", "missing.py", ".", ""):
        with pytest.raises(ConfigError, match=r"domain|file"):
            load_domains([name])
    with pytest.raises(ConfigError, match=r"both have a tool 'locked' 2\.1\.0"):
        load_domains(["tests.contract.showing", SHOWING])


ODD: dict[str, tuple[Any, ...]] = {
    "name": ("", "a\ud800", "say:invoke", "..", "a\nb", None),
    "description": ("a\ud800", None),
    "version": ("", "\ud800", 2, None),
    "tags": ("core", ("",), ("\ud800",), (1,), None),
    "returns": ({"maximum": math.nan}, {"const": "\ud800"}, []),
    "parameters": (None, [], {"type": "array"}, {"properties": {"a": {"maximum": math.inf}}}),
    "access": ("nonsense", None),
    "timeout_s": (0, -1.0, math.nan, "5", 10**400),
    "source": (None, "here", {"path": Path()}, {"at": math.nan}, {1: 2}),
    "run": (None, 7),
}


@pytest.mark.spec("C9", "")
@pytest.mark.parametrize("part", ODD)
def test_a_tool_that_others_cannot_be_told_of_is_refused(part: str) -> None:
    """What the contract has no room for in a list, a definition or a call is found before anything is served, by its name."""
    for given in ODD[part]:
        spec: dict[str, Any] = {
            "name": "say",
            "description": "Say.",
            "parameters": {"type": "object"},
            "access": "read",
        }
        rest: dict[str, Any] = {"run": lambda _arguments, _call: None}
        (spec if part in spec else rest)[part] = given
        with pytest.raises(ConfigError, match=r"cannot be served: .+\.$"):
            check_tool(Tool(ToolSpec(**spec), **rest))
    for name in ("a/b", "caf\u00e9", "a b", "%41", "a.b", "say:invoked"):
        check_tool(Tool(ToolSpec(name, "", {"type": "object"}), lambda _arguments, _call: None, tags=("a",)))


def test_a_default_that_json_cannot_carry_is_not_told() -> None:
    """Such an argument may be left out, and nobody reads that it is null."""

    def wait(at_most: float = math.inf, many: int = 10**30, name: str = "x") -> str:
        """Wait."""
        return f"{at_most} {many} {name}"

    made = tool_from(wait)
    properties = (made.checked or {})["properties"]
    assert [one.get("default", "none") for one in properties.values()] == ["none", "none", "x"]
    check_tool(made)
    assert made.run({}, Call("c", "wait", {})) == f"inf {10**30} x"


def test_a_domain_that_has_a_tool_twice_is_told_so(tmp_path: Path) -> None:
    """It is one domain that is wrong, not two."""
    file = tmp_path / "twice.py"
    file.write_text("def f() -> int:\n    return 1\ndef load_tools(): return [f, f]")
    with pytest.raises(ConfigError, match=r"The domain \S+twice\.py twice has a tool 'f' 0\.1\.0"):
        load_domains([str(file)])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2**53-1", 2**53 - 1),
        ("2**53", 2**53),
        ("-(2**64)", -(2.0**64)),
        ("1/3", 1 / 3),
        ("sqrt(2)", 2**0.5),
    ],
)
def test_a_value_is_a_number_where_json_can_keep_it(text: str, value: object) -> None:
    """Whole numbers of 64 bits keep all their digits; larger ones are the nearest float."""
    found = plain_number(evaluate(text))
    assert (found, type(found)) == (value, type(value))


def test_the_clock_knows_zones_and_offsets() -> None:
    """`time_now` tells the time in UTC without a zone, and in any zone or offset."""
    tool = load_domains(["core"])[2]
    for arguments, ending in (({}, "+00:00"), ({"tz": "+05:30"}, "+05:30"), ({"tz": "Asia/Tokyo"}, "+09:00")):

        async def told(arguments: dict[str, str] = arguments) -> dict[str, str]:
            found: dict[str, str] = await tool.run(arguments, Call("c", "time_now", {}))
            return found

        said = anyio.run(told)
        assert said["tz"] == arguments.get("tz", "UTC")
        assert said["iso"].endswith(ending)


@pytest.mark.spec("C9", "")
def test_the_documented_variables_are_settings() -> None:
    """`TOOL_REGISTRY_DOMAINS`, `_HOST` and `_PORT` are read, and have the documented defaults."""
    names = ("tool_registry_domains", "tool_registry_host", "tool_registry_port")
    plain = load(environ={})
    assert [plain[name] for name in names] == [["core"], "127.0.0.1", 8000]
    given = {"TOOL_REGISTRY_DOMAINS": "core, mine", "TOOL_REGISTRY_HOST": "::1", "TOOL_REGISTRY_PORT": "81"}
    found = load(environ=given)
    assert [found[name] for name in names] == [["core", "mine"], "::1", 81]
    assert found.source("tool_registry_port") == "TOOL_REGISTRY_PORT"
    both = load(environ=given | {"JAATO_TOOL_REGISTRY_PORT": "82"})
    assert both["tool_registry_port"] == 82
