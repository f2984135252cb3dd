"""Keys: never echoed, never taken from the command line, in a file that nobody else can read."""

from __future__ import annotations

import json
import stat

import pytest
from tests.cli.environment import CliEnvironment

SECRET = "sk-123-very-secret"


@pytest.mark.parametrize("args", [[SECRET], ["--key", SECRET], [f"--key={SECRET}"], ["--key-stdin", SECRET]])
def test_a_key_on_the_command_line_is_not_repeated(desk: CliEnvironment, args: list[str]) -> None:
    """A key among the arguments is refused without being shown, and the message says how to give one."""
    made = desk.run("login", "openai", *args, stdin="k")
    assert made.returncode == 2
    assert SECRET not in made.stderr + made.stdout
    assert "--key-stdin" in made.stderr
    assert not (desk.config / "keys.json").exists()


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o600])
def test_the_file_is_private_whatever_it_was(desk: CliEnvironment, mode: int) -> None:
    """Saving into a file that others could read closes it, keeps its keys, and says that they may be known."""
    desk.config.mkdir(parents=True)
    path = desk.config / "keys.json"
    path.write_text(json.dumps({"anthropic": {"key": "old"}}))
    path.chmod(mode)
    made = desk.run("login", "openai", "--key-stdin", stdin=SECRET)
    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {"anthropic": {"key": "old"}, "openai": {"key": SECRET}}
    assert ("readable by other users" in made.stderr) == (mode != 0o600)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "google_genai", "github_models"])
def test_a_saved_key_selects_its_provider(desk: CliEnvironment, provider: str) -> None:
    """After `jaato login` nothing else has to be named, whichever provider the message without a model has offered."""
    assert f"jaato login {provider}" in desk.run("login").stderr.replace(" |", " jaato login")
    assert desk.run("login", provider, "--key-stdin", stdin=SECRET).returncode == 0
    made = desk.run("doctor", "--json", environ={"OLLAMA_HOST": "127.0.0.1:9"})
    [check] = [one for one in json.loads(made.stdout)["checks"] if one["name"] == "provider"]
    assert check["grade"] == "ok"
    assert check["text"].startswith(f"{provider}, because its key was saved")


@pytest.mark.parametrize("entry", ["text", 3, None, [], {"key": 3}])
def test_an_entry_that_is_none(desk: CliEnvironment, entry: object) -> None:
    """A file with an entry nobody wrote can still be used: the entry is forgotten or replaced."""
    desk.config.mkdir(parents=True)
    path = desk.config / "keys.json"
    path.write_text(json.dumps({"openai": entry}))
    path.chmod(0o600)
    assert desk.run("logout", "openai").returncode in (0, 2)
    assert desk.run("login", "openai", "--key-stdin", stdin=SECRET).returncode == 0
    assert json.loads(path.read_text())["openai"] == {"key": SECRET}
