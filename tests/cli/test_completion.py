"""Shell completion: what real shells offer for a command line that is begun."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, say
from tests.cli.terminal import end

from jaato.cli.arguments.parser import MODES, PROVIDERS, TABLES
from jaato.cli.arguments.settings import KEYED

SHELLS = ("bash", "zsh", "fish")
ASK_BASH = """
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_jaato
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(desk: CliEnvironment, shell: str) -> Path:
    """A file with the script for a shell."""
    made = desk.run("completion", shell)
    assert made.returncode == 0, made.stderr
    path = desk.root / f"completion.{shell}"
    path.write_text(made.stdout)
    return path


def need(shell: str) -> str:
    """The path of a shell; skips a test without it."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


def bash(desk: CliEnvironment, path: Path, *words: str) -> list[str]:
    """What bash offers in place of the last word."""
    made = subprocess.run(
        [need("bash"), "--norc", "-c", ASK_BASH, "bash", str(path), "jaato", *words],
        env=desk.env,
        cwd=desk.work,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stderr == ""
    return [line for line in made.stdout.splitlines() if line]


def fish(desk: CliEnvironment, path: Path, line: str) -> list[str]:
    """What fish offers at the end of a line, without descriptions."""
    made = subprocess.run(
        [need("fish"), "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(path), line],
        env=desk.env,
        cwd=desk.work,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stderr == ""
    return [found.partition("\t")[0] for found in made.stdout.splitlines()]


@pytest.fixture
def with_sessions(desk: CliEnvironment) -> CliEnvironment:
    """An environment with a command `jaato` on its path, and sessions, one of them with a name that a shell might expand."""
    programs = desk.root / "programs"
    programs.mkdir()
    program = programs / "jaato"
    program.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in desk.command) + ' "$@"\n')
    program.chmod(0o755)
    desk.env["PATH"] = f"{programs}:{desk.env['PATH']}"
    for name in ("the slow test", "$(touch hacked)`touch hacked`"):
        assert desk.run("run", *desk.script(say("ok")), "--name", name, "hello").returncode == 0
    return desk


def test_commands_and_options(desk: CliEnvironment) -> None:
    """bash offers commands, their actions, options, choices and providers."""
    path = script(desk, "bash")
    commands = " ".join(TABLES.values()).split()
    assert sorted(bash(desk, path, "")) == sorted(commands)
    assert bash(desk, path, "se") == ["sessions", "serve"]
    assert set(bash(desk, path, "sessions", "")) >= {"list", "search", "show", "delete"}
    assert bash(desk, path, "registry", "key", "a") == ["add"]
    assert "--read-only" in bash(desk, path, "run", "--re")
    assert sorted(bash(desk, path, "run", "--mode", "")) == sorted(MODES)
    assert sorted(bash(desk, path, "run", "--provider", "")) == sorted(PROVIDERS)
    assert bash(desk, path, "completion", "") == list(SHELLS)
    assert bash(desk, path, "run", "--max-turns", "") == []


def test_files_and_directories(desk: CliEnvironment) -> None:
    """bash offers files where files go, and directories where those go."""
    (desk.work / "notes.txt").write_text("")
    (desk.work / "nested").mkdir()
    path = script(desk, "bash")
    assert sorted(bash(desk, path, "run", "--image", "n")) == ["nested", "notes.txt"]
    assert bash(desk, path, "run", "--workspace", "n") == ["nested"]


def test_sessions_in_bash(with_sessions: CliEnvironment) -> None:
    """bash offers the names of sessions, quoted; nothing in a name is expanded."""
    desk, path = with_sessions, script(with_sessions, "bash")
    for words in (["attach"], ["sessions", "show"], ["run", "--session"], ["chat", "-s"]):
        offered = bash(desk, path, *words, "")
        assert r"the\ slow\ test" in offered
        assert len(offered) == 2
    assert bash(desk, path, "attach", r"the\ sl") == [r"the\ slow\ test"]
    assert bash(desk, path, "attach", "x") == []
    assert not (desk.work / "hacked").exists()


def test_no_store_is_made(desk: CliEnvironment) -> None:
    """Completing a command line leaves no files behind."""
    made = desk.run("sessions", "list", "--names")
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    assert not desk.state.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_syntax(desk: CliEnvironment, shell: str) -> None:
    """Each shell reads its script without a complaint."""
    made = subprocess.run(
        [need(shell), "-n", str(script(desk, shell))],
        capture_output=True,
        text=True,
        env=desk.env,
        check=False,
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")


def test_fish(with_sessions: CliEnvironment) -> None:
    """fish offers commands, options, choices, files and the names of sessions."""
    desk, path = with_sessions, script(with_sessions, "fish")
    (desk.work / "notes.txt").write_text("")
    assert sorted(fish(desk, path, "jaato ")) == sorted(" ".join(TABLES.values()).split())
    assert "--read-only" in fish(desk, path, "jaato run --re")
    assert sorted(fish(desk, path, "jaato run --mode ")) == sorted(MODES)
    assert fish(desk, path, "jaato run --image no") == ["notes.txt"]
    assert "the slow test" in [name.replace("\\", "") for name in fish(desk, path, "jaato attach ")]
    assert not (desk.work / "hacked").exists()


def test_zsh(with_sessions: CliEnvironment) -> None:
    """zsh offers commands, choices and the names of sessions at a real prompt, installed as the help says."""
    import pexpect

    zsh, desk, path = need("zsh"), with_sessions, script(with_sessions, "zsh")
    path.rename(path.with_name("_jaato"))
    setup = f"fpath+={path.parent}; autoload -U compinit; compinit -D -u; echo re''ady"
    shell = pexpect.spawn(
        zsh, ["-f", "-i"], env=desk.env | {"TERM": "dumb", "PS1": "> "}, cwd=str(desk.work), timeout=60
    )
    try:
        shell.sendline(setup)
        shell.expect("ready\r")
        for typed, completed in {
            "jaato compl": "completion ",
            "jaato run --mode acc": "accept-edits ",
            "jaato sessions show the": r"the\ slow\ test ",
        }.items():
            shell.send(f"{typed}\t")
            shell.expect_exact(completed)
            shell.send("\x15")
    finally:
        end(shell)
    assert not (desk.work / "hacked").exists()


def test_providers_with_a_key(desk: CliEnvironment) -> None:
    """`jaato login` offers the providers that have an API key."""
    assert bash(desk, script(desk, "bash"), "login", "") == list(KEYED)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_names_no_place(desk: CliEnvironment, shell: str) -> None:
    """The script begins with what a shell reads: where to put it is said by `jaato completion --help` alone."""
    lines = script(desk, shell).read_text().splitlines()
    assert not lines[1].startswith("#")
    assert (lines[0] == "#compdef jaato") == (shell == "zsh")
