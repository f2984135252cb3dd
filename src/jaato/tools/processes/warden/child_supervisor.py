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
    """Runs one request to its end; its process is the subreaper of all that the command starts."""

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
        self.deaf = False
        self.called_off = False
        self.stuck: list[int] = []

    def run(self) -> None:
        """From the request to the last word. The warden closes the socket after us."""
        process_tree.hurry()
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
        if self.called_off:
            self._stop("stopped")
        self._watch()
        duration_s = time.monotonic() - self.started
        left = self._settle() if not self.reason else []
        stuck = self._clean()
        self._drain(limit=PIPE_BYTES * 5)
        if not self.reason and begun.is_unconfined(self.status):
            self._fail({"doing": "confine", "error": last_line(b"".join(self.captured.ends()))})
            return
        self._report(duration_s, left, stuck)

    def _fail(self, failure: dict[str, Any]) -> None:
        """The last word about a command that never ran."""
        self._clean()
        self._finish(pipe_frames.value_frame(pipe_frames.ENDED, {"failure": failure}))

    def _receive(self) -> bool:
        """Wait for the request; False when it was called off."""
        while True:
            data = self.socket.recv(1 << 16)
            if not data:
                return False
            heard = self.frames.feed(data)
            self.called_off = any(kind == pipe_frames.STOP for kind, _ in heard)
            for kind, payload in heard:
                if kind == pipe_frames.REQUEST:
                    self.request = pipe_frames.value_of(payload)
                    self.socket.setblocking(False)
                    return True
            if self.called_off:
                return False

    def _watch(self) -> None:
        """Until the command has ended, or was told to and had its time to."""
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
            process_tree.reap(self._reaped)
            if self._time_is_up(time.monotonic()):
                return

    def _wait(self, poll: select.poll) -> None:
        """Sleep until something happens or is due, and take what came."""
        poll.register(self.socket, 0 if self.deaf else select.POLLIN | (select.POLLOUT if self.unsent else 0))
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
                self._listen(event)

    def _time_is_up(self, now: float) -> bool:
        """Tell the command to end when it must; True when it has had its time since."""
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
        """Ask the command to end, once; what forks too fast is not asked."""
        if self.reason:
            return
        self.reason = reason
        if self.status is None and self.request["grace_s"] > 0 and reason != "processes":
            process_tree.terminate(self.pid, within=bool(self.request["confinement"]))

    def _listen(self, event: int) -> None:
        """A word from jaato; its end closed means that it is gone."""
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
        """Take what the pipe has, once; False at its end."""
        try:
            data = os.read(self.output_fd, READ_BYTES)
        except BlockingIOError:
            return True
        if data:
            self.captured.take(data)
        return bool(data)

    def _drain(self, limit: int) -> None:
        """Take what is left in the pipe, without waiting for whoever else holds it."""
        before = self.captured.total
        while self.captured.total - before < limit:
            size = self.captured.total
            if not self._read() or self.captured.total == size:
                return

    def _show(self, now: bool = False) -> None:
        """Forward output if it is time to and the last piece has gone out."""
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
            self.deaf = True

    def _settle(self) -> list[str]:
        """A moment for what ends by itself (`tee` of a process substitution); what is left then, by name."""
        end = time.monotonic() + self.request["settle_s"]
        while not process_tree.reap(self._reaped):
            self._drain(limit=READ_BYTES)
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
        """Kill all that is left; the names of what would not die."""
        if not process_tree.reap(self._reaped) or not self.adopts:
            if self.group:
                cgroup.kill(self.group)
            roundup = TreeKiller(self._tops, self._reaped)
            self.stuck = roundup.to_end(KILL_WITHIN_S, lambda: self._drain(READ_BYTES))
        if self.group:
            cgroup.end(self.group, time.monotonic() + KILL_WITHIN_S)
        return [f"{pid} {process_tree.command_line(pid)}".strip() for pid in self.stuck]

    def _tops(self) -> set[int]:
        """The tops of what is left: our children, and where no orphan becomes ours, the command's session.

        Raises OSError where there are children that cannot be listed now: no list is no sign of the end.
        """
        own = set(process_tree.children(os.getpid()))
        if not own and not process_tree.reap(self._reaped):
            raise OSError("the children cannot be listed")
        return own if self.adopts or not self.pid else own.union(process_tree.in_sessions({self.pid}))

    def _reaped(self, pid: int, status: int) -> None:
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
        """The last word, however long the other end takes to read it, unless it has gone."""
        self.unsent += data
        while self.unsent and not self.deaf:
            poll = select.poll()
            poll.register(self.socket, select.POLLOUT)
            poll.poll()
            self._flush()
