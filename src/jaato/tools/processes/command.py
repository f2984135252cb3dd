"""One command from jaato's side: hand it over, show its output, stop it, and hear how it ended."""

from __future__ import annotations

import functools
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from jaato.errors import ToolError
from jaato.tools.processes.ended import Ended, interrupted
from jaato.tools.processes.launch import Launcher, spool_directory
from jaato.tools.processes.sweep import MARK, sweep
from jaato.tools.processes.text import Shown
from jaato.tools.processes.warden import wire
from jaato.tools.processes.warden.output import SPOOL_PREFIX
from jaato.tools.processes.warden.roundup import MOST_TIMES
from jaato.tools.processes.warden.supervise import KILL_WITHIN_S

ANSWER_WITHIN_S = 20.0
NUDGE_EVERY_S = 2.0
GONE_WITHIN_S = KILL_WITHIN_S * MOST_TIMES


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a command may print and start, and how long it has to end when told to."""

    bound_bytes: int = 16_384
    cap_bytes: int = 1 << 30
    grace_s: float = 0.5
    settle_s: float = 0.1
    max_processes: int = 2000


class Command:
    """A command that runs; make one per run.

    `streams` are descriptors it is to have as its input and output, or one terminal: what it prints elsewhere (its
    errors, where it has no terminal) is shown, whatever the length of it, and only its ends are kept.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        *,
        limits: Limits,
        timeout_s: float | None = None,
        show: Callable[[str], None],
        streams: Sequence[int] = (),
    ) -> None:
        self.streams = streams
        self.id = secrets.token_hex(16)
        self.limits = limits
        self.timeout_s = timeout_s
        self.spool = spool_directory() / f"{SPOOL_PREFIX}{self.id}"
        self.request = {
            "id": self.id,
            "argv": [argument.encode("utf-8", "surrogateescape") for argument in argv],
            "cwd": os.fsencode(absolute(cwd)),
            "env": {os.fsencode(k): os.fsencode(v) for k, v in {**environment, MARK: self.id}.items()},
            "timeout_s": timeout_s,
            "bound_bytes": limits.bound_bytes,
            "cap_bytes": limits.cap_bytes,
            "grace_s": limits.grace_s,
            "settle_s": limits.settle_s,
            "max_processes": limits.max_processes,
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "spool": "" if streams else str(self.spool),
        }
        self.pid = 0
        self.group = ""
        self._shown = Shown(show)
        self._ended: Ended | None = None
        self._head = self._tail = b""
        self._streamed = bytearray()
        self._socket: socket.socket | None = None
        self.asking = False
        self._asked = self._stopping = False

    async def run(self, launcher: Launcher) -> Ended:
        """Run it to its end. Cancelled, it kills all that was started before the cancellation goes on.

        Raises `ToolError` when the command cannot be started.
        """
        await self._open(launcher)
        try:
            self.asking = not self._stopping
            if not self.asking:
                return Ended(reason="stopped")
            await self._send(wire.value_frame(wire.REQUEST, self.request))
            self._asked = True
            if self._stopping:
                self.stop()
            heard = await self._until_ended(launcher, self._silent_at())
            if self._ended is None:
                await self._sweep("lost" if heard else "silent")
            return self._outcome()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._end(launcher)
            self.spool.unlink(missing_ok=True)
            raise
        finally:
            self._close()

    def stop(self) -> None:
        """Ask for the end of it; from any thread, any number of times."""
        self._stopping = True
        if self._asked and self._socket is not None:
            try:
                self._socket.send(wire.frame(wire.STOP))
            except OSError:
                pass  # it has ended already

    async def _open(self, launcher: Launcher) -> None:
        """A supervisor that has said it is there. Nothing has been asked of it, so another may be tried."""
        for _ in range(2):
            try:
                self._socket = launcher.supervisor(self.streams)
            except OSError as error:
                raise ToolError(f"Commands cannot be run here: {error}") from None
            self._frames = wire.Frames()
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

    async def _is_ready(self, launcher: Launcher) -> bool:
        """Whether the supervisor says that it is there; a warden that a command has stopped is woken."""
        last = time.monotonic() + ANSWER_WITHIN_S
        while time.monotonic() < last:
            with anyio.move_on_after(NUDGE_EVERY_S) as waited:
                return await self._receive() and self._ended is None
            if waited.cancelled_caught:
                launcher.nudge()
        return False

    def _silent_at(self) -> float:
        """When the supervisor must have had its last word (`time.monotonic()`); never without a timeout."""
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
                return  # the supervisor was killed; the warden's word or the end of the stream says so

    async def _until_ended(self, launcher: Launcher, last: float = math.inf) -> bool:
        """Until its last word or the end of the stream; False when neither came until `last`.

        A warden that was stopped meanwhile is woken.
        """
        going = True
        while going and self._ended is None:
            if time.monotonic() > last:
                return False
            with anyio.move_on_after(NUDGE_EVERY_S) as waited:
                going = await self._receive()
            if waited.cancelled_caught:
                launcher.nudge()
        return True

    async def _receive(self) -> bool:
        """Take what has come; False when nothing more will."""
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
            case wire.OUTPUT:
                self._streamed = (self._streamed + payload)[-self.limits.bound_bytes :]
                self._shown.take(payload)
            case wire.SKIPPED:
                self._shown.skip(int(payload))
            case wire.READY:
                self.group = payload.decode()
            case wire.STARTED:
                self.pid = wire.value_of(payload)["pid"]
            case wire.HEAD:
                self._head = payload
            case wire.TAIL:
                self._tail = payload
            case wire.ENDED:
                self._ended = self._understood(wire.value_of(payload))
                self._shown.end()
            case wire.LOST:
                self._ended = interrupted("lost", self.spool, bytes(self._streamed), self.limits.bound_bytes)

    def _understood(self, ended: dict[str, Any]) -> Ended:
        if "failure" in ended:
            return Ended(reason="failure", stuck=[ended["failure"]["doing"], ended["failure"]["error"]])
        spooled = ended.pop("spooled")
        return Ended(**ended, head=self._head, tail=self._tail, spool=self.spool if spooled else None)

    async def _end(self, launcher: Launcher) -> None:
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
        work = functools.partial(sweep, self.id, self.pid, self.group)
        try:
            await anyio.to_thread.run_sync(work)
        except RuntimeError:
            work()  # no thread can be started: the user has as many processes as are allowed
        self._ended = interrupted(reason, self.spool, bytes(self._streamed), self.limits.bound_bytes)

    def _outcome(self) -> Ended:
        assert self._ended is not None
        if self._ended.spool is None:
            self.spool.unlink(missing_ok=True)
        return self._ended

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def absolute(path: Path) -> Path:
    """The path from the root; raises `ToolError` where it starts in a directory that was removed."""
    try:
        return path.absolute()
    except FileNotFoundError:
        raise ToolError("The directory that jaato was started in is gone; give it a workspace.") from None


def shell_of() -> str:
    """The shell that commands are written for: bash, or sh where there is none."""
    return next((shell for shell in ("/bin/bash", "/usr/bin/bash") if os.access(shell, os.X_OK)), "/bin/sh")
