"""A world outside of the sandbox that can be harmed: files, processes, listeners, secrets; and what was harmed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.sandbox.attacks.table import Attack, call, libc
from tests.sandbox.victims import BUFFER, CANARY, ended, quiet, started, state_of

WAIT = (
    "import ctypes, os, sys, time\n"
    "b = ctypes.create_string_buffer(os.environ['SECRET'].encode(), 64)\n"
    "fd = os.open(sys.argv[1], os.O_RDWR); os.chdir(sys.argv[2])\n"
    "print(ctypes.addressof(b), fd, flush=True)\n"
    "time.sleep(600)\n"
)


class Outside:
    """The world of one run. `close` puts away all of it; `harmed` says which attacks did harm."""

    def __init__(self, base: Path, attacks: Iterable[Attack]) -> None:
        self.attacks = list(attacks)
        self.base = base
        self.secret = secrets.token_hex(12)
        self.stack = contextlib.ExitStack()
        self.told: dict[str, Any] = {}
        self.workspace = base / "work" / "project"
        self._make_files()
        self._make_witness()
        self._make_victims()
        self._make_listeners()
        self._make_memory()
        self._make_keys()
        self._make_terminal()
        self.described = base / "world.json"
        self.described.write_text(json.dumps(self.told))
        self.before = {one.name: self._state(one) for one in self.attacks}

    def close(self) -> None:
        """Put it away."""
        self.stack.close()

    def harmed(self, said: dict[str, str]) -> dict[str, str]:
        """The attacks that did harm, with what of it was seen. `said` is what they returned."""
        heard = self._heard()
        found = {}
        for one in self.attacks:
            answer = said.get(one.name, "")
            after = self._state(one)
            if answer == "True":
                found[one.name] = "it says so"
            elif self.secret in answer:
                found[one.name] = "it has the secret"
            elif after != self.before[one.name]:
                found[one.name] = f"{self.before[one.name]} became {after}"
            elif any(one.name.encode() in data for data in heard):
                found[one.name] = "it was heard outside"
        return found

    def _make_files(self) -> None:
        home, outside, state = self.base / "home", self.base / "outside", self.base / "state"
        for path in (home / ".ssh", outside, state, self.workspace / "attacks"):
            path.mkdir(parents=True)
        (home / ".ssh" / "id_ed25519").write_text(self.secret)
        (home / ".netrc").write_text(self.secret)
        (state / "keys.json").write_text(self.secret)
        (outside / "secret").write_text(self.secret)
        subprocess.run(["git", "init", "-q", str(self.workspace)], check=True)
        (self.workspace / ".jaato").mkdir()
        (self.workspace / ".jaato" / "permissions.json").write_text("{}")
        for one in self.attacks:
            (outside / one.name).mkdir()
            (outside / one.name / "canary").write_text(CANARY)
            (self.workspace / "attacks" / one.name).mkdir()
        if any(one.name == "existing_hard_link" for one in self.attacks):
            os.link(
                outside / "existing_hard_link" / "canary",
                self.workspace / "attacks/existing_hard_link/existing",
            )
        in_tmp = tempfile.NamedTemporaryFile("w", dir="/tmp", prefix="jaato-outside-")  # noqa: SIM115 the sandbox's own /tmp must not be this
        in_tmp.write(self.secret)
        in_tmp.flush()
        self.stack.callback(in_tmp.close)
        self.told |= {"home": str(home), "outside": str(outside), "state": str(state), "in_tmp": in_tmp.name}
        self.told |= {"workspace": str(self.workspace), "privileged": str(self.base.parent / "privileged")}
        disk = next((path for path in ("/dev/loop0", "/dev/vda", "/dev/sda") if os.path.exists(path)), "")
        self.told |= {"disk": disk, "disk_number": os.stat(disk).st_rdev if disk else 0}
        groups = [path for path in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.access(path, os.W_OK)]
        self.told["cgroup"] = groups[0] if groups else "/sys/fs/cgroup"

    def _make_witness(self) -> None:
        """A process outside with secrets in its variables, arguments, memory, and an open file."""
        outside = self.told["outside"]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WAIT, f"{outside}/secret", outside, self.secret],
            env={"SECRET": self.secret},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stack.callback(closed, process)
        assert process.stdout is not None
        address, fd = process.stdout.readline().split()
        self.told |= {"witness": process.pid, "witness_address": int(address), "witness_fd": int(fd)}

    def _make_victims(self) -> None:
        """A process for each attack that needs one: a copy of this one that waits, in a group of its own."""
        victims: dict[str, int] = {}
        for one in self.attacks:
            if not one.victim:
                continue
            pid = started()
            victims[one.name] = pid
            self.stack.callback(ended, pid)
        self.told |= {"victims": victims, "victim_address": ctypes.addressof(BUFFER)}

    def _make_listeners(self) -> None:
        """Whoever may be connected to, on every kind of socket."""
        self.listeners: list[socket.socket] = []
        run_path = f"/run/jaato-test-{self.secret}.sock"
        paths = [str(self.base / "agent.sock"), str(self.base / "datagram.sock"), run_path]
        abstract = f"\0jaato-test-{self.secret[:8]}"
        kinds: list[tuple[int, int, Any]] = [
            (socket.AF_UNIX, socket.SOCK_STREAM, abstract),
            (socket.AF_UNIX, socket.SOCK_STREAM, paths[0]),
            (socket.AF_UNIX, socket.SOCK_DGRAM, paths[1]),
            (socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0)),
            (socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0)),
        ]
        if os.geteuid() == 0:
            kinds.append((socket.AF_UNIX, socket.SOCK_STREAM, run_path))
            self.stack.callback(Path(run_path).unlink)
        for family, kind, address in kinds:
            one = self.stack.enter_context(socket.socket(family, kind))
            one.bind(address)
            one.setblocking(False)
            if kind == socket.SOCK_STREAM:
                one.listen(64)
            self.listeners.append(one)
        self.told |= {
            "abstract": abstract,
            "stream_path": paths[0],
            "datagram_path": paths[1],
            "run_path": run_path,
        }
        self.told |= {
            "tcp_port": self.listeners[3].getsockname()[1],
            "udp_port": self.listeners[4].getsockname()[1],
        }
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                self.told["machine_address"] = probe.getsockname()[0]
            except OSError:
                self.told["machine_address"] = ""
        self.told["interface"] = next((name for _, name in socket.if_nameindex() if name != "lo"), "")

    def _heard(self) -> list[bytes]:
        """What came in at the listeners, and at the terminal."""
        heard = []
        for one in self.listeners:
            while True:
                try:
                    if one.type == socket.SOCK_DGRAM:
                        heard.append(one.recv(4096))
                        continue
                    accepted, _ = one.accept()
                except BlockingIOError:
                    break
                with accepted:
                    accepted.settimeout(2)
                    heard.append(accepted.recv(4096))
        return heard

    def _make_memory(self) -> None:
        """Shared memory and queues of System V and POSIX."""
        key = int(self.secret[:7], 16) + 1
        segment = libc("shmget", key, 4096, 0o1600)
        self.stack.callback(libc, "shmctl", segment, 0, None)
        shmat = ctypes.CDLL(None).shmat
        shmat.restype = ctypes.c_void_p
        address = shmat(segment, None, 0)
        ctypes.memmove(address, self.secret.encode(), len(self.secret))
        queue = libc("msgget", key, 0o1600)
        self.stack.callback(libc, "msgctl", queue, 0, None)
        message = ctypes.create_string_buffer(b"\1" + bytes(7) + self.secret.encode(), 108)
        libc("msgsnd", queue, message, ctypes.c_size_t(100), 0)
        shared = Path(f"/dev/shm/jaato-test-{self.secret[:8]}")
        shared.write_text(self.secret)
        self.stack.callback(shared.unlink)
        name = f"jaato-test-{self.secret[:8]}"
        handle = call(240, 180, name.encode(), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600, None)
        self.stack.callback(os.close, handle)
        self.stack.callback(call, 241, 181, name.encode())
        call(242, 182, handle, self.secret.encode(), ctypes.c_size_t(len(self.secret)), 0, None)
        self.told |= {"key": key, "posix_memory": str(shared), "queue": name}

    def _make_keys(self) -> None:
        """A key in the user's keyring, and a handle of a file."""
        with contextlib.suppress(OSError):
            added = call(248, 217, b"user", b"jaato-test", self.secret.encode(), ctypes.c_size_t(24), -4)
            call(250, 219, 5, added, 0x3F3F0000)  # KEYCTL_SETPERM
            self.stack.callback(quiet, 250, 219, 9, added, -4)  # KEYCTL_UNLINK
        handle = ctypes.create_string_buffer(136)
        ctypes.memmove(handle, (ctypes.c_uint * 1)(128), 4)
        with contextlib.suppress(OSError):
            call(
                303,
                264,
                -100,
                f"{self.told['outside']}/secret".encode(),
                handle,
                ctypes.byref(ctypes.c_int()),
                0,
            )
        self.told["handle"] = handle.raw.hex()

    def _make_terminal(self) -> None:
        """A terminal of somebody else."""
        leader, follower = os.openpty()
        os.set_blocking(leader, False)
        self.told["terminal"] = os.ttyname(follower)
        self.stack.callback(os.close, leader)
        self.stack.callback(os.close, follower)

    def _state(self, one: Attack) -> str:
        """Everything of the outside that this attack alone may have touched."""
        place = Path(self.told["outside"]) / one.name
        seen: list[object] = []
        for path in (place, *sorted(place.iterdir())):
            status = path.lstat()
            seen.append(
                (
                    path.name,
                    status.st_mode,
                    status.st_uid,
                    status.st_gid,
                    status.st_size if path != place else 0,
                )
            )
            if path.name == "canary":
                seen.append((path.read_text(), int(status.st_mtime), os.listxattr(path), status.st_blocks))
        if one.name in ("settings_of_git", "hook_of_git", "permissions_of_jaato"):
            seen += [
                self._file(name)
                for name in (".git/config", ".git/hooks/pre-commit", ".jaato/permissions.json")
            ]
        if one.victim:
            seen.append(state_of(self.told["victims"][one.name]))
        return repr(seen)

    def _file(self, name: str) -> str:
        path = self.workspace / name
        return path.read_text() if path.exists() else ""


def closed(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for it."""
    process.kill()
    process.communicate()


@contextlib.contextmanager
def outside(place: Path, attacks: Iterable[Attack]) -> Iterator[Outside]:
    """A world below a directory, which is removed with it."""
    base = Path(tempfile.mkdtemp(dir=place))
    world = Outside(base, attacks)
    try:
        yield world
    finally:
        world.close()
        shutil.rmtree(base, ignore_errors=True)
