"""The `run` tool: how a command that is not hostile starts, ends and is stopped, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from tests.shell.running import OneHost, Shell

from jaato.errors import CancelledException, InvalidArguments, ToolError
from jaato.plugins.shell import ShellPlugin
from jaato.tools.tool import tools_of


def test_output_and_exit_code(shell: Shell) -> None:
    """Both streams come interleaved as they were written, with the exit code."""
    done = shell.run("echo one; echo two >&2; echo three; exit 3")
    assert done["output"] == "one\ntwo\nthree\n"
    assert done["exit_code"] == 3
    assert set(done) == {"exit_code", "output", "duration_s"}


def test_bash_is_the_shell(shell: Shell) -> None:
    """Commands are bash, not sh."""
    assert shell.run("a=(1 2 3); echo ${a[@]:1} <(:) | cut -c1-4")["output"] == "2 3 \n"


def test_arguments_mean_no_shell(shell: Shell) -> None:
    """With args the program gets them as they are."""
    assert shell.run("printf", ["%s|", "$HOME", "a b", "*", ""])["output"] == "$HOME|a b|*||"


def test_a_missing_program_is_named(shell: Shell) -> None:
    """Without a shell a program that is not there is said in words."""
    with pytest.raises(ToolError, match="no program 'no-such-program' on the PATH"):
        shell.run("no-such-program", [])
    assert shell.run("no-such-program")["exit_code"] == 127


def test_what_cannot_be_executed_is_named(shell: Shell) -> None:
    """A file that is no program says so."""
    (shell.workspace / "text").write_text("x")
    with pytest.raises(ToolError, match="not executable"):
        shell.run("./text", [])


def test_a_missing_workspace_is_named(tmp_path: Path) -> None:
    """A workspace that is gone is an error with the remedy."""
    shell = Shell(tmp_path / "gone")
    with pytest.raises(ToolError, match="is not there; create it"):
        shell.run("true")
    shell.plugin.shutdown()


def test_a_command_that_is_too_long(shell: Shell) -> None:
    """A command over the system's limit is refused with the way out."""
    with pytest.raises(ToolError, match="Write it to a script file"):
        shell.run("true #" + "x" * 3_000_000)


@pytest.mark.parametrize(
    ("command", "timeout_s"), [(" ", None), ("a\0b", None), ("true", 0.0), ("true", float("nan"))]
)
def test_arguments_no_command_can_have(shell: Shell, command: str, timeout_s: float | None) -> None:
    """Empty commands, NUL and impossible times are refused before anything starts."""
    with pytest.raises(InvalidArguments):
        shell.run(command, timeout_s=timeout_s)


def test_the_working_directory_is_the_workspace(shell: Shell) -> None:
    """Commands start in the workspace."""
    assert shell.run("pwd -P")["output"].strip() == str(shell.workspace.resolve())


def test_ended_by_a_signal(shell: Shell) -> None:
    """A command that a signal ended says which, with the shell's exit code for it."""
    done = shell.run("echo before; kill -SEGV $$")
    assert (done["exit_code"], done["signal"], done["output"]) == (139, "SIGSEGV", "before\n")


def test_timeout_keeps_what_was_printed(shell: Shell) -> None:
    """A command over its time is ended and what it had printed is kept."""
    done = shell.run("echo early; sleep 600", timeout_s=1)
    assert done["timed_out"] is True
    assert done["output"] == "early\n"
    assert done["signal"] == "SIGTERM"


def test_a_timeout_lets_the_command_clean_up(shell: Shell) -> None:
    """SIGTERM comes first, so that a lock can be removed."""
    done = shell.run("trap 'rm lock; echo cleaned; exit 7' TERM; touch lock; sleep 600 & wait", timeout_s=1)
    assert (done["exit_code"], done["output"], done["timed_out"]) == (7, "cleaned\n", True)


def test_cancellation_goes_on_after_the_killing(shell: Shell) -> None:
    """When the task is cancelled the command is ended first."""
    seen: list[str] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                while not seen:
                    await anyio.sleep(0.005)
                group.cancel_scope.cancel()

            group.start_soon(cancel)
            await shell.plugin.run("echo $$; sleep 600", call=shell.call(output=seen.append))

    anyio.run(main)
    with suppress(OSError):  # it is gone, or goes while it is read
        assert "Z" in Path(f"/proc/{seen[0].strip()}/stat").read_text()


def test_the_token_stops_a_command_from_any_thread(shell: Shell) -> None:
    """Cancelling the call's token ends the command."""
    call = shell.call()
    call.output = lambda _text: threading.Thread(target=call.token.cancel).start()
    with pytest.raises(CancelledException):
        shell.run("echo go; sleep 600", call=call)


def test_what_is_left_running_is_named(shell: Shell) -> None:
    """A server left behind is killed, and the note says how to keep one."""
    done = shell.run("sleep 3601 & echo started")
    assert done["output"] == "started\n"
    assert "sleep 3601" in done["note"]
    assert "background=true" in done["note"]


def test_a_process_substitution_may_finish(shell: Shell) -> None:
    """What ends by itself right after the command is not cut off."""
    assert shell.run("exec > >(sleep 0.03; cat); echo late")["output"] == "late\n"


def test_eight_at_once(shell: Shell) -> None:
    """Commands run beside each other, each with its own output."""

    async def main() -> list[str]:
        found = [""] * 8

        async def one(number: int) -> None:
            done = await shell.plugin.run(
                f"touch {number}; while [ $(ls | wc -l) -lt 8 ]; do sleep 0.01; done; echo {number}",
                call=shell.call(),
            )
            found[number] = done["output"]

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)
        return found

    assert anyio.run(main) == [f"{number}\n" for number in range(8)]


def test_descriptors_do_not_leak(shell: Shell) -> None:
    """After forty commands no descriptor is left, here or in the warden."""
    shell.run("true")
    places = [Path("/proc/self/fd"), Path(f"/proc/{shell.plugin.launcher.warden_pid}/fd")]
    before = [len(list(place.iterdir())) for place in places]
    for _ in range(40):
        shell.run("true", [])
    for _ in range(300):  # the warden may still be taking in the last supervisor
        after = [len(list(place.iterdir())) for place in places]
        if after <= before:
            break
        time.sleep(0.01)
    assert after[0] <= before[0]
    assert after[1] <= before[1]


def test_a_killed_warden_is_replaced(shell: Shell) -> None:
    """The next command after the warden's death has a new one."""
    shell.run("true")
    first = shell.plugin.launcher.warden_pid
    os.kill(first, signal.SIGKILL)
    assert shell.run("echo again")["output"] == "again\n"
    assert shell.plugin.launcher.warden_pid != first


def test_shutdown_ends_the_warden(tmp_path: Path) -> None:
    """After shutdown no process of ours is left."""
    shell = Shell(tmp_path)
    shell.run("true")
    pid = shell.plugin.launcher.warden_pid
    shell.plugin.shutdown()
    assert not Path(f"/proc/{pid}").exists()


def test_shutdown_ends_commands_that_run(tmp_path: Path) -> None:
    """A plugin that is shut down in the middle of a command ends it."""
    shell = Shell(tmp_path)
    call = shell.call()
    call.output = lambda _text: threading.Thread(target=shell.plugin.shutdown).start()
    with pytest.raises(CancelledException):
        shell.run("echo go; trap '' TERM; setsid sleep 3602 & sleep 3603", call=call)
    shell.plugin.shutdown()


@pytest.mark.spec("C1", "Tool names")
def test_the_tool_as_the_model_sees_it(tmp_path: Path) -> None:
    """`run` is core, has its documented aliases and parameters, and costs few tokens."""
    (tool,) = tools_of(ShellPlugin(OneHost(tmp_path)), "cli")
    assert (tool.name, tool.spec.category, tool.spec.discoverability) == ("run", "system", "core")
    assert list(tool.spec.parameters["properties"]) == [
        *("command", "args", "timeout_s", "background", "need", "reason"),
    ]
    assert set(tool.aliases) == {"cli_based_tool", "cli_execute", "runCommand"}
    assert all(rename == {"cmd": "command"} for rename in tool.aliases.values())
    assert tool.background_after_s == 10.0
    assert len(tool.spec.description.split()) <= 40
    declared = {"name": tool.name, "description": tool.spec.description, "parameters": tool.spec.parameters}
    assert len(json.dumps(declared)) < 900
