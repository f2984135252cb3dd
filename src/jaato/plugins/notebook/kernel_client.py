"""Client of a Jupyter kernel: starts it lazily, interrupts cells that take too long, ends it with the session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaato.errors import ToolError
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.processes.command import CommandLimits
from jaato.tools.processes.framed_process import FramedProcess, ProcessEnded
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import Sandbox

KERNEL_HOST = Path(__file__).with_name("kernel_host.py")
ANSWER_BYTES = 96 << 20
START_S = 75.0
HEED_S = 20.0
LIMITS = CommandLimits(grace_s=1.0)


class KernelFailed(ToolError):
    """The kernel could not be started, or ended."""

    code = "kernel_failed"


class KernelClient:
    """One kernel process at most, on the loop that its methods are awaited on; one order at a time."""

    def __init__(
        self, launcher: WardenClient, python: str, cwd: Path, environment: Callable[[], Mapping[str, str]]
    ) -> None:
        self._launcher = launcher
        self._python = python
        self._cwd = cwd
        self._environment = environment
        self._talk: FramedProcess | None = None
        self._news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._show: Callable[[str], None] | None = None
        self._ids = 0
        self._why = ""
        self.access: SandboxAccess | None = None
        """What the kernel that runs, or ran last, was started with."""

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self._talk is not None and not self._talk.over.is_set()

    @property
    def lost(self) -> str:
        """Why the last kernel is gone, when it ended by itself between two cells."""
        if self._talk is None or self.alive:
            return ""
        return self._why or self._talk.why.rstrip(".")

    async def start(self, sandbox: Sandbox, call: Call) -> None:
        """Have a kernel that answers; a new one may reach what the call may. Raises `KernelFailed`."""
        if self.alive:
            return
        confinement = await sandbox.confine(call.access, self._cwd, call.session_id, self._launcher)
        self.access = call.access
        self._why = ""
        self._news = asyncio.Queue()
        self._talk = FramedProcess(
            [self._python, "-X", "utf8", str(KERNEL_HOST)],
            self._cwd,
            self._environment(),
            take=self._take,
            most_bytes=ANSWER_BYTES,
            limits=LIMITS,
            confinement=confinement,
        )
        self._talk.begin(self._launcher)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    if (news := await self._next()).get("event") == "ready":
                        return
                    if news.get("event") == "missing":
                        raise KernelFailed(
                            f"Notebooks need {news.get('name')}, which {self._python} does not have. "
                            "Install it there: pip install 'jaato[notebook]', or pip install ipykernel."
                        )
                    raise KernelFailed(f"The kernel could not be started: {news.get('why')}.")
            raise KernelFailed(f"The kernel did not start within {START_S:g} s. {self._talk.errors[-800:]}")
        except BaseException:
            await self.close()
            raise

    async def ask(
        self, order: dict[str, Any], timeout_s: float, show: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """The answer to an order. A cell over its time, or cancelled, is interrupted; `timed_out` says so in the answer.

        Raises `KernelFailed` when the kernel ended without an answer.
        """
        assert self._talk is not None
        self._ids += 1
        self._show = show
        timed_out = False
        self._talk.send({**order, "id": self._ids})
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._answer(self._ids)
            except TimeoutError:
                timed_out = True
                answer = await self._interrupted(self._ids)
                return {**answer, "timed_out": True}
            except asyncio.CancelledError:
                if not timed_out:
                    await self._interrupted(self._ids)
                raise
        except ProcessEnded as error:
            await self.close()
            raise KernelFailed(str(error)) from None
        finally:
            self._show = None

    async def close(self) -> None:
        """End the process, if there is one; nothing of it is left."""
        talk, self._talk = self._talk, None
        if talk is not None:
            await talk.close()

    async def _interrupted(self, id_: int) -> dict[str, Any]:
        """Interrupt the cell and wait for its end; a kernel that does not answer even then is ended."""
        try:
            if self._talk is not None:
                self._talk.send({"op": "interrupt"})
            async with asyncio.timeout(HEED_S):
                return await self._answer(id_)
        except (TimeoutError, ProcessEnded):
            await self.close()
            return {"event": "lost", "why": "it did not answer, so it was ended", "outputs": []}

    async def _answer(self, id_: int) -> dict[str, Any]:
        while True:
            news = await self._next()
            if news.get("id") != id_:
                if news.get("event") == "over":
                    raise ProcessEnded(f"The kernel ended: {news.get('why')}.")
                continue
            if news.get("event") == "lost":
                await self.close()
            return news

    async def _next(self) -> dict[str, Any]:
        """The next news. Raises `ProcessEnded` when none will come."""
        talk = self._talk
        if talk is None:
            raise ProcessEnded("The kernel was ended, by a reset or with its session.")
        waiting = asyncio.ensure_future(self._news.get())
        over = asyncio.ensure_future(talk.over.wait())
        try:
            await asyncio.wait([waiting, over], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if not self._news.empty():
                return self._news.get_nowait()
            raise ProcessEnded(
                f"The kernel ended: {talk.why}"
                if self._talk
                else "The kernel was ended, by a reset or with its session."
            )
        finally:
            waiting.cancel()
            over.cancel()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("event") == "output":
            if self._show is not None:
                self._show(str(message.get("text", "")))
        elif self._news.qsize() < 1000:
            if message.get("event") == "over":
                self._why = str(message.get("why"))
            self._news.put_nowait(message)
