"""The `run` tool where something around it is odd: the configuration, the disk, the environment, the system."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import anyio
import pytest
from tests.shell.running import Shell

from jaato import settings
from jaato.errors import CancelledException, ConfigError, InvalidArguments, ToolError
from jaato.tools.processes import command as shell_command
from jaato.tools.processes import launcher

DAY_S = 24 * 3600
LINUX_ONLY = """
import fcntl, os, resource, signal, socket, sys
for place, names in ((os, "pipe2 pidfd_open setresuid"), (fcntl, "F_SETPIPE_SZ"), (resource, "prlimit"),
                     (socket, "MSG_CMSG_CLOEXEC SOCK_SEQPACKET"), (signal, "SIGPWR SIGSTKFLT")):
    for name in names.split():
        if hasattr(place, name):
            delattr(place, name)
sys.platform = "darwin"
"""
NO_PROC = """
sys.path.append(sys.argv[1])
from jaato.tools.processes.warden import process_tree
process_tree.PROC, process_tree.LISTED, process_tree.CHILD_LISTS = "/nowhere", False, False
"""
NO_CHILD_LISTS = """
import sys
sys.path.append(sys.argv[1])
from jaato.tools.processes.warden import process_tree
process_tree.CHILD_LISTS = False
"""


def carrying(mark: str) -> list[str]:
    """The living processes with this in their command line, and no zombie."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("without", ["child lists", "/proc", "what Linux alone has"])
def test_a_system_with_less_runs_commands_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    """Without the kernel's lists of children, `/proc` or what Linux alone has: the same, and nothing left."""
    lacks = {
        "child lists": NO_CHILD_LISTS,
        "/proc": f"import sys{NO_PROC}",
        "what Linux alone has": f"{LINUX_ONLY}{NO_PROC}",
    }[without]
    monkeypatch.setattr(launcher, "START", lacks + launcher.START)
    shell = Shell(tmp_path)
    mark = f"3600.{os.getpid()}{time.monotonic_ns() % 10**8:08d}"
    try:
        done = shell.run("echo one; ls /proc/self/fd | wc -l; exit 3")
        assert (done["exit_code"], done["output"]) == (3, "one\n4\n")
        shell.run(f"sleep {mark} & (sleep {mark} &) ; nohup sleep {mark} >/dev/null 2>&1 & echo started")
        assert carrying(mark) == []
        done = shell.run(f"sleep {mark} & trap '' TERM; while :; do sleep {mark}; done", timeout_s=0.2)
        assert done["timed_out"] is True
        assert carrying(mark) == []
        assert shell.run("seq 100000")["output_bytes"] == 588895
        if without != "what Linux alone has":  # there a second session is out of reach
            shell.run(f"setsid sleep {mark} & (setsid -f sleep {mark})")
            assert carrying(mark) == []
    finally:
        shell.plugin.shutdown()


def test_a_process_without_its_first_thread_is_ended(shell: Shell) -> None:
    """A process whose first thread has ended looks like a zombie and is none."""
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    program = (
        "import ctypes, os, threading, time\n"
        "def stay():\n time.sleep(0.1); open('up', 'w').close(); time.sleep(3600)\n"
        "threading.Thread(target=stay).start()\n"
        f"ctypes.CDLL(None).syscall({60 if os.uname().machine == 'x86_64' else 93}, 0)\n"  # exit, of one thread
    )
    (shell.workspace / f"{mark}.py").write_text(program)
    shell.run(f"python3 {mark}.py & while [ ! -e up ]; do sleep 0.01; done", timeout_s=60)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                assert os.readlink(entry / "cwd") != str(shell.workspace), entry
            except OSError:
                continue


def test_a_call_that_was_cancelled_before_it_began(shell: Shell) -> None:
    """A token that is cancelled already stops the command at its start."""
    call = shell.call()
    call.token.cancel()
    with pytest.raises(CancelledException):
        shell.run("sleep 600", call=call)


def test_cancelled_while_the_request_goes_out(shell: Shell) -> None:
    """A command whose request has not gone out whole never starts, and its cancellation waits for nobody."""

    shell.run("true")

    async def main() -> None:
        arguments = ["x" * 100_000] * 60
        running = shell_command.Command(
            ["/bin/sh", "-c", "touch started", *arguments],
            shell.workspace,
            {"PATH": os.defpath},
            limits=shell_command.CommandLimits(),
            show=print,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(running.run, shell.plugin.launcher)
            while not running.asking:
                await anyio.sleep(0)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert not (shell.workspace / "started").exists()


def test_a_command_that_kills_its_supervisor_keeps_its_output(shell: Shell) -> None:
    """What had been written when the supervisor was killed is cut and kept like any other output."""
    kept: list[bytes] = []

    def keep(data: bytes | Path) -> str:
        assert isinstance(data, Path)
        kept.append(data.read_bytes())
        return "result:abc"

    wait = "while [ $(stat -c %s ${TMPDIR:-/tmp}/jaato-run-$JAATO_CALL) -lt 588895 ]; do sleep 0.01; done"
    done = shell.run(
        f"seq 100000; {wait}; kill -9 $PPID; sleep 600", call=shell.call(keep=keep), timeout_s=60
    )
    assert (done["signal"], done["exit_code"], done["output_bytes"]) == ("SIGKILL", None, 588895)
    assert done["output"].startswith("1\n2\n")
    assert done["output"].endswith("\n100000\n")
    assert done["handle"] == "result:abc"
    assert kept == ["".join(f"{number}\n" for number in range(1, 100001)).encode()]
    assert not list(Path(tempfile.gettempdir()).glob(f"jaato-run-*{os.getpid()}*"))


def test_a_supervisor_that_does_not_answer_delays_nobody(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When no last word comes in its time, what runs is ended from here and the call returns."""
    monkeypatch.setattr(shell_command, "GONE_WITHIN_S", -3600.0)
    mark = f"3600.{os.getpid()}{time.monotonic_ns() % 10**8:08d}"
    done = shell.run(f"setsid sleep {mark} & sleep {mark}", timeout_s=600)
    assert (done["timed_out"], done["exit_code"]) == (True, None)
    assert "did not answer" in done["note"]
    assert carrying(mark) == []


def test_output_that_nobody_took_is_removed_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of output that a killed jaato left goes when commands are run again; a fresh one stays."""
    spools = tmp_path / "spools"
    spools.mkdir()
    old, fresh, other = spools / "jaato-run-old", spools / "jaato-run-fresh", spools / "other"
    for path in (old, fresh, other):
        path.write_text("x")
    for path in (old, other):
        os.utime(path, (time.time() - 2 * DAY_S,) * 2)
    monkeypatch.setattr(tempfile, "tempdir", str(spools))
    shell = Shell(tmp_path)
    shell.run("true")
    shell.plugin.shutdown()
    assert sorted(path.name for path in spools.iterdir()) == ["jaato-run-fresh", "other"]


def test_nowhere_to_write_temporary_files(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no temporary file can be made commands run all the same, and a large output is cut."""

    def full() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    assert shell.run("echo fine")["output"] == "fine\n"


def test_programs_that_show_edit_or_ask_are_not_started(tmp_path: Path) -> None:
    """Whatever the user's own pager, editor and password dialog are, whoever asks for them, none is left."""
    environ = {
        "PATH": settings.environment()["PATH"],
        **dict.fromkeys(("KUBE_EDITOR", "HGEDITOR", "PSQL_PAGER", "BAT_PAGER", "EDITOR"), "sleep 600"),
        **dict.fromkeys(("SSH_ASKPASS", "X_ASKPASS"), "sleep 600"),
    }
    shell = Shell(tmp_path, environ=environ)
    assert "sleep 600" not in shell.run("env")["output"]
    shell.plugin.shutdown()


@pytest.mark.parametrize(
    "config", [{"env": {"A": [1]}}, {"hide_env": "TOKEN"}, {"env": "A=1"}, {"bound_bytes": "much"}]
)
def test_a_configuration_that_cannot_be(tmp_path: Path, config: dict[str, object]) -> None:
    """What the configuration of the plugin has wrong is said when it is read."""
    with pytest.raises(ConfigError, match="plugin cli"):
        Shell(tmp_path, config)


def test_a_number_in_the_environment(tmp_path: Path) -> None:
    """A number as the value of a variable is its text."""
    shell = Shell(tmp_path, {"env": {"PORT": 8080}})
    assert shell.run("echo $PORT")["output"] == "8080\n"
    shell.plugin.shutdown()


def test_half_a_surrogate_pair_is_refused(shell: Shell) -> None:
    """A command with what is no character is refused by name; bytes of a file name that are no text pass."""
    with pytest.raises(InvalidArguments, match="surrogate"):
        shell.run("echo \ud800")
    assert shell.run("printf '%s' \udcff | od -An -tx1")["output"].split() == ["ff"]


def test_an_environment_that_is_too_long(tmp_path: Path) -> None:
    """An environment over the system's limit is named as the cause that it may be."""
    shell = Shell(tmp_path, environ={"PATH": os.defpath, "HUGE": "x" * 3_000_000})
    with pytest.raises(ToolError, match="or its environment, is too long"):
        shell.run("true")
    shell.plugin.shutdown()


def test_a_workspace_that_is_a_file(tmp_path: Path) -> None:
    """A workspace that cannot be entered is named."""
    (tmp_path / "file").write_text("x")
    shell = Shell(tmp_path / "file")
    with pytest.raises(ToolError, match="is not there"):
        shell.run("true")
    shell.plugin.shutdown()


def test_a_descriptor_of_ours_that_may_be_inherited(tmp_path: Path) -> None:
    """The warden keeps no pipe open that the program around jaato made inheritable."""
    readable, written = os.pipe()
    os.set_inheritable(written, True)
    shell = Shell(tmp_path)
    shell.run("true")
    os.close(written)
    os.set_blocking(readable, False)
    assert os.read(readable, 1) == b""
    os.close(readable)
    shell.plugin.shutdown()


def test_fifty_commands_at_once(shell: Shell) -> None:
    """Fifty commands that wait for each other all run and all end."""

    async def main() -> set[str]:
        found = set()

        async def one(number: int) -> None:
            wait = "while [ $(ls | wc -l) -lt 50 ]; do sleep 0.05; done"
            done = await shell.plugin.run(f"touch {number}; {wait}; echo {number}", call=shell.call())
            found.add(done["output"].strip())

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number)
        return found

    assert anyio.run(main) == {str(number) for number in range(50)}


def test_processes_that_grow_slowly_are_counted_too(tmp_path: Path) -> None:
    """More processes than are allowed end the command, however slowly they became so many."""
    shell = Shell(tmp_path, {"max_processes": 40})
    done = shell.run("for i in {1..60}; do sleep 600 & sleep 0.02; done; wait", timeout_s=60)
    assert "timed_out" not in done
    assert "more than 40 processes" in done["note"]
    shell.plugin.shutdown()


def test_a_relative_workspace_is_under_the_directory_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace without a root is looked for where the process is now; when that is gone the error says so."""
    shell = Shell(Path())
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert shell.run("pwd -P")["output"].strip() == str((tmp_path / name).resolve())
    (tmp_path / "two").rmdir()
    with pytest.raises(ToolError, match="is gone"):
        shell.run("true")
    shell.plugin.shutdown()
