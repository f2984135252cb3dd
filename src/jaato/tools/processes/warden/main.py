"""The warden's main loop: forks one supervisor per command, and is the subreaper behind them all."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time

from jaato.tools.processes.warden import cgroup, namespaces, pipe_frames, process_tree
from jaato.tools.processes.warden.child_supervisor import Supervisor
from jaato.tools.processes.warden.output import clear_stale
from jaato.tools.processes.warden.process_tree import TreeKiller
from jaato.tools.processes.warden.start import IGNORED, MOST_STREAMS, NAMESPACES, close_all_but

CONTROL_FD = 0
CLOSING_S = 10.0
CLEAN_WITHIN_S = 3.0
SLOWEST_MS = 1000
STUCK = 75  # how a supervisor exits that could not end all it had started


class Warden:
    """The loop of the process that jaato starts once; each message on its control socket brings a call's."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.parent_fd = open_process(os.getppid())
        self.groups = cgroup.prefix(os.getpid())
        self.sockets: dict[int, socket.socket] = {}
        self.closing_at: float | None = None
        self.wakeup_fd = wakeup()
        self.killer: TreeKiller | None = None
        self.pause_ms = 1
        self.lost: dict[int, tuple[socket.socket, float]] = {}

    def run(self) -> None:
        """Serve until jaato has ended and everything that was started for it."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wakeup_fd, select.POLLIN)
        if self.parent_fd >= 0:
            poll.register(self.parent_fd, select.POLLIN)
        while self.closing_at is None or self.sockets:
            for fd, _ in poll.poll(self._wait_ms()):
                if fd == self.wakeup_fd:
                    os.read(fd, 4096)
                elif fd == self.parent_fd or not self._accept():
                    for gone in (self.control.fileno(), self.parent_fd):
                        if gone >= 0 and self.closing_at is None:
                            poll.unregister(gone)
                    self._close_all()
            self._reap_supervisors()
            if self.closing_at is not None and time.monotonic() > self.closing_at + CLOSING_S:
                process_tree.send(self.sockets, signal.SIGKILL)
        TreeKiller(self._orphans, self._on_reaped).to_end(CLEAN_WITHIN_S)

    def _wait_ms(self) -> int | None:
        """The timeout of the poll; orphans are looked for with a growing interval (backoff)."""
        if self.killer is None:
            return None if self.closing_at is None else 200
        self.pause_ms = min(self.pause_ms * 2, SLOWEST_MS)
        return self.pause_ms

    def _close_all(self) -> None:
        """Shut the supervisors' sockets down, which ends them, also while jaato still runs."""
        if self.closing_at is None:
            self.closing_at = time.monotonic()
            for wire_end in self.sockets.values():
                try:
                    wire_end.shutdown(socket.SHUT_RD)
                except OSError:
                    continue  # jaato's end is closed already

    def _accept(self) -> bool:
        """Fork a process for the socket that was received; False when jaato has closed its end."""
        try:
            data, fds, _, _ = socket.recv_fds(self.control, 1, 1 + MOST_STREAMS + len(NAMESPACES))
        except OSError:
            return False
        if not data:
            return False
        if not fds:
            return True
        wire_end = socket.socket(fileno=fds[0])
        if data == pipe_frames.NETWORK:
            self._fork_network(wire_end)
            return True
        joins = fds[-len(NAMESPACES) :] if data == pipe_frames.JOINED_COMMAND else []
        self._fork(wire_end, fds[1 : len(fds) - len(joins)], joins)
        return True

    def _fork_network(self, reply: socket.socket) -> None:
        """A process that makes a network namespace, hands it out over this socket, and ends."""
        try:
            pid = os.fork()
        except OSError as error:
            reply.send(str(error.errno).encode())
            pid = -1
        if pid == 0:
            try:
                self._close_sockets()
                namespaces.send_new_network(reply)
            finally:
                os._exit(0)
        reply.close()

    def _fork(self, wire_end: socket.socket, streams: list[int], joins: list[int]) -> None:
        """A supervisor for this socket; `streams` are what its command is to have as its standard streams, `joins` the
        namespaces it enters."""
        try:
            pid = os.fork()
        except OSError as error:
            failure = {"doing": "fork for", "error": os.strerror(error.errno or 0)}
            wire_end.send(pipe_frames.value_frame(pipe_frames.ENDED, {"failure": failure}))
            wire_end.close()
            pid = -1
        if pid == 0:
            self._supervise(wire_end, streams, joins)
        for fd in (*streams, *joins):
            os.close(fd)
        if pid > 0:
            self.sockets[pid] = wire_end

    def _close_sockets(self) -> None:
        """Close, in a fork, the sockets of the warden."""
        self.control.close()
        for other in (*self.sockets.values(), *(lost for lost, _ in self.lost.values())):
            other.close()

    def _supervise(self, wire_end: socket.socket, streams: list[int], joins: list[int]) -> None:
        """The whole life of a supervisor."""
        code = 70
        try:
            os.setsid()
            self._close_sockets()
            group = f"{self.groups}{os.getpid()}" if self.groups else ""
            supervisor = Supervisor(wire_end, self.parent_fd, wakeup(), group, streams, joins)
            supervisor.run()
            code = STUCK if supervisor.stuck else 0
        finally:
            os._exit(code)

    def _reap_supervisors(self) -> None:
        """Wait for ended supervisors; clean up for one that was killed or stopped by its command."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if not os.WIFSTOPPED(status):
                self._on_reaped(pid, status)
            elif pid in self.sockets:
                os.kill(pid, signal.SIGKILL)
        if self.killer is None:
            return
        done = self.killer.step()
        if done:
            self.killer = None
        for pid, (wire_end, until) in list(self.lost.items()):
            if done or time.monotonic() > until:
                self._report_lost(pid, wire_end)

    def _on_reaped(self, pid: int, status: int) -> None:
        """Handle the end of a child; if a supervisor did not clean up, the warden does."""
        wire_end = self.sockets.pop(pid, None)
        if wire_end is None:
            return
        if status == 0:
            wire_end.close()
            return
        self.killer = self.killer or TreeKiller(self._orphans, self._on_reaped)
        self.pause_ms = 1
        if os.waitstatus_to_exitcode(status) == STUCK:
            wire_end.close()
            return
        if self.groups:
            cgroup.kill(f"{self.groups}{pid}")
        self.lost[pid] = (wire_end, time.monotonic() + CLOSING_S)

    def _report_lost(self, pid: int, wire_end: socket.socket) -> None:
        """Report a killed supervisor to jaato, when nothing of its command is left."""
        del self.lost[pid]
        if self.groups:
            cgroup.end(f"{self.groups}{pid}", time.monotonic() + 1)
        try:
            wire_end.setblocking(False)
            wire_end.send(pipe_frames.frame(pipe_frames.LOST))
        except OSError:
            pass
        wire_end.close()

    def _orphans(self) -> set[int]:
        """The orphans of killed supervisors, which are children of the warden now."""
        return set(process_tree.children(os.getpid())).difference(self.sockets)


def wakeup() -> int:
    """A descriptor that can be read when a child has changed its state."""
    readable, written = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable


def open_process(pid: int) -> int:
    """A descriptor that can be read when that process has ended, or -1 where there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def main() -> None:
    """Run the warden; descriptor 0 is the control socket, the last argument the directory of spool files."""
    os.setsid()
    os.chdir("/")
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    process_tree.become_subreaper()
    control = socket.socket(fileno=os.dup(CONTROL_FD))
    os.dup2(os.open(os.devnull, os.O_RDWR), CONTROL_FD)
    close_all_but(control.fileno())
    clear_stale(sys.argv[-1])
    gc.disable()
    gc.freeze()
    Warden(control).run()
