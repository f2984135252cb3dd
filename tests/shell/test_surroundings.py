"""What a command finds around it: no terminal, no prompts, an environment of its own, nothing of ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.shell.running import Shell

from jaato import settings


def test_nothing_reads_from_the_terminal(shell: Shell) -> None:
    """Input is at its end and there is no terminal to ask on."""
    done = shell.run(
        "read x; echo read=$?; cat; tty; (: </dev/tty) 2>/dev/null; echo tty=$?; ssh-keygen -y -f none"
    )
    assert done["output"].startswith("read=1\nnot a tty\ntty=1\n")


def test_no_pager_no_editor_no_credential_prompt(shell: Shell) -> None:
    """git neither pages, nor edits, nor asks for a password."""
    done = shell.run(
        "git init -q . && git config core.pager 'sleep 600' && git config core.editor 'sleep 600' &&"
        "git config user.email a@b && git config user.name n && echo 1 > f && git add f &&"
        "git commit -qm first && git log --oneline | cut -d' ' -f2 && git -p log --format=%s && echo 2 > f;"
        "git commit -a; echo commit=$?; git commit -q --amend -a && git log --format=%s;"
        "git fetch https://127.0.0.1:9/x; echo fetch=$?",
        timeout_s=60,
    )
    assert "timed_out" not in done
    assert done["output"].startswith("first\nfirst\n")
    assert "empty commit message" in done["output"]
    assert "commit=1\nfirst\n" in done["output"]
    assert "fetch=128" in done["output"]


def test_the_environment_is_a_parameter(tmp_path: Path) -> None:
    """Commands get the host's environment without jaato's own keys, and the configured additions."""
    environ = {
        "PATH": settings.environment()["PATH"],
        "MINE": "1",
        "OPENAI_API_KEY": "secret",
        "GITHUB_TOKEN": "t",
        "OTHER": "x",
    }
    shell = Shell(tmp_path, {"hide_env": ["OTHER"], "env": {"EXTRA": "2", "TERM": "vt100"}}, environ)
    shown = dict(line.split("=", 1) for line in shell.run("env")["output"].splitlines())
    assert (shown["MINE"], shown["EXTRA"], shown["TERM"], shown["GITHUB_TOKEN"]) == ("1", "2", "vt100", "t")
    assert (shown["PAGER"], shown["GIT_TERMINAL_PROMPT"]) == ("cat", "0")
    assert not {"OPENAI_API_KEY", "OTHER"} & shown.keys()
    shell.plugin.shutdown()


def test_a_command_inherits_nothing_of_ours(shell: Shell) -> None:
    """Its descriptors are the three, its signals are the defaults, its niceness is ours."""
    done = shell.run("echo /proc/self/fd/*; nice; grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2")
    listed, nice, blocked, ignored = done["output"].splitlines()
    assert [path.rpartition("/")[2] for path in listed.split()][:3] == ["0", "1", "2"]
    assert len(listed.split()) <= 4  # the listing itself may show its own
    assert int(nice) == os.nice(0)
    assert int(blocked, 16) == 0
    assert int(ignored, 16) & ~(0b11 << 31) == 0  # 32 and 33 are the C library's own


def test_git_is_there() -> None:
    """The tests of prompts need a real git."""
    assert subprocess.run(["git", "--version"], capture_output=True, check=False).returncode == 0
