"""What the model reads of a command that the sandbox has held: its profile, what was refused, how to ask for more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.shell.running import OneHost, Shell

from jaato.errors import InvalidArguments
from jaato.plugins.shell import ShellPlugin, add_sandbox_refusals
from jaato.plugins.terminal.plugin import TerminalPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.tools.pipeline import invalid
from jaato.tools.processes.sandbox.sandbox import Confinement
from jaato.tools.tool import tool_from

C4 = pytest.mark.spec("C4", "Permissions")
READING, WRITING = SandboxAccess("read-only"), SandboxAccess("workspace-write")


def held(shell: Shell, command: str, access: SandboxAccess | None) -> dict[str, Any]:
    """Run a command with this access."""
    call = shell.call()
    call.access = access
    return shell.run(command, call=call)


@C4
def test_a_result_says_that_it_was_read_only_and_what_was_refused(shell: Shell) -> None:
    """A command that could only read says so; a write that failed is named, with how to ask for it."""
    assert held(shell, "echo fine", READING) | {"duration_s": 0} == {
        "exit_code": 0,
        "output": "fine\n",
        "duration_s": 0,
        "sandbox": "read-only",
    }
    refused = held(shell, "echo x > made; mkdir d", READING)
    assert len(refused["refused"]) == 2
    assert all("Read-only file system" in line for line in refused["refused"])
    assert "need (write)" in refused["note"]
    looked = held(
        shell, "python3 -c 'import urllib.request as r; r.urlopen(\"http://pypi.org\", timeout=5)'", READING
    )
    assert "net:HOST" in looked["note"]
    assert not list(shell.workspace.iterdir())
    for access in (WRITING, SandboxAccess("full"), None):
        made = held(shell, "echo x > made", access)
        assert made["exit_code"] == 0
        assert not {"sandbox", "refused"} & made.keys()


@C4
def test_a_write_outside_the_workspace_names_what_opens_it(shell: Shell) -> None:
    """Where the workspace may be written, what is refused lies outside, or is a control file."""
    refused = held(shell, "touch /usr/outside", WRITING)
    assert "dir:/PATH, control" in refused["note"]
    assert not Path("/usr/outside").exists()


@pytest.mark.parametrize(
    ("output", "code", "needs"),
    [
        ("grep: found 'Permission denied' in a.py", 0, None),
        ("bash: /x: Permission denied", 126, "write"),
        ("OSError: [Errno 30] Read-only file system: 'x'", 0, "write"),
        ("curl: (6) Could not resolve host: pypi.org", 6, "net:HOST"),
        ("E: Temporary failure in name resolution\nopen: Read-only file system", 1, "net:HOST, write"),
        ("sqlite3.OperationalError: attempt to write a readonly database", 1, "write"),
        ("fatal: something else", 128, None),
    ],
)
def test_which_refusals_are_seen(output: str, code: int, needs: str | None) -> None:
    """By the words that programs use for them, and by the exit code where the words alone prove nothing."""
    value = add_sandbox_refusals(
        {"exit_code": code, "output": output, "note": "Before."}, Confinement(READING)
    )
    if needs is None:
        assert "refused" not in value
    else:
        assert value["note"] == f"Before. Call again with need ({needs}) and a reason."
        told = add_sandbox_refusals(
            {"exit_code": code, "output": output}, Confinement(READING), "tail: no rule covers it"
        )
        assert told["note"].startswith("Why: tail: no rule covers it. Call again")


@C4
@pytest.mark.parametrize("plugin", [ShellPlugin, TerminalPlugin])
def test_a_need_that_is_none_is_an_invalid_argument(tmp_path: Path, plugin: Any) -> None:
    """Before anybody is asked, with what is possible."""
    made = plugin(OneHost(tmp_path))
    one = tool_from(made.run if plugin is ShellPlugin else made.shell_spawn)
    assert one.confines
    assert (
        one.issues({"command": "ls", "need": ["write", "net:pypi.org", "dir:/srv", "control", "full"]}) == []
    )
    ((path, text),) = one.issues({"command": "ls", "need": ["write", "net:a b"]})
    assert path == "/need/1"
    assert "net:HOST" in text
    call = Shell(tmp_path).call()
    call.arguments = {"command": "ls", "need": ["no"]}
    assert isinstance(invalid(call, one), InvalidArguments)
    made.shutdown()
