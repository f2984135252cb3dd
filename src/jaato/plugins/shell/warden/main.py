"""The warden: forks one supervisor per command, and is the subreaper behind them all."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time

from jaato.plugins.shell.warden import cgroup, tree, wire
from jaato.plugins.shell.warden.start import IGNORED
from jaato.plugins.shell.warden.supervise import Supervisor

CONTROL_FD = 0
CLOSING_S = 10.0


class Warden:
    """The loop of the process that jaato starts once; each message on its control socket brings a call's."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.parent_fd = open_process(os.getppid())
        self.groups = cgroup.prefix(os.getpid())
        self.sockets: dict[int, socket.socket] = {}
        self.closing_at: float | None = None
        self.wakeup_fd = wakeup()

    def run(self) -> None:
        """Until jaato is gone and so is everything that was started for it."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wakeup_fd, select.POLLIN)
        if self.parent_fd >= 0:
            poll.register(self.parent_fd, select.POLLIN)
        while self.closing_at is None or self.sockets:
            for fd, _ in poll.poll(None if self.closing_at is None else 200):
                if fd == self.wakeup_fd:
                    os.read(fd, 4096)
                elif fd == self.parent_fd or not self._accept():
                    for gone in (self.control.fileno(), self.parent_fd):
                        if gone >= 0 and self.closing_at is None:
                            poll.unregister(gone)
                    self._end_all()
            self._look_after()
            if self.closing_at is not None and time.monotonic() > self.closing_at + CLOSING_S:
                tree.send(self.sockets, signal.SIGKILL)
        self._clean()

    def _end_all(self) -> None:
        """Let every supervisor hear the end of its socket, also while jaato is still there."""
        if self.closing_at is None:
            self.closing_at = time.monotonic()
            for wire_end in self.sockets.values():
                try:
                    wire_end.shutdown(socket.SHUT_RD)
                except OSError:
                    continue  # jaato's end is closed already

    def _accept(self) -> bool:
        """Fork a supervisor for the socket that came; False when jaato has closed its end."""
        try:
            data, fds, _, _ = socket.recv_fds(self.control, 16, 4, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        if not data:
            return False
        for fd in fds:
            wire_end = socket.socket(fileno=fd)
            try:
                pid = os.fork()
            except OSError as error:
                report = {
                    "failure": {
                        "doing": "fork for",
                        "error": os.strerror(error.errno or 0),
                    }
                }
                wire_end.send(wire.value_frame(wire.ENDED, report))
                wire_end.close()
                continue
            if pid == 0:
                self._supervise(wire_end)
            self.sockets[pid] = wire_end
        return True

    def _supervise(self, wire_end: socket.socket) -> None:
        """The whole life of a supervisor."""
        code = 70
        try:
            os.setsid()
            tree.become_subreaper()
            self.control.close()
            for other in self.sockets.values():
                other.close()
            Supervisor(
                wire_end, self.parent_fd, wakeup(), f"{self.groups}{os.getpid()}" if self.groups else ""
            ).run()
            code = 0
        finally:
            os._exit(code)

    def _look_after(self) -> None:
        """Take in ended supervisors; one that was killed or stopped by what it supervised is made up for."""
        killed: list[int] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                os.kill(pid, signal.SIGKILL)
            elif pid in self.sockets and status == 0:
                self.sockets.pop(pid).close()
            elif pid in self.sockets:
                killed.append(pid)
        if killed:
            for pid in killed if self.groups else ():
                cgroup.kill(f"{self.groups}{pid}")
            self._clean()
        for pid in killed:
            lost = self.sockets.pop(pid)
            if self.groups:
                cgroup.end(f"{self.groups}{pid}", time.monotonic() + CLOSING_S)
            try:
                lost.setblocking(False)
                lost.send(wire.frame(wire.LOST))
            except OSError:
                pass
            lost.close()

    def _clean(self) -> None:
        """Kill what killed supervisors left behind: it is ours now, and no supervisor of ours."""
        ended: dict[int, int] = {}
        tree.kill_below(lambda: self.sockets.keys() - ended.keys(), ended.__setitem__, CLOSING_S)
        for pid in ended.keys() & self.sockets.keys():
            self.sockets.pop(pid).close()


def wakeup() -> int:
    """A descriptor that can be read when a child has changed its state."""
    readable, written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
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
    """Be the warden; descriptor 0 is the control socket."""
    os.setsid()
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    tree.become_subreaper()
    control = socket.socket(fileno=os.dup(CONTROL_FD))
    os.dup2(os.open(os.devnull, os.O_RDWR), CONTROL_FD)
    gc.disable()
    gc.freeze()
    Warden(control).run()
