"""Another process of the same user reads nothing of this program: neither its environment nor its memory."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
SOURCE = Path(__file__).parents[2] / "src"
SPY = Path(__file__).with_name("spy.py")
PACKAGES = next(path for path in sys.path if path.endswith("site-packages"))
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def drop() -> tuple[str, ...]:
    """What a command is put behind to run as a user without rights."""
    return AS_NOBODY if os.geteuid() == 0 else ()


def interpreter() -> str:
    """An interpreter like this one that such a user can start."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for path in (sys.executable, shutil.which(f"python{version}", path="/usr/bin:/usr/local/bin")):
        probe = [
            *drop(),
            str(path),
            "-c",
            "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])",
        ]
        if path is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip("a user without rights can start no interpreter of this version here")


class Machine:
    """The home of a user without rights, whose key is a canary."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.python = interpreter()
        self.canary = secrets.token_hex(16)
        self.env = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(home / "run"),
            "PYTHONPATH": f"{SOURCE}:{PACKAGES}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENAI_API_KEY": self.canary,
        }

    def start(self, *args: str, **options: int) -> subprocess.Popen[bytes]:
        """A program of this user."""
        return subprocess.Popen([*drop(), self.python, *args], env=self.env, cwd=self.home, **options)  # type: ignore[call-overload, no-any-return]

    def found(self, pid: int) -> list[str]:
        """By which ways another program of this user finds the canary in a process."""
        command = [*drop(), self.python, str(SPY), self.canary.encode().hex(), str(pid)]
        done = subprocess.run(
            command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
        )
        return done.stdout.split()[:-1]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """One such user's."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        (home / "run").mkdir(mode=0o700)
        for path in (home, home / "run"):
            os.chown(path, NOBODY if drop() else os.geteuid(), -1)
        yield Machine(home)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End it in the end."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def spied_on(machine: Machine, process: subprocess.Popen[bytes], ready: bytes) -> list[str]:
    """What is found once the program has said this on stderr."""
    assert process.stderr is not None
    said = b""
    while ready not in said:
        more = os.read(process.stderr.fileno(), 4096)
        assert more, said
        said += more
    return machine.found(process.pid)


def test_the_spy_finds_what_is_to_be_found(machine: Machine) -> None:
    """Against a program that does nothing about it, environment, memory and tracing give the key away."""
    code = "import os, sys, time; sys.stderr.write('ready'); sys.stderr.flush(); time.sleep(60)"
    with ended(machine.start("-c", code, stderr=subprocess.PIPE)) as process:
        assert {"environ", "memory", "vectors", "traced"} <= set(spied_on(machine, process, b"ready"))


def test_nothing_of_a_server_is_read_by_others_of_its_user(machine: Machine) -> None:
    """The daemon, in the foreground."""
    with ended(machine.start("-m", "jaato", "serve", stderr=subprocess.PIPE)) as process:
        assert spied_on(machine, process, b"serving at") == []
        assert machine.canary.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()


def test_nothing_of_a_chat_is_read_by_others_of_its_user(machine: Machine) -> None:
    """A chat that waits for its user."""
    (machine.home / "script.json").write_text('[{"text": "hello"}]')
    args = ("-m", "jaato", "chat", "--no-daemon", "--provider", "scripted", "--model", "script.json", "hi")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with ended(machine.start(*args, **pipes)) as process:
        assert spied_on(machine, process, b"session ") == []


def test_nothing_of_a_server_begun_in_the_background_is_read(machine: Machine) -> None:
    """The daemon that `--daemon` starts never has the key in its environment, and is closed as the others are."""
    begun = machine.start("-m", "jaato", "serve", "--daemon", stderr=subprocess.PIPE)
    said = begun.communicate(timeout=60)[1].decode()
    assert begun.returncode == 0, said
    pid = int(said.partition("(process ")[2].partition(";")[0])
    try:
        assert machine.found(pid) == []
        assert machine.canary.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    finally:
        assert machine.start("-m", "jaato", "serve", "--stop").wait() == 0


def test_commands_of_a_session_read_nothing_of_it(machine: Machine) -> None:
    """A command that is allowed looks at every process of its user, the one that runs it among them."""
    spy = shutil.copy(SPY, machine.home)  # a checkout in /tmp is not in the sandbox
    (machine.home / "look.sh").write_text(f"{machine.python} {spy} {machine.canary.encode().hex()}\n")
    text = '[{"calls": [{"name": "run", "arguments": {"command": "sh look.sh"}}]}, {"text": "done"}]'
    (machine.home / "script.json").write_text(text)
    args = (
        "run",
        "--no-daemon",
        "--provider",
        "scripted",
        "--model",
        "script.json",
        "--allow",
        "run(sh look.sh)",
    )
    process = machine.start("-m", "jaato", *args, "--output", "events", "go", stdout=subprocess.PIPE)
    out = process.communicate(timeout=100)[0].decode()
    assert process.returncode == 0, out
    assert '"text":"looked\\n"' in out


def test_no_core_is_dumped(machine: Machine) -> None:
    """A crash leaves no core file, also where the limit on them is open."""
    limit = "ulimit -c unlimited; exec"
    shell = [*drop(), "sh", "-c", f'{limit} "$@"', "sh", machine.python, "-m", "jaato", "serve"]
    with ended(subprocess.Popen(shell, env=machine.env, cwd=machine.home, stderr=subprocess.PIPE)) as process:
        spied_on(machine, process, b"serving at")
        process.send_signal(11)
        status = os.waitpid(process.pid, 0)[1]
        process.returncode = -11
    assert os.WTERMSIG(status) == 11
    assert not os.WCOREDUMP(status)
    assert not [path for path in machine.home.iterdir() if path.name.startswith("core")]
