"""The supervisor of one command: start it, forward its output, and end with no process of it alive."""

from __future__ import annotations

import os
import select
import socket
import time

from jaato.tools.processes.warden import cgroup, pipe_frames, process_tree
from jaato.tools.processes.warden.output import Captured, last_line
from jaato.tools.processes.warden.process_tree import TreeKiller
from jaato.tools.processes.warden.start import PIPE_BYTES, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READ_BYTES = 1 << 16
TICK_S = 0.25
BLIND_TICK_S = 2.0  # where only `ps` can say how many processes there are
KILL_WITHIN_S = 5.0
MANY = 100  # more than this is not about to end by itself
BUSY_FORKS = 300  # so many new processes on the whole machine, and we count our own again


class Supervisor:
    """Runs one request to its end; its process is the subreaper of all processes that the command starts."""

    def __init__(
        self,
        wire_end: socket.socket,
        parent_fd: int,
        wakeup_fd: int,
        group: str,
        streams: list[int],
        joins: list[int],
    ) -> None:
        self.adopts = process_tree.become_subreaper()
        self.socket = wire_end
        self.parent_fd = parent_fd
        self.wakeup_fd = wakeup_fd
        self.frames = pipe_frames.FrameDecoder()
        self.request: dict[str, Any] = {}
        self.streams = streams
        self.joins = joins
        self.group = group if group and cgroup.make(group) else ""
        self.pid = 0
        self.status: int | None = None
        self.output_fd = self.status_fd = -1
        self.unsent = bytearray()
        self.reason = ""
        self.started = 0.0
        self.deadline: float | None = None
        self.kill_at: float | None = None
        self.next_tick = 0.0
        self.forks = 0
        self.closed = False
        self.cancelled = False
        self.stuck: list[int] = []

    def run(self) -> None:
        """Receive the request, run it and report the result. The warden closes the socket afterwards."""
        process_tree.raise_priority()
        self.socket.setblocking(True)
        self.socket.send(pipe_frames.frame(pipe_frames.READY, self.group.encode()))
        if not self._receive():
            self._clean()
            return
        self.captured = Captured(
            self.request["bound_bytes"], self.request["cap_bytes"], self.request["spool"]
        )
        begun = start(self.request, self.group, self.streams, self.joins)
        self.pid, self.output_fd, self.status_fd = begun.pid, begun.output_fd, begun.status_fd
        if begun.failure:
            self._fail(begun.failure)
            return
        self._send(pipe_frames.value_frame(pipe_frames.STARTED, {"pid": self.pid}))
        self.started = time.monotonic()
        if self.cancelled:
            self._stop("stopped")
        self._watch()
        duration_s = time.monotonic() - self.started
        left = self._settle() if not self.reason else []
        stuck = self._clean()
        self._drain_output(limit=PIPE_BYTES * 5)
        if not self.reason and begun.is_unconfined(self.status):
            self._fail({"doing": "confine", "error": last_line(b"".join(self.captured.ends()))})
            return
        self._report(duration_s, left, stuck)

    def _fail(self, failure: dict[str, Any]) -> None:
        """Report a command that could not be started."""
        self._clean()
        self._finish(pipe_frames.value_frame(pipe_frames.ENDED, {"failure": failure}))

    def _receive(self) -> bool:
        """Wait for the request; False if it was cancelled before it came."""
        while True:
            data = self.socket.recv(1 << 16)
            if not data:
                return False
            frames = self.frames.feed(data)
            self.cancelled = any(kind == pipe_frames.STOP for kind, _ in frames)
            for kind, payload in frames:
                if kind == pipe_frames.REQUEST:
                    self.request = pipe_frames.value_of(payload)
                    self.socket.setblocking(False)
                    return True
            if self.cancelled:
                return False

    def _watch(self) -> None:
        """Watch the command until it ends, or until its grace period after SIGTERM is over."""
        poll = select.poll()
        for fd in (self.output_fd, self.wakeup_fd, self.parent_fd):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        timeout_s = self.request.get("timeout_s")
        self.deadline = self.started + timeout_s if timeout_s else None
        self.forks = process_tree.forks_so_far()
        self.next_tick = self.started + TICK_S
        while self.status is None:
            self._wait(poll)
            self._show()
            process_tree.reap(self._on_reaped)
            if self._must_kill(time.monotonic()):
                return

    def _wait(self, poll: select.poll) -> None:
        """Sleep until an event or the next deadline, and handle the events."""
        poll.register(
            self.socket, 0 if self.closed else select.POLLIN | (select.POLLOUT if self.unsent else 0)
        )
        due = [at for at in (self.next_tick, self.deadline, self.kill_at) if at is not None]
        wait = min(due) - time.monotonic()
        if self.captured.pending and not self.unsent:
            wait = min(wait, self.captured.due_in())
        for fd, event in poll.poll(max(wait, 0.0) * 1000 + 0.5):
            if fd == self.output_fd and not self._read():
                poll.unregister(fd)
            elif fd == self.wakeup_fd:
                os.read(fd, 4096)
            elif fd == self.parent_fd:
                poll.unregister(fd)
                self._stop("orphaned")
            elif fd == self.socket.fileno():
                self._handle_message(event)

    def _must_kill(self, now: float) -> bool:
        """Enforce the limits; True when the command has to be killed now."""
        if self.deadline is not None and now >= self.deadline:
            self._stop("timeout")
        if self.captured.over_cap:
            self._stop("output")
        if now >= self.next_tick:
            forks = process_tree.forks_so_far()
            self.next_tick = now + (TICK_S if forks >= 0 else BLIND_TICK_S)
            many = min(BUSY_FORKS, self.request["max_processes"] // 4)
            if forks < 0 or not 0 <= forks - self.forks < many:
                self.forks = forks
                self._count()
        if not self.reason:
            return False
        self.deadline = None
        if self.kill_at is None:
            self.kill_at = now + (0 if self.reason in ("orphaned", "processes") else self.request["grace_s"])
        return now >= self.kill_at

    def _count(self) -> None:
        limit = self.request["max_processes"]
        if len(process_tree.descendants(os.getpid(), limit + 1)) > limit:
            self._stop("processes")

    def _stop(self, reason: str) -> None:
        """Send SIGTERM, once; not to a command that forks too fast, which is killed."""
        if self.reason:
            return
        self.reason = reason
        if self.status is None and self.request["grace_s"] > 0 and reason != "processes":
            process_tree.terminate(self.pid, within=bool(self.request["confinement"]))

    def _handle_message(self, event: int) -> None:
        """Handle a message from jaato; end of file means that jaato has ended."""
        if event & select.POLLOUT:
            self._flush()
        if not event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return
        try:
            data = self.socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._stop("orphaned")
        elif any(kind == pipe_frames.STOP for kind, _ in self.frames.feed(data)):
            self._stop("stopped")

    def _read(self) -> bool:
        """Read from the output pipe, once; False at end of file."""
        try:
            data = os.read(self.output_fd, READ_BYTES)
        except BlockingIOError:
            return True
        if data:
            self.captured.take(data)
        return bool(data)

    def _drain_output(self, limit: int) -> None:
        """Read what is left in the pipe, without waiting for other processes that hold it open."""
        before = self.captured.total
        while self.captured.total - before < limit:
            size = self.captured.total
            if not self._read() or self.captured.total == size:
                return

    def _show(self, now: bool = False) -> None:
        """Forward output, throttled: only when the interval is over and the previous piece has been sent."""
        if self.unsent:
            self._flush()
        if not self.unsent and self.captured.pending and (now or self.captured.due_in() == 0):
            skipped, data = self.captured.show()
            notice = pipe_frames.frame(pipe_frames.SKIPPED, str(skipped).encode()) if skipped else b""
            self._send(notice + pipe_frames.frame(pipe_frames.OUTPUT, data))

    def _send(self, data: bytes) -> None:
        self.unsent += data
        self._flush()

    def _flush(self) -> None:
        try:
            del self.unsent[: self.socket.send(self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent.clear()
            self.closed = True

    def _settle(self) -> list[str]:
        """Wait a moment for processes that end by themselves (`tee` of a process substitution); return the command lines of the rest."""
        end = time.monotonic() + self.request["settle_s"]
        while not process_tree.reap(self._on_reaped):
            self._drain_output(limit=READ_BYTES)
            below = process_tree.descendants(os.getpid(), MANY)
            if self.request["confinement"]:
                first = process_tree.children(
                    os.getpid()
                )  # of a process namespace, and no part of the command
                below = [pid for pid in below if pid not in first]
            if time.monotonic() >= end or len(below) >= MANY:
                return [line for line in map(process_tree.command_line, below) if line]
            time.sleep(0.002)
        return []

    def _clean(self) -> list[str]:
        """Kill all remaining processes; return the names of those that could not be killed."""
        if not process_tree.reap(self._on_reaped) or not self.adopts:
            if self.group:
                cgroup.kill(self.group)
            killer = TreeKiller(self._tops, self._on_reaped)
            self.stuck = killer.to_end(KILL_WITHIN_S, lambda: self._drain_output(READ_BYTES))
        if self.group:
            cgroup.end(self.group, time.monotonic() + KILL_WITHIN_S)
        return [f"{pid} {process_tree.command_line(pid)}".strip() for pid in self.stuck]

    def _tops(self) -> set[int]:
        """The top processes that remain: our children, and without a subreaper also the command's session.

        Raises OSError where there are children that cannot be listed now: no list is no sign of the end.
        """
        own = set(process_tree.children(os.getpid()))
        if not own and not process_tree.reap(self._on_reaped):
            raise OSError("the children cannot be listed")
        return own if self.adopts or not self.pid else own.union(process_tree.in_sessions({self.pid}))

    def _on_reaped(self, pid: int, status: int) -> None:
        if pid == self.pid:
            self.status = status

    def _report(self, duration_s: float, left: list[str], stuck: list[str]) -> None:
        self._show(now=True)
        head, tail = self.captured.ends()
        complete = self.captured.close()
        if self.reason == "orphaned" and complete:
            os.unlink(self.captured.spool)
        code = os.waitstatus_to_exitcode(self.status) if self.status is not None else None
        ended = {
            "code": code,
            "reason": self.reason,
            "total": self.captured.total,
            "spooled": complete,
            "spool_error": self.captured.spool_error,
            "duration_s": round(duration_s, 3),
            "left": left[:5],
            "left_count": len(left),
            "stuck": stuck[:5],
        }
        body = pipe_frames.frame(pipe_frames.HEAD, head) + pipe_frames.frame(pipe_frames.TAIL, tail)
        self._finish(body + pipe_frames.value_frame(pipe_frames.ENDED, ended))

    def _finish(self, data: bytes) -> None:
        """Send the final frames, however long the other end takes to read them, unless it is closed."""
        self.unsent += data
        while self.unsent and not self.closed:
            poll = select.poll()
            poll.register(self.socket, select.POLLOUT)
            poll.poll()
            self._flush()
