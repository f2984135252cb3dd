"""`.mcp.json`: what is read, what is refused by name, and that nothing else is lost by it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.hosting import load

from jaato.plugins.mcp.config import ServerConfig
from jaato.tools.remote.sources import LoadedSources

C10 = pytest.mark.spec("C10", "Environment variables and files")
GOOD = {"command": "good"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """An empty workspace."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def write(folder: Path, servers: Any) -> None:
    """A configuration."""
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def one(work: Path, home: Path, entry: Any) -> ServerConfig:
    """The only server, which must be right."""
    write(work, {"it": entry})
    found = load(work, home)
    assert not found.problems, found.problems
    return found.sources["it"]


def refusal(work: Path, home: Path, entry: Any, name: str = "it") -> str:
    """Why an entry is refused; the one beside it stays."""
    write(work, {"good": GOOD, name: entry})
    found = load(work, home)
    assert list(found.sources) == ["good"]
    [problem] = found.problems
    assert str(problem).startswith(f"{work / '.mcp.json'}: server ")
    return problem.text


@C10
def test_both_files(work: Path, home: Path) -> None:
    """The servers of `~/.mcp.json` and of the workspace are there, each with its kind and where it came from."""
    write(home, {"mine": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "b"}}})
    write(work, {"theirs": {"type": "http", "url": "https://h.example/mcp", "headers": {"X-Key": "${K}"}}})
    found = load(work, home)
    mine, theirs = found.sources["mine"], found.sources["theirs"]
    assert (mine.kind, mine.command, mine.args, mine.env) == ("stdio", "npx", ("-y", "x"), {"A": "b"})
    assert (mine.scope, theirs.scope) == ("user", "workspace")
    assert (theirs.kind, theirs.url, theirs.headers) == ("http", "https://h.example/mcp", {"X-Key": "${K}"})
    assert found.problems == ()


def test_nothing_configured(work: Path, home: Path) -> None:
    """No file, an empty object and an empty table are no servers and no problem."""
    assert load(work, home) == LoadedSources({})
    for text in ("{}", '{"mcpServers": {}}'):
        (work / ".mcp.json").write_text(text)
        assert load(work, home) == LoadedSources({})


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"command": "x"}, "stdio"),
        ({"type": "local", "command": ["x", "y"], "environment": {"A": 1}}, "stdio"),
        ({"cmd": "x", "envs": {"A": True}}, "stdio"),
        ({"url": "http://127.0.0.1:1/mcp"}, "http"),
        ({"type": "streamable-http", "url": "https://h/"}, "http"),
        ({"type": "streamableHttp", "serverUrl": "https://h/"}, "http"),
        ({"transport": "streamable_http", "url": "https://h/"}, "http"),
        ({"transport": {"type": "sse"}, "url": "https://h/"}, "sse"),
        ({"type": "remote", "httpUrl": "https://h/"}, "http"),
        ({"type": "SSE", "url": "https://${HOST}/"}, "sse"),
        ({"url": "https://h/", "command": None}, "http"),
    ],
)
def test_spellings(work: Path, home: Path, entry: dict[str, Any], kind: str) -> None:
    """What other programs write is understood."""
    assert one(work, home, {k: v for k, v in entry.items() if v is not None}).kind == kind


def test_more_spellings(work: Path, home: Path) -> None:
    """Times, switches, tokens and lists of other programs are understood too."""
    made = one(work, home, {"type": "local", "command": ["a", "b"], "args": ["c"], "timeout": 60_000})
    assert (made.command, made.args, made.call_timeout_s) == ("a", ("b", "c"), 60)
    assert one(work, home, {"command": "a", "timeout": 60}).call_timeout_s == 60
    assert one(work, home, {"command": "a", "enabled": False}).disabled
    made = one(work, home, {"url": "https://h/", "bearer_token_env_var": "TOKEN"})
    assert made.headers == {"Authorization": "Bearer ${TOKEN}"}
    made = one(work, home, {"url": "https://h/", "oauth": {"clientId": "c", "scopes": "a b"}})
    assert made.oauth == {"clientId": "c", "scopes": "a b"}
    (work / ".mcp.json").write_bytes(b'\xef\xbb\xbf{"servers": {"it": {"command": "x"}}}')
    assert list(load(work, home).sources) == ["it"]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (None, "must be an object"),
        ([], "must be an object"),
        ({}, "needs a"),
        ({"command": ""}, "program"),
        ({"command": 3}, "command"),
        ({"command": []}, "program"),
        ({"command": "a", "url": "https://h/"}, "both"),
        ({"command": "a", "args": "b"}, "args"),
        ({"command": "a", "args": [{}]}, "args"),
        ({"command": "a", "args": ["x"] * 1001}, "args"),
        ({"command": "a" * 40_000}, "32768"),
        ({"command": "a", "env": []}, "env"),
        ({"command": "a", "env": {"A=B": "c"}}, "A=B"),
        ({"command": "a", "env": {"A": None}}, "env[...]"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "a\ud800"}, "half a character"),
        ({"command": "a\u202eb"}, "U+202E"),
        ({"command": "a", "args": ["\U000e0041"]}, "U+E0041"),
        ({"command": "a", "env": {"A\u200b": ""}}, "U+200B"),
        ({"command": "a\x1b[2J"}, "U+001B"),
        ({"type": "http", "command": "a"}, "url"),
        ({"type": "stdio", "url": "https://h/"}, "command"),
        ({"type": "carrier pigeon", "url": "https://h/"}, "carrier pigeon"),
        ({"type": 7, "url": "https://h/"}, "one of stdio"),
        ({"url": "file:///etc/passwd"}, "https://"),
        ({"url": "javascript:alert(1)"}, "https://"),
        ({"url": "https://"}, "https://"),
        ({"url": "https://user:pass@h/"}, "password"),
        ({"url": "https://h:99999/"}, "url"),
        ({"url": "https://h/ x"}, "https://"),
        ({"url": "https://[::1/"}, "url"),
        ({"url": "https://h/", "headers": {"a b": "c"}}, "header"),
        ({"url": "https://h/", "headers": {"X": "a\r\nY: b"}}, "line end"),
        ({"url": "https://h/", "headers": {"Host": "other"}}, "belongs to the connection"),
        ({"url": "https://h/", "oauth": "yes"}, "oauth"),
        ({"url": "https://h/", "oauth": {"clientId": "a\u200b"}}, "U+200B"),
        ({"command": "a", "start_timeout_s": -1}, "start_timeout_s"),
        ({"command": "a", "timeout": "soon"}, "timeout"),
        ({"command": "a", "disabled": "yes"}, "Expected `bool`"),
    ],
)
def test_malformed_entries(work: Path, home: Path, entry: Any, why: str) -> None:
    """Each malformed entry is reported by name and loses nothing else."""
    assert why in refusal(work, home, entry)


@pytest.mark.parametrize("name", ["", " ", "a ", "x" * 101, "a\u200bb", "a\nb", "a\x1b]0;"])
def test_names_that_deceive(work: Path, home: Path, name: str) -> None:
    """A server whose name is blank, endless or hides something is refused."""
    assert "name" in refusal(work, home, GOOD, name)


def test_an_entry_that_is_deep(work: Path, home: Path) -> None:
    """A deep entry is refused, a file so deep that it cannot be parsed as a whole."""
    deep: Any = {}
    for _ in range(60):
        deep = {"a": deep}
    assert "deep" in refusal(work, home, GOOD | {"x": deep})
    (work / ".mcp.json").write_text('{"mcpServers":' + '{"a":' * 100_000 + "}" * 100_001)
    assert "deeply" in str(load(work, home).problems[0])


def test_keys_that_come_twice(work: Path, home: Path) -> None:
    """Two servers of one name, or two values of one key: which is meant cannot be told, so neither is."""
    (work / ".mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"},'
        ' "b": {"command": "x", "command": "y"}, "good": {"command": "z"}}}'
    )
    found = load(work, home)
    assert list(found.sources) == ["good"]
    assert [problem.name for problem in found.problems] == ["a", "b"]
    (work / ".mcp.json").write_text('{"mcpServers": {}, "mcpServers": {"a": {"command": "x"}}}')
    assert load(work, home).problems


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"{", "line 1"),
        (b'{"mcpServers": {"a": {"command": "\xff"}}}', "UTF-8"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b"[]", "object"),
        (b'{"mcpServers": []}', "one object"),
        (b'{"mcp": {}}', "mcpServers"),
        (b'{"mcpServers": {"a": {"command": "x", "timeout": NaN}}}', "NaN"),
        (b'{"mcpServers": {"a": {"command": "x", "timeout": 1e999}}}', "Infinity"),
        (b"9" * 10_000, "not JSON"),
        (b" " * 1_000_001, "bytes"),
    ],
)
def test_malformed_files(work: Path, home: Path, content: bytes, why: str) -> None:
    """A file that cannot be used is reported with the reason; the other file still counts."""
    write(home, {"good": GOOD})
    (work / ".mcp.json").write_bytes(content)
    found = load(work, home)
    assert list(found.sources) == ["good"]
    assert why in str(found.problems[0])


def test_too_many_servers(work: Path, home: Path) -> None:
    """A file of thousands of servers is cut, and says so once."""
    write(work, {f"s{number}": GOOD for number in range(2_000)})
    found = load(work, home)
    assert len(found.sources) == 500
    assert len(found.problems) == 1


def test_what_is_no_file(work: Path, home: Path, tmp_path: Path) -> None:
    """A pipe, a directory, a device, a loop and a link out of the workspace are reported and wait for nothing."""
    path = work / ".mcp.json"
    os.mkfifo(path)
    assert "regular file" in str(load(work, home).problems[0])
    path.unlink()
    path.mkdir()
    assert load(work, home).problems
    path.rmdir()
    path.symlink_to(path)
    assert load(work, home).problems
    path.unlink()
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({"mcpServers": {"a": GOOD}}))
    path.symlink_to(outside)
    found = load(work, home)
    assert not found.sources
    assert "link" in str(found.problems[0])
    path.unlink()
    (work / "inside.json").write_text(outside.read_text())
    path.symlink_to("inside.json")
    assert list(load(work, home).sources) == ["a"]
    (home / ".mcp.json").symlink_to(outside)
    assert load(work, home).sources["a"].scope == "user"


def test_a_user_file_everybody_can_write(work: Path, home: Path) -> None:
    """The user's servers need no trust, so a file that others can write is not read."""
    write(home, {"a": GOOD})
    (home / ".mcp.json").chmod(0o666)
    found = load(work, home)
    assert not found.sources
    assert "chmod 600" in str(found.problems[0])


def test_a_workspace_cannot_take_a_name(work: Path, home: Path) -> None:
    """A workspace's server does not stand in for the user's of the same name, or one that looks the same; it is
    reported."""
    write(home, {"GitHub": {"command": "mine"}, "same": GOOD})
    write(work, {"github": {"command": "theirs"}, "git.hub": GOOD, "same": GOOD})
    found = load(work, home)
    assert found.sources["GitHub"].command == "mine"
    assert set(found.sources) == {"GitHub", "same", "git.hub"}
    assert found.sources["same"].scope == "user"
    [problem] = found.problems
    assert problem.name == "github"
    assert "rename" in problem.text


def test_home_as_workspace(home: Path) -> None:
    """In the home directory the one file is the user's, once."""
    write(home, {"a": GOOD})
    found = load(home, home)
    assert found.sources["a"].scope == "user"
    assert found.problems == ()


def test_digests(work: Path, home: Path, tmp_path: Path) -> None:
    """A digest changes with the entry and with the workspace, an identity only with name and place."""
    first = one(work, home, {"command": "x", "args": ["1"]})
    assert one(work, home, {"args": ["1"], "command": "x"}).digest == first.digest
    other = one(work, home, {"command": "x", "args": ["2"]})
    assert other.digest != first.digest
    assert other.identity == first.identity
    (tmp_path / "elsewhere").mkdir()
    elsewhere = one(tmp_path / "elsewhere", home, {"command": "x", "args": ["1"]})
    assert elsewhere.digest != first.digest
    assert elsewhere.identity != first.identity
