"""The reference servers of other people, by `jaato mcp` and by an agent that plays a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.mcp.node import node, program
from tests.mcp.player import Machine

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path: Path, player: Path) -> Machine:
    """A machine on which the reference servers are configured."""
    made = Machine(tmp_path, player)
    configure(made.home, made.work)
    return made


def configure(home: Path, work: Path) -> None:
    """The three servers, the user's own."""
    command, everything = program("server-everything")
    servers: dict[str, Any] = {"everything": {"command": command, "args": [everything]}}
    servers["filesystem"] = {"command": command, "args": [program("server-filesystem")[1], str(work)]}
    kept = {"MEMORY_FILE_PATH": str(work / "memory.jsonl")}
    servers["memory"] = {"command": command, "args": [program("server-memory")[1]], "env": kept}
    (home / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def answer(desk: Machine, server: str, tool: str, stdin: str = "", **arguments: Any) -> dict[str, Any]:
    """The result of a call, which must have worked."""
    made = desk.run("mcp", "call", server, tool, json.dumps(arguments), "--json", stdin=stdin)
    assert made.code == 0, made.err + made.out
    found: dict[str, Any] = json.loads(made.out)
    return found


def test_everything(desk: Machine) -> None:
    """Text, structured data, images, links, progress and questions of `server-everything` arrive."""
    assert answer(desk, "everything", "echo", message="hi")["text"] == "Echo: hi"
    data = answer(desk, "everything", "get-structured-content", location="Chicago")["structured"]
    assert set(data) == {"temperature", "conditions", "humidity"}
    assert answer(desk, "everything", "get-tiny-image")["media"][0]["type"] == "image/png"
    assert "resource" in answer(desk, "everything", "get-resource-links", count=2)["text"]
    made = desk.run(
        "mcp", "call", "everything", "trigger-long-running-operation", '{"duration": 0.2, "steps": 2}'
    )
    assert (made.code, "[2/2]" in made.err) == (0, True), made.err
    text = answer(desk, "everything", "trigger-elicitation-request", "Ada\n" + "\n" * 20)["text"]
    assert "Ada" in text


def test_filesystem(desk: Machine) -> None:
    """`server-filesystem` writes and reads in the workspace and nowhere else."""
    path = str(desk.work / "a.txt")
    answer(desk, "filesystem", "write_file", path=path, content="é\n")
    assert Path(path).read_text() == "é\n"
    assert "é" in answer(desk, "filesystem", "read_text_file", path=path)["text"]
    made = desk.run("mcp", "call", "filesystem", "read_text_file", json.dumps({"path": "/etc/passwd"}))
    assert (made.code, "denied" in made.err) == (1, True)
    assert left_over(desk.work) == []


def test_memory(desk: Machine) -> None:
    """`server-memory` keeps what one process told it for the next."""
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    answer(desk, "memory", "create_entities", entities=[entity])
    graph = answer(desk, "memory", "read_graph")["structured"]
    assert graph["entities"][0]["name"] == "Ada"


def test_an_agent_uses_them(tmp_path: Path) -> None:
    """An agent finds a tool of a server nobody has started, activates it, and uses several servers
    in one turn; when it ends, so have they."""
    desk = CliEnvironment(tmp_path)
    configure(desk.home, desk.work)
    assert desk.run("mcp", "list", "--check").returncode == 0
    script = desk.script(
        call("list_tools", query="sum of two numbers"),
        call(
            "get_tool_schemas", names=["mcp__everything__get-sum", "mcp__memory__read_graph", "call_mcp_tool"]
        ),
        {
            "calls": [
                {"name": "mcp__everything__get-sum", "arguments": {"a": 2, "b": 3}},
                {"name": "mcp__memory__read_graph", "arguments": {}},
                {
                    "name": "call_mcp_tool",
                    "arguments": {"server": "filesystem", "tool": "list_allowed_directories"},
                },
            ],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        say("five"),
    )
    made = desk.run("run", "--yes", "--output", "events", *script, "add 2 and 3")
    assert made.returncode == 0, made.stderr
    events = [json.loads(line) for line in made.stdout.splitlines()]
    ended = {event["tool"]: event for event in events if event["type"] == "tool.call_end"}
    assert "mcp__everything__get-sum" in json.dumps(ended["list_tools"])
    assert "5" in json.dumps(ended["mcp__everything__get-sum"])
    assert "entities" in json.dumps(ended["mcp__memory__read_graph"])
    assert str(desk.work) in json.dumps(ended["mcp__filesystem__list_allowed_directories"])
    assert all(event["result"]["ok"] for event in ended.values()), ended
    assert left_over(desk.work) == []


def left_over(work: Path) -> list[str]:
    """The command lines of servers for this workspace that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if node() in words and str(work) in words:
            found.append(words)
    return found
