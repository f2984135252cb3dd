"""The program removes its environment from view: in place or by one re-execution, and nothing that it was given is lost."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PROBE = """
import json, os, signal, sys
from jaato.cli.clean_environment import protect
before = os.getpid()
protect()
with open("/proc/self/environ", "rb") as file:
    seen = file.read()
with open("/proc/self/stat", "rb") as file:
    started = file.read()
found = {
    "environ": {k.decode("latin-1"): v.decode("latin-1") for k, v in os.environb.items()},
    "seen": sorted(entry.partition(b"=")[0].decode("latin-1") for entry in seen.split(b"\\0") if entry),
    "pid": os.getpid(), "group": os.getpgrp(), "session": os.getsid(0),
    "argv": [os.fsencode(one).decode("latin-1") for one in sys.argv],
    "options": sys.warnoptions, "optimize": sys.flags.optimize, "xoptions": sorted(sys._xoptions),
    "path": sys.path[0], "tty": [os.isatty(n) for n in (0, 1, 2) if os.path.exists(f"/proc/self/fd/{n}")],
    "hangup": signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,
    "fds": sorted(int(n) for n in os.listdir("/proc/self/fd")),
    "links": {n: os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{n}")},
}
with open(os.environ["PROBE_TO"], "w") as file:
    json.dump(found, file)
"""


class Probe:
    """A script that starts as the program does, and writes down how it finds itself."""

    def __init__(self, root: Path) -> None:
        self.script = root / "bin" / "jaato"
        self.script.parent.mkdir()
        self.script.write_text(PROBE)
        self.to = root / "found.json"
        self.root = root
        self.hides_in_place = True
        self.env = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{root}:{SOURCE}",
            "PROBE_TO": str(self.to),
            "KEY": "secret",
        }

    def command(self, *flags: str) -> list[str]:
        """How it is started."""
        return [sys.executable, *flags, str(self.script)]

    def run(
        self, command: list[str] | list[bytes], env: Mapping[Any, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """What it has found."""
        made = {"stdin": subprocess.DEVNULL, "cwd": self.root, **options}
        subprocess.run(command, env={**self.env, **(env or {})}, check=True, timeout=60, **made)
        found: dict[str, Any] = json.loads(self.to.read_text())
        return found


NOT_WRITABLE = """
import builtins
def opened(name, *rest, _open=open, **options):
    if name == "/proc/self/mem":
        raise PermissionError(name)
    return _open(name, *rest, **options)
builtins.open = opened
"""
"""What makes the memory of a process a file that it may not write, as some systems do."""


@pytest.fixture(params=["in place", "re-executed"])
def probe(tmp_path: Path, request: pytest.FixtureRequest) -> Probe:
    """One in a directory of its own."""
    made = Probe(tmp_path)
    made.hides_in_place = request.param == "in place"
    if not made.hides_in_place:
        (tmp_path / "sitecustomize.py").write_text(NOT_WRITABLE)
    return made


def test_the_whole_environment_is_there_and_not_to_be_seen(probe: Probe) -> None:
    """Every variable is in the program's environment; where others look are those only that an interpreter starts with."""
    found = probe.run(probe.command())
    assert found["environ"].items() >= probe.env.items()
    assert set(found["seen"]) <= {"PATH", "PYTHONPATH", "LC_CTYPE", "JAATO_ENVIRON_FD"}
    assert ("JAATO_ENVIRON_FD" in found["seen"]) is not probe.hides_in_place
    assert {"PATH", "PYTHONPATH"} <= set(found["seen"])
    assert "JAATO_ENVIRON_FD" not in found["environ"]


@pytest.mark.parametrize(
    "name",
    [
        "PYTHON_REGISTRY_TOKEN",
        "LD_ACCESS_TOKEN",
        "XDG_SECRET",
        "MALLOC_KEY",
        "LANGSMITH_API_KEY",
        "TERMINAL_KEY",
    ],
)
def test_a_secret_is_not_kept_for_how_its_name_begins(probe: Probe, name: str) -> None:
    """Only names that the loader and the interpreter know stay in view, not what is called like them."""
    found = probe.run(probe.command(), {name: "secret"})
    assert name not in found["seen"]
    assert found["environ"][name] == "secret"


def test_values_may_be_large_many_and_no_text(probe: Probe) -> None:
    """Bytes that are no UTF-8, line ends, an empty value, an equals sign, and half a megabyte come through whole."""
    odd = {b"ODD": b"\xff\xfe\n=x", b"EMPTY": b"", b"\xe9": b"name", b"BIG": b"y" * 120_000}
    many = {b"MANY_%d" % n: b"z" * 1_000 for n in range(400)}
    found = probe.run(
        probe.command(), {os.fsencode(k): os.fsencode(v) for k, v in probe.env.items()} | odd | many
    )
    for name, value in (odd | many).items():
        assert found["environ"][name.decode("latin-1")] == value.decode("latin-1")


@pytest.mark.parametrize("given", ["", "x", "-1", "0", "1", "99", "99999999999999999999", "3"])
def test_a_variable_that_names_no_memory_file_starts_nothing(probe: Probe, given: str) -> None:
    """A descriptor that is none of ours is neither read nor closed, and nothing is executed again and again."""
    with open(probe.root / "other", "w+") as other:
        os.set_inheritable(other.fileno(), True)
        found = probe.run(probe.command(), {"JAATO_ENVIRON_FD": given}, pass_fds=(other.fileno(),))
        assert str(probe.root / "other") in found["links"].values()
    assert found["environ"]["KEY"] == "secret"
    assert "JAATO_ENVIRON_FD" not in found["environ"]


def test_the_interpreter_is_started_with_the_same_flags_and_arguments(probe: Probe) -> None:
    """Flags, warnings, `-X` options, and arguments that are no text."""
    command = [*probe.command("-O", "-W", "ignore::UserWarning", "-X", "utf8", "-X", "mine=1")]
    found = probe.run([*(os.fsencode(one) for one in command), b"\xff\xfe", b"", b"-c", b"a b"])
    assert found["argv"][1:] == ["\xff\xfe", "", "-c", "a b"]
    assert found["options"] == ["ignore::UserWarning"]
    assert found["optimize"] == 1
    assert found["xoptions"] == ["mine", "utf8"]
    assert found["path"] == str(probe.script.parent)


def test_it_stays_the_same_process(probe: Probe) -> None:
    """Its number, which whoever started it knows, its process group and its session stay; so do descriptors passed on."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        probe.command(), env=probe.env, pass_fds=(writing,), start_new_session=True, stdin=subprocess.DEVNULL
    ) as process:
        assert process.wait(timeout=60) == 0
    os.close(writing)
    os.close(reading)
    found = json.loads(probe.to.read_text())
    assert found["pid"] == found["group"] == found["session"] == process.pid
    assert writing in found["fds"]
    assert not any("memfd" in link for link in found["links"].values())


@pytest.mark.parametrize("closed", [(0,), (0, 1, 2)])
def test_closed_standard_streams_stay_closed(probe: Probe, closed: tuple[int, ...]) -> None:
    """The memory file takes the place of none of them."""
    closing = " ".join(f"{number}>&-" for number in closed)
    found = probe.run(["sh", "-c", f'exec "$@" {closing}', "sh", *probe.command()])
    assert found["environ"]["KEY"] == "secret"
    assert not any("memfd" in link for link in found["links"].values())


def test_a_hangup_that_is_ignored_stays_ignored(probe: Probe) -> None:
    """As `nohup` starts it."""
    assert probe.run(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *probe.command()])["hangup"]


def test_a_terminal_stays_its_terminal(probe: Probe) -> None:
    """On a pseudo-terminal, all three streams."""
    ours, theirs = pty.openpty()
    try:
        found = probe.run(probe.command(), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    finally:
        os.close(ours)
        os.close(theirs)
    assert found["tty"] == [True, True, True]


def test_without_memory_files_the_program_goes_on(tmp_path: Path) -> None:
    """Where the system has none, or refuses them, it starts as it is, with all it was given."""
    probe = Probe(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(f"{NOT_WRITABLE}\nimport os\ndel os.memfd_create\n")
    found = probe.run(probe.command())
    assert found["environ"]["KEY"] == "secret"
    assert "KEY" in found["seen"]


def test_programs_it_starts_have_the_whole_environment(tmp_path: Path) -> None:
    """What was overwritten where others look is passed on, also to a program that is given no environment of its own."""
    probe = Probe(tmp_path)
    code = "import os; print(os.environ['KEY'], os.environ['ODD'])"
    probe.script.write_text(
        "import os, sys\nfrom jaato.cli.clean_environment import protect\nprotect()\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {code!r}])\n"
    )
    done = subprocess.run(
        probe.command(), env={**probe.env, "ODD": "a=b\nc"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "secret a=b\nc\n"


def test_the_order_of_the_variables_is_kept(probe: Probe) -> None:
    """Programs that it starts list them as before, in each of its runs."""
    given = {f"V{number}": str(number) for number in (5, 3, 8, 1, 7, 2, 6, 4)}
    found = probe.run(probe.command(), given)
    assert [name for name in found["environ"] if name in given] == list(given)


def test_a_variable_without_a_name_is_hidden_and_no_error(probe: Probe) -> None:
    """A program can be given one, although no program can set it."""
    found = probe.run(probe.command(), {"": "secret"})
    assert found["environ"]["KEY"] == "secret"
    assert "" not in found["seen"]


@pytest.mark.parametrize("number", ["", "0", "77", "x", "9" * 30])
def test_a_descriptor_of_someone_else_does_not_keep_it_from_hiding(tmp_path: Path, number: str) -> None:
    """The variable that names the memory file may be set by anyone; without that file nothing stays visible."""
    probe = Probe(tmp_path)
    found = probe.run(probe.command(), {"JAATO_ENVIRON_FD": number})
    assert found["environ"]["KEY"] == "secret"
    assert not {"KEY", "JAATO_ENVIRON_FD"} & set(found["seen"])


def test_the_values_are_nowhere_in_the_shown_memory(tmp_path: Path) -> None:
    """No byte of a hidden variable is left, however often it is there, and what stays is shown as it was."""
    probe = Probe(tmp_path)
    probe.script.write_text(
        "from jaato.cli.clean_environment import protect\nprotect()\n"
        "print(open('/proc/self/environ', 'rb').read().hex())\n"
    )
    done = subprocess.run(probe.command(), env=probe.env, capture_output=True, text=True, check=True)
    seen = bytes.fromhex(done.stdout)
    assert b"KEY" not in seen
    assert b"secret" not in seen
    assert [entry for entry in seen.split(b"\0") if entry] == [
        os.fsencode(f"{name}={probe.env[name]}") for name in ("PATH", "PYTHONPATH")
    ]


def test_a_program_that_calls_it_is_left_as_it_is(tmp_path: Path) -> None:
    """Neither importing the package nor calling its command line executes anything, or makes the process undumpable."""
    code = """
import ctypes, os, sys
mark = object()
import jaato
from jaato import Agent
from jaato.cli import main
from jaato.cli.clean_environment import protect
sys.argv = ["jaato", "config"]
assert main(["config"]) == 0
assert main() == 0
protect()
assert b"KEY=secret" in open("/proc/self/environ", "rb").read()
assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 1
print("left as it was")
"""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCE), "KEY": "secret", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("left as it was\n"), done.stderr


@pytest.mark.parametrize("module", ["jaato", "jaato.cli", "server"])
def test_every_way_to_start_it_is_the_program(tmp_path: Path, module: str) -> None:
    """`python -m` of each name: what it is started with is not to be seen while it runs."""
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{SOURCE}:{SOURCE.parent / 'compat' / 'src'}",
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": "secret",
    }
    serve = [] if module == "server" else ["serve"]
    command = [sys.executable, "-m", module, *serve, "--ipc-socket", str(tmp_path / "s")]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stderr is not None
        try:
            assert b"serving at" in process.stderr.readline()
            assert b"secret" not in Path(f"/proc/{process.pid}/environ").read_bytes()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def test_sockets_that_were_passed_on_are_served(tmp_path: Path) -> None:
    """As systemd starts it: LISTEN_PID names this process still, and its descriptors are where they were."""
    code = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.executable, [sys.executable, "-m", "jaato", "serve"])
"""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCE), "HOME": str(tmp_path)}
    path = tmp_path / "passed"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], env=env, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            assert f"serving at {path}".encode() in process.stderr.readline()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
