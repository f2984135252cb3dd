"""Nothing below a call loosens: what an allowed command does to rules, trust, keys and the server, played to its end."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment
from tests.security.below import HARM, JAATO, LOOSE, attacked, code, harmed, output, written

ESCAPES = {
    "plain": "{command}",
    "without the mark": "env -u JAATO_CALL {command}",
    "with an empty environment": "env -i PATH=$PATH HOME=$HOME PYTHONPATH=$PYTHONPATH XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR {command}",
    "in a session of its own": "env -u JAATO_CALL setsid -w {command}",
    "orphaned": "rm -f left\n(env -u JAATO_CALL setsid sh -c 'sleep 0.3; {command} > out2 2>&1; echo $? > left' &)\n"
    'while [ ! -s left ]; do sleep 0.05; done\ncat out2\nsh -c "exit $(cat left)"',
}


@contextmanager
def machine(root: Path) -> Iterator[CliEnvironment]:
    """A user's machine whose server, if one is begun, has a short path."""
    desk = CliEnvironment(root)
    with tempfile.TemporaryDirectory(prefix="jaato-") as runtime:
        desk.env["XDG_RUNTIME_DIR"] = runtime
        yield desk


@contextmanager
def serving(desk: CliEnvironment) -> Iterator[CliEnvironment]:
    """The same with a server, while the body runs."""
    assert desk.run("serve", "--daemon").returncode == 0
    try:
        yield desk
    finally:
        desk.run("serve", "--stop")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[CliEnvironment]:
    """A machine nothing runs on."""
    with machine(tmp_path) as desk:
        yield desk


@pytest.fixture
def served(desk: CliEnvironment) -> Iterator[CliEnvironment]:
    """One with a server."""
    with serving(desk):
        yield desk


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliEnvironment]:
    """One with a server, for tests whose calls write no rules, trust or answers."""
    with machine(tmp_path_factory.mktemp("shared")) as desk, serving(desk):
        yield desk


def trusting(desk: CliEnvironment) -> str:
    """Shell that makes the workspace's rules allow everything, and notes in the user's state that they are trusted."""
    rules = desk.work / ".jaato" / "permissions.json"
    digest = hashlib.sha256(json.dumps(LOOSE).encode() + b"\n").hexdigest()
    trust = {"version": 1, "files": {str(rules.resolve()): f"sha256:{digest}"}}
    return f"{written(rules, LOOSE)}\n{written(desk.state / 'trust.json', trust)}"


@pytest.mark.parametrize("where", ["--no-daemon", "--connect"])
def test_a_command_that_trusts_its_own_rules_does_not_loosen_its_session(
    served: CliEnvironment, where: str
) -> None:
    """`make test` writes rules and the user's trust in them: the next command of its session, here or in a server, is
    not allowed by them; those of a new session are, for this user wrote no other."""
    flags = (
        [where] if where == "--no-daemon" else [where, f"{served.env['XDG_RUNTIME_DIR']}/jaato/jaato.sock"]
    )
    done = attacked(served, trusting(served), *flags)
    assert code(served) == 0, done
    assert not harmed(served)
    assert attacked(served, "true", *flags).returncode in (0, 4)
    assert harmed(served)


@pytest.mark.parametrize("escape", ESCAPES)
def test_trust_given_below_a_call_is_refused(desk: CliEnvironment, escape: str) -> None:
    """`jaato permissions trust` within a command exits with 4, says what to do, and writes no trust."""
    command = ESCAPES[escape].replace("{command}", f"{JAATO} permissions trust")
    attacked(desk, f"{written(desk.work / '.jaato' / 'permissions.json', LOOSE)}\n{command}")
    assert code(desk) == 4, output(desk)
    assert "a terminal of your own" in output(desk)
    assert not harmed(desk)
    assert not (desk.state / "trust.json").exists()
    attacked(desk, "true")
    assert not harmed(desk)


@pytest.mark.parametrize(
    "command",
    [
        "permissions revoke g1",
        "plugins trust notes --yes",
        "plugins untrust notes",
        "config --trust",
        "mcp add files -- cat",
        "mcp remove files",
        "mcp trust files --yes",
        "mcp login files",
        "mcp logout files",
        "registry add weather https://tools.example.com",
        "registry remove weather",
        "registry trust weather --yes",
        "registry key add ci",
        "registry key remove ci",
        "tokens add phone --role owner",
        "tokens remove phone",
        "login openai --key-stdin",
        "logout openai",
    ],
)
def test_commands_that_write_settings_or_keys_are_refused_below_a_call(
    desk: CliEnvironment, command: str
) -> None:
    """Each exits with 4 below a call, whatever is there, and does its work elsewhere."""
    (desk.work / ".jaato").mkdir()
    (desk.work / ".jaato" / "config.toml").write_text("max_turns = 3\n")
    below = desk.run(*command.split(), stdin="key\n", environ={"JAATO_CALL": "0123456789abcdef"})
    assert below.returncode == 4, below
    assert "below a call" in below.stderr
    outside = desk.run(*command.split(), stdin="key\n")
    assert outside.returncode != 4
    assert "below a call" not in outside.stderr


def test_an_answer_given_below_a_call_does_not_outlive_it(desk: CliEnvironment) -> None:
    """A command starts an agent of its own and answers its question with `always`: neither rule nor trust is written."""
    nested = desk.script(
        {"calls": [{"name": "run", "arguments": {"command": HARM, "need": ["write"]}}]},
        {"text": "x"},
        name="nested.json",
    )
    command = [*JAATO.split(), "chat", "--no-daemon", *nested, "go"]
    (desk.work / "drive.py").write_text(
        f"import pexpect, sys\nchild = pexpect.spawn({command[0]!r}, {command[1:]!r}, encoding='utf-8', timeout=60)\n"
        "child.logfile_read = sys.stdout\nchild.expect('touch harm')\nchild.expect('(?i)allow')\nchild.expect(r'\\? $')\n"
        "child.sendline('a')\nchild.expect('> run touch harm')\nchild.expect('> $')\nchild.close(force=True)\n"
    )
    attacked(desk, f"{sys.executable} drive.py")
    assert "> run touch harm" in output(desk)
    assert not (desk.work / ".jaato" / "permissions.json").exists()
    assert not (desk.state / "trust.json").exists()


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_client_below_a_call_is_not_let_in_by_the_server(shared: CliEnvironment, escape: str) -> None:
    """A command that comes to the user's server, to have it run what nothing allows, is refused with the reason."""
    for name in ("harm", "out", "code"):
        (shared.work / name).unlink(missing_ok=True)
    script = shared.script(
        {"calls": [{"name": "run", "arguments": {"command": HARM}}]}, {"text": "x"}, name="nested.json"
    )
    socket = f"{shared.env['XDG_RUNTIME_DIR']}/jaato/jaato.sock"
    command = f"{JAATO} run --connect {socket} --yes {' '.join(script)} go"
    attacked(shared, ESCAPES[escape].replace("{command}", command), "--no-daemon")
    assert code(shared) == 4, output(shared)
    assert "A tool call has started this client" in output(shared)
    assert not harmed(shared)
    outside = shared.run("run", "--connect", socket, "--yes", *script, "go")
    assert outside.returncode == 0, outside
    assert harmed(shared)


def test_an_agent_that_a_command_starts_works_without_the_server(shared: CliEnvironment) -> None:
    """Where a server would be used, an agent within a command works in its own process: what it may, it does."""
    script = shared.script({"text": "worked"}, name="nested.json")
    attacked(shared, f"{JAATO} run {' '.join(script)} go", "--no-daemon")
    assert code(shared) == 0, output(shared)
    assert "worked" in output(shared)
