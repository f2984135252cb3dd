"""The blocks of the documents that are lists of names, settings or commands: each of what they print is there."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.compat.stage import SNIPPETS

import shared
from jaato.runtime.plugins.standalone import StandalonePlugin
from shared import plugins
from shared.plugins import background, gc, model_provider, session
from shared.plugins.file_edit import FileEditPlugin
from shared.plugins.model_provider.types import Message
from shared.plugins.waypoint import WaypointPlugin

ROOT = Path(__file__).parents[2]
PLUGINS = {
    "CLIToolPlugin": "cli",
    "MCPToolPlugin": "mcp",
    "PermissionPlugin": "permission",
    "TodoPlugin": "todo",
    "ReferencesPlugin": "references",
    "SubagentPlugin": "subagent",
    "FileEditPlugin": "file_edit",
    "SlashCommandPlugin": "slash_command",
    "BackgroundPlugin": "background",
    "MultimodalPlugin": "multimodal",
    "TemplatePlugin": "template",
    "ClarificationPlugin": "clarification",
    "FileSessionPlugin": "session",
}
INTERFACES: dict[str, Any] = {
    "UserCommand": plugins.UserCommand,
    "ToolPlugin": plugins.ToolPlugin,
    "GCPlugin": gc.GCPlugin,
    "ModelProviderPlugin": model_provider.ModelProviderPlugin,
    "ToolSchema": shared.ToolSchema,
    "Message": Message,
    "SessionPlugin": session.SessionPlugin,
    "PluginRegistry": shared.PluginRegistry,
    "GCDiscovery": gc,
    "BackgroundCapable": background.BackgroundCapable,
}
"""What each class of the diagram is; `GCDiscovery` stands for functions of a module."""
MANAGED = "session_describe model tool"
"""It is no method: a client that has a session plugin gives the model this tool."""


class Member(NamedTuple):
    """A public member as a class diagram prints it."""

    kind: str
    name: str
    parameters: list[str] | None


def printed_members(diagram: str) -> Iterator[tuple[str, Member]]:
    """Each class of a diagram with each of its public members; optional ones are left out."""
    for name, body in re.findall(r"^ +class (\w+) \{\n(.*?)^ +\}", diagram, re.MULTILINE | re.DOTALL):
        for line in (line.strip() for line in body.splitlines()):
            if not line.startswith("+") or "[optional]" in line or line.endswith(MANAGED):
                continue
            if line.endswith(" user command"):
                yield name, Member("command", line[1:].removesuffix(" user command"), None)
                continue
            found = re.match(r"\+(\w+)(?:\((.*?)\))?", line)
            assert found, line
            parameters = found[2]
            names = (
                None if parameters is None else [p.split(":")[0].strip() for p in parameters.split(",") if p]
            )
            yield name, Member("member", found[1], names)


DIAGRAM = list(printed_members((SNIPPETS / "architecture_32.mmd").read_text()))


def plugin_of(name: str) -> Any:
    """A plugin of the diagram, made without arguments."""
    return getattr(importlib.import_module(f"shared.plugins.{PLUGINS[name]}"), name)()


def accepted(thing: Any, member: Member) -> set[str] | None:
    """The parameters a method takes, or None where any is taken; of a tool those of its schema, in each spelling."""
    if isinstance(thing, StandalonePlugin):
        for tool in thing.toolset().tools:
            if member.name == tool.name or member.name in tool.aliases:
                return {*tool.spec.parameters.get("properties", ()), *tool.aliases.get(member.name, ())}
    parameters = inspect.signature(getattr(thing, member.name)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return set(parameters)


def test_the_diagram_is_read_whole() -> None:
    """Every class of it is one of those that are checked, and none is left out."""
    assert {name for name, _ in DIAGRAM} == {*PLUGINS, *INTERFACES}
    assert len(DIAGRAM) > 100


@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.5")
@pytest.mark.parametrize(("name", "member"), DIAGRAM, ids=[f"{name}.{m.name}" for name, m in DIAGRAM])
def test_a_printed_member_is_there(
    name: str, member: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a plugin made without arguments, or on the interface, with the printed parameters; a user command by its name."""
    monkeypatch.chdir(tmp_path)
    thing = INTERFACES[name] if name in INTERFACES else plugin_of(name)
    if member.kind == "command":
        assert member.name in {command.name for command in thing.get_user_commands()}
        return
    if isinstance(thing, type) and member.name in all_fields(thing):
        return
    assert hasattr(thing, member.name)
    if member.parameters:
        taken = accepted(thing, member)
        assert taken is None or set(member.parameters) <= taken


def all_fields(kind: type) -> set[str]:
    """The annotated fields of a class and its bases."""
    return {name for base in inspect.getmro(kind) for name in getattr(base, "__annotations__", ())}


@pytest.mark.spec("S3", "File Structure", "S3.structure.1")
def test_every_listed_file_is_a_module() -> None:
    """The tree of files names packages and modules; each is imported by its path."""
    paths: list[str] = []
    stack: list[tuple[int, str]] = []
    for line in (SNIPPETS / "architecture_35.txt").read_text().splitlines():
        found = re.match(r"([│├└─ ]*)([\w/]+?)(/|\.py)(?:\s|$)", line)
        if found is None:
            continue
        depth = len(found[1])
        stack = [(at, name) for at, name in stack if at < depth]
        path = ".".join([name for _, name in stack] + [found[2].replace("/", ".")])
        if found[3] == "/":
            stack.append((depth, found[2]))
        paths.append(path.removesuffix(".__init__"))
    assert len(paths) > 45
    assert "shared.plugins.session.config_loader" in paths
    for path in paths:
        importlib.import_module(path)


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.2")
def test_the_printed_settings_are_read(tmp_path: Path) -> None:
    """The printed `.jaato/.sessions.json` is valid, and each of its values is the setting."""
    text = (SNIPPETS / "architecture_23.json").read_text()
    (tmp_path / ".jaato").mkdir()
    (tmp_path / ".jaato" / ".sessions.json").write_text(text)
    config = session.load_session_config(workspace=tmp_path)
    given = json.loads(text)
    assert {name: getattr(config, name) for name in given} == given
    assert len(given) == 5


@pytest.mark.spec("S4", "11. Waypoints with Shared Ownership", "S4.waypoints.3")
def test_the_printed_calls_of_waypoints_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made as printed by a program with the two plugins: w1 is created, all files are reverted, w1 is deleted."""
    monkeypatch.chdir(tmp_path)
    text = (SNIPPETS / "design_philosophy_05.txt").read_text()
    create, restore, delete = re.findall(r"(\w+_waypoint)\(\"(.+?)\"\)", text)
    waypoints, files = WaypointPlugin(), FileEditPlugin()
    names = ("a.txt", "b.txt")
    for name in names:
        (tmp_path / name).write_text(name)
    made = getattr(waypoints, create[0])(create[1])
    assert (made["waypoint_id"], made["owner"]) == (restore[1], "model") == (delete[1], "model")
    for name in names:
        files.updateFile(name, "risky")
    getattr(waypoints, restore[0])(restore[1])
    assert [(tmp_path / name).read_text() for name in names] == list(names)
    getattr(waypoints, delete[0])(delete[1])
    assert "w1" not in [row["waypoint_id"] for row in waypoints.list_waypoints()["waypoints"]]
    waypoints.shutdown()
    files.shutdown()


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.3")
def test_the_printed_commands_run(tmp_path: Path) -> None:
    """Each command of the usage, as it is printed but for the socket and the port: start, status, connect, stop."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    socket = tmp_path / "s"
    text = (SNIPPETS / "architecture_05.sh").read_text()
    text = text.replace("/tmp/jaato.sock", str(socket)).replace(":8080", ":0")
    start, start_web, status, stop, connect = [
        line for line in text.splitlines() if line and not line.startswith("#")
    ]

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": python_path()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    try:
        for command in (start, start_web):
            begun = run(command)
            assert begun.returncode == 0, begun.stderr
            assert f"serving at {socket}" in run(status).stdout
            assert "No server answers" not in run(connect).stderr
            assert run(stop).returncode == 0
            assert run(status).returncode == 1
        assert "No server answers" in run(connect).stderr
    finally:
        run(stop)


def python_path() -> str:
    """Where this interpreter finds its modules."""
    return os.pathsep.join(path for path in sys.path if path)
