"""Launch the warden on first use, and hand commands to it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

from jaato import version
from jaato.tools.processes.warden import namespaces, pipe_frames

PACKAGES = Path(version.__file__).resolve().parent.parent
START = "import sys; sys.path.append(sys.argv[1]); from jaato.tools.processes.warden.main import main; main()"
CLOSE_WITHIN_S = 15.0
NETWORK_WITHIN_S = 3.0
NETWORK_TRIES = 3


def spool_directory() -> Path:
    """The directory of spool files; `/tmp` if none is writable, and the command then runs without one."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return Path("/tmp")  # noqa: S108 nothing is made there without O_EXCL


class WardenClient:
    """One warden process, started at the first command and again if it was killed. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self.warden_pid = 0
        """The process id of the warden, 0 before the first command."""
        self._owner = 0
        self._end: weakref.finalize[..., WardenClient] | None = None

    def supervisor(self, streams: Sequence[int] = (), joins: Sequence[int] = ()) -> socket.socket:
        """A socket to a new supervisor that waits for its request; raises OSError when there can be none.

        `streams` are descriptors for the command: its input and output, or one terminal; `joins` those of the user and
        network namespace it enters. The caller's stay open.
        """
        ours = self._send(pipe_frames.JOINED_COMMAND if joins else pipe_frames.COMMAND, [*streams, *joins])
        ours.setblocking(False)
        return ours

    def network(self) -> list[int]:
        """Descriptors of a new network namespace: its user namespace, itself, a listener for the proxy in there.

        Blocks for some milliseconds. Raises `NetworkRefused` where this machine refuses it, any other OSError when it
        failed for now.
        """
        failure: OSError = ConnectionError()
        for _ in range(NETWORK_TRIES):
            with self._send(pipe_frames.NETWORK) as reply:
                reply.settimeout(NETWORK_WITHIN_S)
                try:
                    return namespaces.receive_network(reply)
                except (TimeoutError, ConnectionError) as error:
                    failure = error  # a command has stopped or killed the warden
            self.nudge()
        raise failure

    def _send(self, kind: bytes, descriptors: Sequence[int] = ()) -> socket.socket:
        """Send the warden one message with one end of a new socket and these descriptors; returns the other end."""
        with self._lock:
            ours, theirs = socket.socketpair()
            try:
                for _ in range(2):
                    try:
                        socket.send_fds(self._ensure_running(), [kind], [theirs.fileno(), *descriptors])
                        break
                    except (BrokenPipeError, ConnectionResetError):
                        self._forget()
                else:
                    raise OSError("The process that runs commands ended as soon as it was started.")
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
        return ours

    def nudge(self) -> None:
        """Wake the warden in case a command has stopped it."""
        with self._lock:
            if self.warden_pid and self._owner == os.getpid():
                signal_warden(self.warden_pid, signal.SIGCONT)

    def replace(self, pid: int) -> None:
        """Kill a warden that does not answer; the next command gets another."""
        with self._lock:
            if pid and pid == self.warden_pid:
                signal_warden(pid, signal.SIGKILL)
                self._forget()

    def close(self) -> None:
        """End the warden and all it runs; returns when it is gone."""
        with self._lock:
            self._forget()

    def _ensure_running(self) -> socket.socket:
        if self._control is not None and self._owner == os.getpid():
            return self._control
        ours, theirs = socket.socketpair()
        try:
            self.warden_pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-B", "-c", START, str(PACKAGES), str(spool_directory())],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control, self._owner = ours, os.getpid()
        self._end = weakref.finalize(self, close_warden, ours, self.warden_pid, self._owner)
        return ours

    def _forget(self) -> None:
        self._control = None
        self.warden_pid = 0
        if self._end is not None:
            self._end()


def close_warden(control: socket.socket, pid: int, owner: int) -> None:
    """Close a warden's socket, which ends it, and wait for that; a fork of jaato owns only the socket."""
    control.close()
    if owner != os.getpid():
        return
    signal_warden(pid, signal.SIGCONT)
    end = time.monotonic() + CLOSE_WITHIN_S
    pause = 0.0005
    while time.monotonic() < end:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    signal_warden(pid, signal.SIGKILL)


def signal_warden(pid: int, number: signal.Signals) -> None:
    """Send the warden a signal, if it is still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
