"""The commands around a session: tools, models, sessions, permissions, config, login, doctor and their help."""

from __future__ import annotations

import json
import re
import stat
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.docs.pages import accepted
from tests.providers.server import answer, serve

from jaato.cli.arguments import servers, sessions, settings
from jaato.cli.arguments.parser import GROUPS, OPTIONS, make_parser


def loaded(desk: CliEnvironment, *args: str) -> Any:
    """The JSON a command prints."""
    made = desk.run(*args)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def test_help(desk: CliEnvironment) -> None:
    """`jaato --help` and that of a command say how they are used, on stdout."""
    for words in ([], ["run"], ["registry", "key", "add"]):
        made = desk.run(*words, "--help")
        assert made.returncode == 0
        assert made.stdout.startswith(" ".join(["usage: jaato", *words]))


def parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """A parser and all below it."""
    yield parser
    for action in parser._actions:
        for below in action.choices.values() if isinstance(action, _SubParsersAction) else ():
            yield from parsers(below)


def test_every_command_has_examples() -> None:
    """Below the help of every command and action stand examples of it, and the command line takes them."""
    found = list(parsers(make_parser()))
    assert len(found) > 70
    for parser in found:
        lines = (parser.epilog or "").partition("examples:\n")[2].splitlines()
        examples = [re.split(r" {2,}", line.strip())[0] for line in lines if line.startswith("  ")]
        assert any(f"{one} ".startswith(f"{parser.prog} ") for one in examples), parser.prog
        for one in examples:
            accepted(one)


def test_every_option_is_taken() -> None:
    """Each row of the tables of options is one that a command takes or has by default; groups name no other."""
    used: set[str] = set()
    for table in (sessions, settings, servers):
        commands = list(table.COMMANDS)
        for command in commands:
            commands += command.actions
            names = f"{command.usage} {command.unused}".replace("|", " ").split()
            used |= {name.strip("[].") for name in names}
        assert set(table.OPTIONS) <= used
    assert set(OPTIONS) <= used
    assert {name for names in GROUPS.values() for name in names.split()} <= used


def test_usage_errors(desk: CliEnvironment) -> None:
    """No command, an unknown one, an unknown or malformed flag: exit 2 and usage."""
    for args in (
        [],
        ["fly"],
        ["run", "--fly"],
        ["run", "--max-turns", "0", "x"],
        ["tools"],
        ["sessions", "show"],
    ):
        made = desk.run(*args)
        assert made.returncode == 2, args
        assert "usage: jaato" in made.stderr
    assert desk.run("--version").stdout.startswith("jaato 0.")


@pytest.mark.spec("C1", "Tool names")
def test_tools(desk: CliEnvironment) -> None:
    """Tools are listed by category, shown whole, and weighed."""
    everything = loaded(desk, "tools", "list", "--json")
    assert {"readFile", "run", "list_tools", "writeNewFile"} <= {tool["name"] for tool in everything}
    files = loaded(desk, "tools", "list", "filesystem", "--json")
    assert {tool["category"] for tool in files} == {"filesystem"}
    assert "readFile" in desk.run("tools", "list", "filesystem").stdout
    schema = loaded(desk, "tools", "schema", "cli_based_tool")
    assert schema["name"] == "run"
    assert "command" in schema["parameters"]["properties"]
    weighed = loaded(desk, "tools", "tokens", "--json")
    assert weighed["core_tokens"] == sum(
        t["tokens"] for t in weighed["tools"] if t["discoverability"] == "core"
    )
    assert 0 < weighed["core_tokens"] < weighed["first_request_tokens"] < 2_500
    assert "first request" in desk.run("tools", "tokens").stdout
    made = desk.run("tools", "list", "cooking")
    assert made.returncode == 2
    assert "filesystem" in made.stderr


def test_permissions_say_that_there_is_no_file(desk: CliEnvironment) -> None:
    """The path of a permission file that is not there is marked so."""
    path = desk.work / ".jaato" / "permissions.json"
    assert f"{path} (does not exist)\n" in desk.run("permissions").stdout
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    assert "(does not exist)" not in desk.run("permissions").stdout


def test_permissions_name_patterns_without_a_tool(desk: CliEnvironment) -> None:
    """A rule about a tool that does not exist is listed with the note that it has no effect."""
    path = desk.work / ".jaato" / "permissions.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        '{"blacklist": {"patterns": ["writFile(x)", "writeNewFile(x)", "write*(y)", "run(rm *)", "git push *"]}}'
    )
    notes = [line for line in desk.run("permissions").stdout.splitlines() if line.startswith("note:")]
    assert [note for note in notes if "no effect" in note] == [
        "note: writFile(x) has no effect: there is no such tool"
    ]


def test_models_of_those_that_need_a_file(desk: CliEnvironment) -> None:
    """`jaato models` of the embedded or the scripted model says what is missing, not that a model called `?` is."""
    for name, words in (("local", "is not on this machine"), ("scripted", "--model PATH")):
        made = desk.run("models", "--provider", name)
        assert made.returncode == 2
        assert words in made.stderr
        assert "?" not in made.stderr


def test_models_of_a_server(desk: CliEnvironment) -> None:
    """`jaato models` lists what a server offers; one that refuses is exit 3 with its words."""

    async def main() -> None:
        body = {"object": "list", "data": [{"id": "m-1", "object": "model", "created": 1, "owned_by": "x"}]}
        async with serve(answer(body), answer({"error": {"message": "bad key"}}, 401)) as server:
            environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
            made = await anyio.to_thread.run_sync(lambda: desk.run("models", "--json", environ=environ))
            assert made.returncode == 0, made.stderr
            assert [model["id"] for model in json.loads(made.stdout)] == ["m-1"]
            made = await anyio.to_thread.run_sync(
                lambda: desk.run("models", "--provider", "openai", environ=environ)
            )
            assert made.returncode == 3
            assert "Traceback" not in made.stderr

    anyio.run(main)


def test_sessions(desk: CliEnvironment) -> None:
    """Sessions are listed by workspace, shown as a conversation, renamed, exported and deleted, by id, prefix or name."""
    (desk.work / "a.txt").write_text("hello\n")
    desk.run(
        "run",
        *desk.script(call("readFile", path="a.txt"), say("It says hello.")),
        "--name",
        "greeting",
        "look",
    )
    [row] = loaded(desk, "sessions", "list", "--json")
    assert (row["name"], row["workspace"]) == ("greeting", str(desk.work))
    other = desk.root / "other"
    other.mkdir()
    assert desk.run("sessions", "list", cwd=other).stdout == ""
    assert row["id"] in desk.run("sessions", "list", "--all", cwd=other).stdout
    for name in (row["id"], row["id"][:8], "greeting"):
        shown = desk.run("sessions", "show", name).stdout
        assert [line for line in shown.splitlines() if line.startswith(("user", ">", "    ", "agent:"))] == [
            "user: look",
            "> readFile path=a.txt",
            "    hello",
            "agent: It says hello.",
        ]
    lines = desk.run("sessions", "export", "greeting").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert loaded(desk, "sessions", "export", "greeting", "--json") == [json.loads(line) for line in lines]
    desk.run("sessions", "export", "greeting", "--to", str(desk.root / "out.jsonl"))
    assert (desk.root / "out.jsonl").read_text().splitlines() == lines
    assert desk.run("sessions", "rename", "greeting", "hello").returncode == 0
    refused = desk.run("sessions", "delete", "hello")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert desk.run("sessions", "delete", "hello", "--yes").returncode == 0
    assert desk.sessions() == []


@pytest.mark.spec("C4", "Permissions")
def test_explaining(desk: CliEnvironment) -> None:
    """`permissions explain` says what would happen to a command or call and why, part by part, and changes nothing."""
    verdict = loaded(desk, "permissions", "explain", "git log | head", "--json")
    assert verdict["effect"] == "allow"
    assert [part["text"] for part in verdict["parts"]] == ["git log", "head"]
    wanted = ("permissions", "explain", "run", '{"command": "git log; rm x", "need": ["write"]}')
    verdict = loaded(desk, *wanted, "--json")
    assert [(part["text"], part["effect"]) for part in verdict["parts"]] == [
        ("git log", "ask"),
        ("rm x", "ask"),
    ]
    text = desk.run(*wanted).stdout
    assert text.startswith("asked about (default): git log: no rule covers it; rm x: no rule")
    assert "'always' would cover: git log *; rm x" in text
    asked = ("permissions", "explain", "writeFile", '{"path": "a", "content": ""}')
    assert loaded(desk, *asked, "--json")["effect"] == "ask"
    assert loaded(desk, *asked, "--yes", "--json")["effect"] == "allow"
    assert loaded(desk, *asked, "--yes", "--deny", "writeNewFile", "--json")["effect"] == "deny"
    assert desk.run("permissions", "explain", "readFile", '{"pat": 1}').returncode != 0
    assert list(desk.work.iterdir()) == []


@pytest.mark.spec("C4", "Permissions")
def test_a_permission_file_counts_once_it_is_trusted(desk: CliEnvironment) -> None:
    """A workspace's file allows nothing until `permissions trust`; a change of it must be trusted again."""
    path = desk.work / ".jaato" / "permissions.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"version": 1, "whitelist": {"patterns": ["run(touch *)"]}}))
    assert "not trusted" in desk.run("permissions").stdout
    wanted = ("permissions", "explain", "run", '{"command": "touch a", "need": ["write"]}', "--json")
    assert loaded(desk, *wanted)["effect"] == "ask"
    assert desk.run("permissions", "trust").returncode == 0
    assert loaded(desk, *wanted)["effect"] == "allow"
    path.write_text(path.read_text().replace("touch", "rm"))
    wanted = (*wanted[:3], wanted[3].replace("touch", "rm"), "--json")
    assert loaded(desk, *wanted)["effect"] == "ask"


@pytest.mark.spec("C10", "Environment variables and files")
def test_config(desk: CliEnvironment) -> None:
    """`jaato config` says for every setting where its value comes from, in the order of precedence."""
    desk.config.mkdir(parents=True)
    (desk.config / "config.toml").write_text('model = "mine"\neffort = "low"\nnonsense = 1\n')
    path = desk.work / ".jaato" / "config.toml"
    path.parent.mkdir()
    path.write_text('model = "theirs"\nmax_turns = 5\n')
    found = json.loads(desk.run("config", "--json", environ={"JAATO_EFFORT": "high"}).stdout)
    settings = found["settings"]
    assert settings["model"]["value"] == "mine"
    assert (settings["effort"]["value"], settings["effort"]["source"]) == ("high", "JAATO_EFFORT")
    assert (settings["max_turns"]["value"], settings["max_turns"]["source"]) == (5, str(path))
    assert any("nonsense" in note for note in found["notes"])
    assert any("model is ignored" in note for note in found["notes"])
    assert desk.run("config", "--trust").returncode == 0
    assert loaded(desk, "config", "--json")["settings"]["model"]["value"] == "theirs"
    assert "JAATO_MODEL" in desk.run("config", "--explain").stdout


def test_login_and_logout(desk: CliEnvironment) -> None:
    """A key is saved privately, never printed, chooses its provider, and is forgotten again."""
    made = desk.run("login", "openai", "--key-stdin", stdin="sk-secret-123\n")
    assert made.returncode == 0, made.stderr
    assert "sk-secret" not in made.stdout + made.stderr
    path = desk.config / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    checks = {check["name"]: check for check in loaded(desk, "doctor", "--json")["checks"]}
    assert checks["provider"]["text"].startswith("openai, because its key was saved")
    for text, code in (("", 2), ("two words", 2), ("é", 2)):
        assert desk.run("login", "openai", "--key-stdin", stdin=text).returncode == code
    assert desk.run("login", "openai").returncode == 2
    assert desk.run("login", "nobody", "--key-stdin", stdin="k").returncode == 2
    assert desk.run("logout", "openai").returncode == 0
    assert desk.run("logout", "openai").returncode == 2
    path.chmod(0o644)
    made = desk.run("run", "x")
    assert made.returncode == 2
    assert "chmod 600" in made.stderr


def test_doctor(desk: CliEnvironment) -> None:
    """`jaato doctor` checks what jaato needs, gives each a grade, and a remedy where something is missing."""
    made = desk.run("doctor", environ={"ANTHROPIC_API_KEY": "k"})
    assert made.returncode == 0, made.stdout
    names = [
        line.split()[1] for line in made.stdout.splitlines() if line[:4].strip() in ("ok", "warn", "fail")
    ]
    assert {"python", "sqlite", "state", "sessions", "permissions", "provider", "keyring", "ripgrep"} <= set(
        names
    )
    assert "anthropic, because ANTHROPIC_API_KEY is set" in made.stdout
    assert "\x1b" not in made.stdout
    (desk.home / ".local").write_text("in the way")
    made = desk.run("doctor", environ={"ANTHROPIC_API_KEY": "k"})
    assert made.returncode == 1
    assert "fail  state directory" in made.stdout
