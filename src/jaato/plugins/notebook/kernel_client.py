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
INTERRUPT_S = 20.0
LIMITS = CommandLimits(grace_s=1.0)


class KernelFailed(ToolError):
    """The kernel could not be started, or ended."""

    code = "kernel_failed"


class KernelClient:
    """One kernel process at most, on the loop that its methods are awaited on; one request at a time."""

    def __init__(
        self, launcher: WardenClient, python: str, cwd: Path, environment: Callable[[], Mapping[str, str]]
    ) -> None:
        self._launcher = launcher
        self._python = python
        self._cwd = cwd
        self._environment = environment
        self._process: FramedProcess | None = None
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._show: Callable[[str], None] | None = None
        self._ids = 0
        self._why = ""
        self.access: SandboxAccess | None = None
        """The access of the running or last kernel."""

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and not self._process.over.is_set()

    @property
    def lost(self) -> str:
        """Why the last kernel ended by itself between two cells; empty otherwise."""
        if self._process is None or self.is_alive:
            return ""
        return self._why or self._process.why.rstrip(".")

    async def start(self, sandbox: Sandbox, call: Call) -> None:
        """Start the kernel unless it runs; it gets the access of the call. Raises `KernelFailed`."""
        if self.is_alive:
            return
        confinement = await sandbox.confine(call.access, self._cwd, call.session_id, self._launcher)
        self.access = call.access
        self._why = ""
        self._messages = asyncio.Queue()
        self._process = FramedProcess(
            [self._python, "-X", "utf8", str(KERNEL_HOST)],
            self._cwd,
            self._environment(),
            take=self._handle_message,
            most_bytes=ANSWER_BYTES,
            limits=LIMITS,
            confinement=confinement,
        )
        self._process.begin(self._launcher)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    if (message := await self._next_message()).get("event") == "ready":
                        return
                    if message.get("event") == "missing":
                        raise KernelFailed(
                            f"Notebooks need {message.get('name')}, which {self._python} does not have. "
                            "Install it there: pip install 'jaato[notebook]', or pip install ipykernel."
                        )
                    raise KernelFailed(f"The kernel could not be started: {message.get('why')}.")
            raise KernelFailed(
                f"The kernel did not start within {START_S:g} s. {self._process.errors[-800:]}"
            )
        except BaseException:
            await self.close()
            raise

    async def request(
        self, request: dict[str, Any], timeout_s: float, show: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its reply. A cell that times out or is cancelled is interrupted; the reply then has
        `timed_out`.

        Raises `KernelFailed` when the kernel ended without an answer.
        """
        assert self._process is not None
        self._ids += 1
        self._show = show
        timed_out = False
        self._process.send({**request, "id": self._ids})
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._wait_for_reply(self._ids)
            except TimeoutError:
                timed_out = True
                answer = await self._interrupt(self._ids)
                return {**answer, "timed_out": True}
            except asyncio.CancelledError:
                if not timed_out:
                    await self._interrupt(self._ids)
                raise
        except ProcessEnded as error:
            await self.close()
            raise KernelFailed(str(error)) from None
        finally:
            self._show = None

    async def close(self) -> None:
        """End the process with its children, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            await process.close()

    async def _interrupt(self, id_: int) -> dict[str, Any]:
        """Interrupt the cell and wait for its end; a kernel that does not answer is ended."""
        try:
            if self._process is not None:
                self._process.send({"op": "interrupt"})
            async with asyncio.timeout(INTERRUPT_S):
                return await self._wait_for_reply(id_)
        except (TimeoutError, ProcessEnded):
            await self.close()
            return {"event": "lost", "why": "it did not answer, so it was ended", "outputs": []}

    async def _wait_for_reply(self, id_: int) -> dict[str, Any]:
        while True:
            message = await self._next_message()
            if message.get("id") != id_:
                if message.get("event") == "over":
                    raise ProcessEnded(f"The kernel ended: {message.get('why')}.")
                continue
            if message.get("event") == "lost":
                await self.close()
            return message

    async def _next_message(self) -> dict[str, Any]:
        """The next message. Raises `ProcessEnded` when the kernel has ended."""
        process = self._process
        if process is None:
            raise ProcessEnded("The kernel was ended, by a reset or with its session.")
        waiting = asyncio.ensure_future(self._messages.get())
        over = asyncio.ensure_future(process.over.wait())
        try:
            await asyncio.wait([waiting, over], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if not self._messages.empty():
                return self._messages.get_nowait()
            raise ProcessEnded(
                f"The kernel ended: {process.why}"
                if self._process
                else "The kernel was ended, by a reset or with its session."
            )
        finally:
            waiting.cancel()
            over.cancel()

    def _handle_message(self, message: dict[str, Any]) -> None:
        if message.get("event") == "output":
            if self._show is not None:
                self._show(str(message.get("text", "")))
        elif self._messages.qsize() < 1000:
            if message.get("event") == "over":
                self._why = str(message.get("why"))
            self._messages.put_nowait(message)
