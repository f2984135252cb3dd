"""What a confined command cannot do to terminals, processes and resources, and what it can do as ever."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.sandbox.running import WORKING, Runner, runner
from tests.sandbox.users import OTHER, ROOT_USER, ground

from jaato.tools.processes.command import CommandLimits

pytestmark = pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")

PYTHON = next(
    (one for one in ("/usr/bin/python3", sys.executable) if os.access(one, os.X_OK)), sys.executable
)
SURVIVES = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork(): sys.exit()
os.setsid()
if os.fork(): os._exit(0)
print(os.getpid(), flush=True)
time.sleep(60)
"""
PUSHES = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')"
PUSHES_WIDE = "import ctypes; print(ctypes.CDLL(None).ioctl(0, ctypes.c_ulong(0x5412 | 1 << 40), b'x'))"
TRACES = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
_, status = os.waitpid(child, os.WUNTRACED)
print(os.WIFSTOPPED(status), open(f"/proc/{child}/mem", "rb").readable())
os.kill(child, signal.SIGKILL)
"""
WORKS = """
import multiprocessing, os, socket, tempfile, threading
os.chdir(tempfile.gettempdir())
with open("file", "w") as file: file.write("x")
os.chmod("file", 0o700); os.utime("file", (1, 1)); os.rename("file", "other")
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
one, two = socket.socketpair(); one.send(b"x"); two.recv(1)
named = socket.socket(socket.AF_UNIX); named.bind("socket"); named.listen(); socket.socket(socket.AF_UNIX).connect("socket")
threading.Thread(target=int).start(); multiprocessing.Lock(); os.openpty(); os.getrandom(1)
assert socket.if_nameindex() and open("/dev/null", "w").write("x")
print("all of it works")
"""


@pytest.fixture(
    params=[f"{backend} {profile}" for backend in WORKING for profile in ("read-only", "workspace-write")]
)
def held(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """A runner in every back end and profile, in a workspace that is no temporary directory."""
    backend, profile = request.param.split(" ")
    with ground("this user") as place, runner(place, backend, profile) as one:
        yield one


ONE_PROFILE = pytest.mark.parametrize(
    "held",
    [
        pytest.param(f"{backend} {profile}", marks=marks)
        for backend in WORKING
        for profile, marks in (("read-only", [pytest.mark.system]), ("workspace-write", []))
    ],
    indirect=True,
)
"""For limits that the warden sets, whatever the profile, and that take their time: the other when everything is played."""


@pytest.fixture
def free() -> Iterator[Runner]:
    """A runner without a sandbox."""
    with ground("this user") as place, runner(place, "none", "full") as one:
        yield one


def alive(token: str) -> list[int]:
    """The processes with a word on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and token.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_nothing_survives(held: Runner) -> None:
    """What leaves its session, loses its parents and ignores signals is gone when the command's result is there."""
    token = f"jaato-survivor-{os.getpid()}-{time.monotonic_ns()}"
    with subprocess.Popen([PYTHON, "-c", SURVIVES, token], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        outside = int(first.stdout.readline())
        assert first.wait() == 0
        assert outside in alive(token), "it does not survive where nobody looks after it"
        os.kill(outside, signal.SIGKILL)
    ended = held.run([PYTHON, "-c", SURVIVES, token])
    assert ended.code == 0
    assert not [pid for pid in alive(token) if pid != outside]
    assert ended.left, "it was there when the command ended"
    assert not any("bwrap" in line or "warden" in line for line in ended.left)


@pytest.mark.skipif(
    not ROOT_USER, reason="a user of its own is needed, for the signal goes to all of a user's processes"
)
def test_a_signal_to_everybody_reaches_nobody_outside(held: Runner) -> None:
    """kill(-1) ends the processes of the sandbox; outside it ends all that its user may signal."""
    nobody = 61_000 + os.getpid() % 3_000
    line = ["setpriv", f"--reuid={nobody}", "--clear-groups"]
    victim = subprocess.Popen([*line, "sleep", "60"])
    try:
        while Path(f"/proc/{victim.pid}/comm").read_text() != "sleep\n":
            time.sleep(0.005)
        ours = os.readlink("/proc/self/ns/pid")
        held.run(f'[ "$(readlink /proc/self/ns/pid)" != "{ours}" ] && echo sends && kill -TERM -1')
        assert "sends" in held.output
        assert victim.poll() is None
        subprocess.run([*line, "sh", "-c", "kill -TERM -1"], check=False)
        assert victim.wait(60) == -signal.SIGTERM
    finally:
        victim.kill()
        victim.wait()


def waiting(terminal: int) -> int:
    """How many bytes can be read from a terminal."""
    return int.from_bytes(fcntl.ioctl(terminal, termios.FIONREAD, bytes(4)), sys.byteorder)


def pushed(one: Runner, program: str) -> int:
    """What a program that has a terminal has put into its input."""
    leader, follower = os.openpty()
    attributes = termios.tcgetattr(follower)
    attributes[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(follower, termios.TCSANOW, attributes)
    try:
        one.run([PYTHON, "-c", program], streams=[follower])
        return waiting(follower)
    finally:
        os.close(leader)
        os.close(follower)


def test_nothing_is_typed_at_a_terminal(held: Runner, free: Runner) -> None:
    """Text that a command pushes into its terminal's input is refused, in the high half of the argument too."""
    if pushed(free, PUSHES) == 0:
        pytest.skip("this kernel pushes nothing into terminals")
    assert pushed(held, PUSHES) == 0
    assert pushed(held, PUSHES_WIDE) == 0


@ONE_PROFILE
def test_a_fork_bomb_is_bounded(held: Runner) -> None:
    """A command that starts ever more processes is stopped, and none is left."""
    token = f"7{os.getpid() % 10_000:05}"
    ended = held.run(f"while :; do sleep {token} & done", limits=CommandLimits(max_processes=60))
    assert ended.reason == "processes"
    assert not alive(token)


def test_a_file_is_bounded(held: Runner, free: Runner) -> None:
    """A file does not grow beyond its limit, with a sandbox or without."""
    for one in (held, free):
        one.run(
            "head -c 3000000 /dev/zero >/tmp/big.$$; stat -c %s /tmp/big.$$; rm /tmp/big.$$",
            limits=CommandLimits(max_file_bytes=1_000_000),
        )
        assert one.output.splitlines()[-1] == "1000000"


@ONE_PROFILE
def test_processor_time_is_bounded(held: Runner) -> None:
    """A process that computes for longer than it may is ended; no limit is set where none is asked for."""
    ended = held.run("while :; do :; done", limits=CommandLimits(cpu_s=1))
    assert ended.code in (128 + signal.SIGXCPU, 128 + signal.SIGKILL)
    held.run("ulimit -t; ulimit -c; ulimit -f")
    time_s, core, blocks = held.output.split()
    assert (time_s, core) == ("unlimited", "0")
    assert int(blocks) in ((64 << 30) // 512, (64 << 30) // 1024)


def test_debuggers_work(held: Runner) -> None:
    """A process is traced, and its memory opened, by its parent in the sandbox."""
    held.run([PYTHON, "-c", TRACES])
    assert held.output.strip() == "True True"


def test_ordinary_programs_work(held: Runner) -> None:
    """Temporary files and their modes, loopback, sockets with a path, threads, locks and terminals work."""
    held.run([PYTHON, "-c", WORKS])
    assert held.output.strip() == "all of it works"


def test_an_exit_code_and_a_signal_are_told(held: Runner) -> None:
    """A command's exit code comes back as it is, and a signal as 128 and its number."""
    assert (held.run("exit 41")).code == 41
    assert (held.run("kill -KILL $$")).code == 137


def test_a_command_has_no_descriptor_but_its_own(held: Runner) -> None:
    """Neither the filter nor the status of the sandbox can be reached by the command."""
    held.run("ls /proc/self/fd")
    assert set(held.output.split()) == {"0", "1", "2", "3"}


def test_sockets_of_others_stop_no_command(held: Runner) -> None:
    """Sockets outside that come, go, or lie where nobody else may look neither stop a command nor can be connected to."""
    with ground("another user" if ROOT_USER else "this user") as place, contextlib.ExitStack() as stack:
        closed = place / "closed"
        closed.mkdir(0o700)
        listening = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for one, path in zip(listening, (closed / "agent", place / "passing"), strict=True):
            one.bind(str(path))
            one.listen()
        if ROOT_USER:
            os.chown(closed, OTHER, OTHER)
        prepared = anyio.run(held.confinement)
        (place / "passing").unlink()
        ended = held.run("echo it runs", confinement=prepared)
        assert (ended.code, held.output) == (0, "it runs\n")
        assert held.run("echo it runs").code == 0


def test_a_program_that_is_not_there_is_told(held: Runner) -> None:
    """A program that cannot be found fails to start, as without a sandbox."""
    ended = held.run(["/usr/bin/there-is-no-such-program"])
    assert (ended.reason, ended.stuck) == ("failure", ["run", "No such file or directory"])
