"""What happens to a command when jaato, its warden or both are killed, and what output costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes import alive
from tests.shell.running import SOURCES, Shell

from jaato import settings
from jaato.tools.processes.warden import cgroup

HERE = Path(__file__).parent


def start(command: str, workspace: Path, *more: str, **environ: str) -> subprocess.Popen[str]:
    """A process of its own that runs the command through the tool."""
    paths = os.pathsep.join([SOURCES, str(HERE.parent.parent)])
    return subprocess.Popen(
        [sys.executable, str(HERE / "long_call.py"), command, str(workspace), *more],
        env={"PATH": settings.environment()["PATH"], "PYTHONPATH": paths, **environ},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def carrying(mark: str) -> list[int]:
    """The living processes that have this in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or entry.name == str(os.getpid()):
                continue
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if mark.encode() in text and b") Z" not in (entry / "stat").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def gone(mark: str) -> bool:
    """Whether they all go, given a moment."""
    for _ in range(6000):
        if not carrying(mark):
            return True
        time.sleep(0.01)
    return False


def appears(path: Path) -> None:
    """Wait for a file that a command makes."""
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} was not made")


@pytest.mark.parametrize("victims", ["jaato", "jaato and warden", "jaato's group", "jaato and supervisor"])
def test_kill_9_of_jaato_leaves_no_process(tmp_path: Path, victims: str) -> None:
    """When jaato is killed its commands are too, whoever of those watching dies with it."""
    mark = f"3600.{os.getpid()}{time.monotonic_ns() % 10**8:08d}"
    hidden = f"setsid sleep {mark} & (setsid env -i /bin/sleep {mark} >/dev/null 2>&1 &)"
    hiding = f"{hidden}; echo $PPID > new; mv new up; sleep {mark}"
    running = start(hiding, tmp_path)
    try:
        appears(tmp_path / "up")
        assert running.stdout is not None
        warden = int(running.stdout.readline())
        supervisor = int((tmp_path / "up").read_text())
        assert len(carrying(mark)) >= 2
        match victims:
            case "jaato and warden":
                os.kill(warden, signal.SIGKILL)
            case "jaato and supervisor":
                os.kill(supervisor, signal.SIGKILL)
        if victims == "jaato's group":
            os.killpg(running.pid, signal.SIGKILL)
        else:
            running.kill()
        assert running.wait() == -signal.SIGKILL
        assert gone(mark), [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in carrying(mark)]
        for pid in (warden, supervisor):
            assert gone_pid(pid)
    finally:
        running.kill()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()


def test_what_killed_all_that_watched_it_is_ended_by_the_next_warden(tmp_path: Path) -> None:
    """With control groups a command that kills jaato, warden and supervisor at once is not left for good."""
    if not cgroup.prefix(os.getpid()):
        pytest.skip("no control group can be made here, and without one this is not guaranteed")
    mark = f"3600.{os.getpid()}{time.monotonic_ns() % 10**8:08d}"
    killer = "W=$(ps -o ppid= -p $PPID); J=$(ps -o ppid= -p $W)"
    running = start(
        f"{killer}; (setsid env -i /bin/sleep {mark} &) ; kill -9 $J $W $PPID; sleep {mark}", tmp_path
    )
    assert running.wait() == -signal.SIGKILL
    if running.stdout is not None:
        running.stdout.close()
    shell = Shell(tmp_path)
    shell.run("true")
    shell.plugin.shutdown()
    assert gone(mark)


def gone_pid(pid: int) -> bool:
    """Whether a process ends, given a moment."""
    for _ in range(6000):
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
def test_a_flood_of_output_costs_no_memory(tmp_path: Path) -> None:
    """A hundred megabytes leave jaato's memory flat, its loop free and little to show."""
    spools = tmp_path / "spools"
    spools.mkdir()
    running = start("yes 0123456789abcdef | head -c 100M", tmp_path, "memory", TMPDIR=str(spools))
    assert running.stdout is not None
    with running.stdout as report:
        lines = report.read().splitlines()
    assert running.wait() == 0
    size, grown_kb, supervisor_kb, shown, _ = lines[1].split()
    assert int(size) == 100 << 20
    assert int(grown_kb) < 4_000
    assert int(supervisor_kb) < 40_000
    assert int(shown) < 3_000_000
    assert not list(spools.iterdir())


def test_a_pipe_that_somebody_else_holds_delays_nothing(tmp_path: Path) -> None:
    """The call returns when its command has ended, although a stranger still holds its output."""
    import socket

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    shell = Shell(tmp_path)
    send = "import socket as k; s=k.socket(k.AF_UNIX); s.connect('s'); k.send_fds(s, [b'x'], [1]); print(1)"
    done = shell.run("python3", ["-c", send], timeout_s=60)
    assert (done["exit_code"], done["output"]) == (0, "1\n")
    connection, _ = listener.accept()
    _, fds, _, _ = socket.recv_fds(connection, 10, 1)
    for fd in fds:
        os.close(fd)
    connection.close()
    listener.close()
    shell.plugin.shutdown()
