"""Run one command through the warden: timeout, output, stop, and how it ended."""

from __future__ import annotations

import functools
import math
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from jaato.errors import ToolError
from jaato.tools.processes.call_processes import MARK, kill_leftovers
from jaato.tools.processes.launcher import WardenClient, spool_directory
from jaato.tools.processes.sandbox.sandbox import UNCONFINED, Confinement
from jaato.tools.processes.streams import OutputDecoder
from jaato.tools.processes.warden import pipe_frames
from jaato.tools.processes.warden.child_supervisor import KILL_WITHIN_S
from jaato.tools.processes.warden.output import SPOOL_PREFIX
from jaato.tools.processes.warden.process_tree import MOST_TIMES


@dataclass(slots=True)
class Ended:
    """How a command ended. `spool` has all of its output if that was over the bound; the caller removes it."""

    code: int | None = None
    reason: str = ""
    head: bytes = b""
    tail: bytes = b""
    total: int = 0
    spool: Path | None = None
    spool_error: str = ""
    duration_s: float = 0.0
    left: list[str] = field(default_factory=list)
    left_count: int = 0
    stuck: list[str] = field(default_factory=list)


def make_interrupted(reason: str, spool: Path, forwarded: bytes, bound_bytes: int) -> Ended:
    """The result of a command whose supervisor was lost: output from its spool file, else what was forwarded."""
    half = bound_bytes // 2
    try:
        with spool.open("rb") as written:
            total = written.seek(0, os.SEEK_END)
            written.seek(0)
            head = written.read(half)
            written.seek(max(total - half, len(head)))
            return Ended(reason=reason, head=head, tail=written.read(half), total=total, spool=spool)
    except OSError:
        return Ended(reason=reason, head=forwarded, total=len(forwarded))


ANSWER_WITHIN_S = 20.0
NUDGE_EVERY_S = 2.0
GONE_WITHIN_S = KILL_WITHIN_S * MOST_TIMES
STARTS = 5
"""How often a start is tried: a path that the sandbox hides may disappear while it is created, and then nothing has run."""
MADE_WITHIN_S = 1.0
"""The streams are kept for a retry for so long after the start; a sandbox fails within milliseconds."""


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """How much a command may print, start and use, and its grace period after SIGTERM.

    `max_file_bytes` is the size of one file, `cpu_s` the seconds of processor time of one process; 0 is no limit, which
    is right for what runs as long as it is wanted.
    """

    bound_bytes: int = 16_384
    cap_bytes: int = 1 << 30
    grace_s: float = 0.5
    settle_s: float = 0.1
    max_processes: int = 2000
    max_file_bytes: int = 64 << 30
    cpu_s: int = 0


class Command:
    """One run of a command.

    `streams` are descriptors it is to have as its input and output, or one terminal: what it prints elsewhere (its
    errors, where it has no terminal) is shown, whatever the length of it, and only its ends are kept. `confinement` is the
    sandbox it starts in; once it has run, that is the one it was started in.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        *,
        limits: CommandLimits,
        timeout_s: float | None = None,
        show: Callable[[str], None],
        streams: Sequence[int] = (),
        confinement: Confinement = UNCONFINED,
    ) -> None:
        self.streams = streams
        self.access = confinement.access
        self.id = secrets.token_hex(16)
        self.limits = limits
        self.timeout_s = timeout_s
        self.spool = spool_directory() / f"{SPOOL_PREFIX}{self.id}"
        self.request: dict[str, Any] = {
            "id": self.id,
            "argv": [argument.encode("utf-8", "surrogateescape") for argument in argv],
            "cwd": os.fsencode(absolute_path(cwd)),
            "timeout_s": timeout_s,
            **asdict(limits),
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "spool": "" if streams else str(self.spool),
        }
        self._environment = environment
        self._show = show
        self._kept: list[int] = []
        self._stopping = False
        self._prepare(confinement)

    def _prepare(self, confinement: Confinement) -> None:
        """Prepare a start in this sandbox."""
        variables = {**confinement.apply(self._environment), MARK: self.id}
        self.request["env"] = {os.fsencode(k): os.fsencode(v) for k, v in variables.items()}
        self.request["confinement"] = confinement.request()
        self.confinement = confinement
        """The confinement of the last start."""
        self.pid = 0
        self.group = ""
        self._shown = OutputDecoder(self._show)
        self._ended: Ended | None = None
        self._head = self._tail = b""
        self._streamed = bytearray()
        self._socket: socket.socket | None = None
        self.asking = self._asked = False

    async def run(self, launcher: WardenClient) -> Ended:
        """Run it to its end. Cancelled, it kills all that was started before the cancellation propagates.

        If its sandbox could not be created, the start is retried with a new one. Raises `ToolError` when the command cannot be started.
        """
        try:
            ended = await self._attempt(launcher)
            for _ in range(STARTS - 1):
                again = self.confinement.again
                if again is None or ended.reason != "failure" or ended.stuck[0] != "confine":
                    break
                if self.streams and not self._kept:
                    break  # it took too long, and their numbers may mean others by now
                self._prepare(await again())
                ended = await self._attempt(launcher)
            return ended
        finally:
            self._close_duplicates()

    async def _attempt(self, launcher: WardenClient) -> Ended:
        """Start and run it once."""
        try:
            await self._open(launcher)
            return await self._run(launcher)
        finally:
            self.confinement.close()

    def _duplicate_streams(self) -> None:
        """Duplicate the streams for a retry, since the caller closes its own. Raises OSError."""
        if self.confinement.again is not None and not self._kept:
            for fd in self.streams:
                self._kept.append(os.dup(fd))

    def _close_duplicates(self) -> None:
        """Close the duplicated streams, so that end of file is seen."""
        kept, self._kept = self._kept, []
        for fd in kept:
            os.close(fd)

    async def _run(self, launcher: WardenClient) -> Ended:
        try:
            self.asking = not self._stopping
            if not self.asking:
                return Ended(reason="stopped")
            await self._send(pipe_frames.value_frame(pipe_frames.REQUEST, self.request))
            self._asked = True
            if self._stopping:
                self.stop()
            finished = await self._until_ended(launcher, self._answer_deadline())
            if self._ended is None:
                await self._sweep("lost" if finished else "silent")
            return self._outcome()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._end(launcher)
            self.spool.unlink(missing_ok=True)
            raise
        finally:
            self._close()

    def stop(self) -> None:
        """Ask it to end; from any thread, any number of times."""
        self._stopping = True
        if self._asked and self._socket is not None:
            try:
                self._socket.send(pipe_frames.frame(pipe_frames.STOP))
            except OSError:
                pass  # it has ended already

    async def _open(self, launcher: WardenClient) -> None:
        """Get a supervisor that is ready. It has no request yet, so another one can be tried."""
        for _ in range(2):
            try:
                self._duplicate_streams()
                with self.confinement.open_namespaces() as joins:
                    self._socket = launcher.supervisor(self._kept or self.streams, joins)
            except OSError as error:
                raise ToolError(f"Commands cannot be run here: {error}") from None
            self._frames = pipe_frames.FrameDecoder()
            pid = launcher.warden_pid
            ready = False
            try:
                ready = await self._is_ready(launcher)
            finally:
                if not ready:
                    self._close()
            if ready:
                return
            if self._ended is None:
                await anyio.to_thread.run_sync(launcher.replace, pid)
        raise ToolError(
            "Commands cannot be run here now: no process could be started for this one. Try again."
        )

    async def _is_ready(self, launcher: WardenClient) -> bool:
        """Wait until the supervisor is ready; a warden that was stopped is continued (SIGCONT)."""
        last = time.monotonic() + ANSWER_WITHIN_S
        while time.monotonic() < last:
            with anyio.move_on_after(NUDGE_EVERY_S) as waited:
                return await self._receive() and self._ended is None
            if waited.cancelled_caught:
                launcher.nudge()
        return False

    def _answer_deadline(self) -> float:
        """The deadline for the supervisor's report (`time.monotonic()`); infinite without a timeout."""
        if self.timeout_s is None:
            return math.inf
        spare_s = self.limits.grace_s + self.limits.settle_s + GONE_WITHIN_S + ANSWER_WITHIN_S
        return time.monotonic() + self.timeout_s + spare_s

    async def _send(self, data: bytes) -> None:
        assert self._socket is not None
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except (BrokenPipeError, ConnectionResetError):
                return  # the supervisor was killed; the warden or the end of the stream reports it

    async def _until_ended(self, launcher: WardenClient, last: float = math.inf) -> bool:
        """Receive until the report or the end of the stream; False if neither came before the deadline `last`.

        A warden that was stopped meanwhile is continued.
        """
        going = True
        made = time.monotonic() + MADE_WITHIN_S
        while going and self._ended is None:
            if time.monotonic() > last:
                return False
            with anyio.move_on_after(MADE_WITHIN_S if self._kept else NUDGE_EVERY_S) as waited:
                going = await self._receive()
            if self._kept and time.monotonic() >= made:
                self._close_duplicates()
            if waited.cancelled_caught:
                launcher.nudge()
        return True

    async def _receive(self) -> bool:
        """Receive frames; False at the end of the stream."""
        assert self._socket is not None
        await anyio.wait_readable(self._socket)
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        for kind, payload in self._frames.feed(data):
            self._take(kind, payload)
        return bool(data)

    def _take(self, kind: bytes, payload: bytes) -> None:
        match kind:
            case pipe_frames.OUTPUT:
                self._streamed = (self._streamed + payload)[-self.limits.bound_bytes :]
                self._shown.take(payload)
            case pipe_frames.SKIPPED:
                self._shown.skip(int(payload))
            case pipe_frames.READY:
                self.group = payload.decode()
            case pipe_frames.STARTED:
                self.pid = pipe_frames.value_of(payload)["pid"]
            case pipe_frames.HEAD:
                self._head = payload
            case pipe_frames.TAIL:
                self._tail = payload
            case pipe_frames.ENDED:
                self._ended = self._parse_ended(pipe_frames.value_of(payload))
                self._shown.end()
            case pipe_frames.LOST:
                self._ended = make_interrupted(
                    "lost", self.spool, bytes(self._streamed), self.limits.bound_bytes
                )

    def _parse_ended(self, ended: dict[str, Any]) -> Ended:
        if "failure" in ended:
            return Ended(reason="failure", stuck=[ended["failure"]["doing"], ended["failure"]["error"]])
        spooled = ended.pop("spooled")
        return Ended(**ended, head=self._head, tail=self._tail, spool=self.spool if spooled else None)

    async def _end(self, launcher: WardenClient) -> None:
        """Stop it and wait until nothing of it is left."""
        if self._socket is None or self._ended is not None:
            return
        if not self._asked:
            return  # it starts nothing of half a request, and ends when the socket does
        self.stop()
        with anyio.move_on_after(self.limits.grace_s + GONE_WITHIN_S + ANSWER_WITHIN_S):
            await self._until_ended(launcher)
        if self._ended is None:
            await self._sweep("lost")

    async def _sweep(self, reason: str) -> None:
        work = functools.partial(kill_leftovers, self.id, self.pid, self.group)
        try:
            await anyio.to_thread.run_sync(work)
        except RuntimeError:
            work()  # no thread can be started: the user has as many processes as are allowed
        self._ended = make_interrupted(reason, self.spool, bytes(self._streamed), self.limits.bound_bytes)

    def _outcome(self) -> Ended:
        assert self._ended is not None
        if self._ended.spool is None:
            self.spool.unlink(missing_ok=True)
        return self._ended

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def absolute_path(path: Path) -> Path:
    """The path from the root; raises `ToolError` where it starts in a directory that was removed."""
    try:
        return path.absolute()
    except FileNotFoundError:
        raise ToolError("The directory that jaato was started in is gone; give it a workspace.") from None


def find_shell() -> str:
    """The shell that commands are written for: bash, or sh where there is none."""
    return next((shell for shell in ("/bin/bash", "/usr/bin/bash") if os.access(shell, os.X_OK)), "/bin/sh")


def signal_name(number: int) -> str:
    """SIGKILL for 9, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
