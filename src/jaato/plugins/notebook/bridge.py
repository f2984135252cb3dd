"""Runs beside the kernel: starts it, speaks Jupyter's protocol with it, and bounded JSON frames with jaato.

A program for the kernel's Python, 3.9 or newer, with ipykernel and jupyter_client; nothing of jaato is imported here.
"""

from __future__ import annotations

import os
import sys

HERE = sys.path[0]
if __name__ == "__main__":
    del sys.path[0]  # the folder of this file, but for the one module that belongs to it

import ast  # noqa: E402
import asyncio  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

START_S = 60.0
IDLE_S = 2.0
HEED_S = 3.0
SHOW_EVERY_S = 0.1
MESSAGE_BYTES = 64 << 20
FLAGS = (
    "--HistoryManager.enabled=False",
    "--InteractiveShellApp.ignore_cwd=True",
    "--InteractiveShell.colors=NoColor",
    "--IPKernelApp.trio_loop=False",
)


class Lost(Exception):
    """The kernel is gone, or no longer to be understood."""


def tell(**message: Any) -> None:
    """One frame to jaato."""
    body = json.dumps(message, default=str).encode("utf-8", "replace")
    data = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    while data:
        data = data[os.write(1, data) :]


class Kernel:
    """One kernel process and the client that speaks with it."""

    def __init__(self) -> None:
        from jupyter_client.asynchronous.client import AsyncKernelClient
        from jupyter_client.connect import write_connection_file
        from zmq.asyncio import Context

        self.place = Path(tempfile.mkdtemp(prefix="jaato-kernel-"))
        file = str(self.place / "connection.json")
        write_connection_file(
            file, transport="ipc", ip=str(self.place / "s"), key=os.urandom(32).hex().encode()
        )
        environment = dict(os.environ)  # noqa: TID251 a program of its own
        environment |= {"IPYTHONDIR": str(self.place), "JPY_PARENT_PID": str(os.getpid())}
        environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(HERE) / "kernel_side.py"), "-f", file, *FLAGS],
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=environment,
            start_new_session=True,
        )
        context = Context()
        context.MAXMSGSIZE = MESSAGE_BYTES
        self.client: Any = AsyncKernelClient(connection_file=file, context=context)
        self.lost = ""
        self._watching: list[Any] = []

    async def ready(self) -> None:
        """Wait until it answers; then nothing of it needs a file any more. Raises `Lost`."""
        self.client.load_connection_file()
        self.client.start_channels(stdin=False, hb=False)
        asked = [self.client.kernel_info(), 0]
        control = self.client.session.msg("kernel_info_request")
        self.client.control_channel.send(control)
        until = time.monotonic() + START_S
        heard: set[str] = set()
        while heard != {"shell", "iopub", "control"}:
            if time.monotonic() > until or self.process.poll() is not None:
                raise Lost("the kernel did not start")
            for name in ("shell", "iopub", "control"):
                channel = getattr(self.client, f"{name}_channel")
                if await channel.socket.poll(50):
                    await channel.get_msg()
                    heard.add(name)
            if "iopub" not in heard and "shell" in heard and asked[1] < 20:
                asked[1] += 1  # what it published before we listened is gone: let it publish again
                self.client.kernel_info()
        for name in ("shell", "iopub"):
            monitor = getattr(self.client, f"{name}_channel").socket.get_monitor_socket(0x0200)
            self._watching.append(asyncio.ensure_future(self._watch(monitor)))
        shutil.rmtree(self.place, ignore_errors=True)

    async def _watch(self, monitor: Any) -> None:
        await monitor.recv_multipart()
        self.lost = f"it sent a message above {MESSAGE_BYTES >> 20} MB, or closed its connection"

    def interrupt(self) -> None:
        """As Ctrl-C does it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)

    def check(self) -> None:
        """Raise `Lost` when it is gone."""
        until = time.monotonic() + (0.5 if self.lost else 0)  # one that ends closes its connection first
        while (code := self.process.poll()) is None and time.monotonic() < until:
            time.sleep(0.01)
        if code is not None:
            raise Lost(f"it ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}")
        if self.lost:
            raise Lost(self.lost)

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
        shutil.rmtree(self.place, ignore_errors=True)


class Bridge:
    """Takes orders from jaato, one cell at a time, and tells what came of each."""

    def __init__(self, kernel: Kernel, said: Any) -> None:
        self.kernel = kernel
        self.said = said
        self.shown = said.Shown(tell)
        self.interrupted_at: float | None = None
        self.busy = False

    def interrupt(self) -> None:
        """Stop the cell that runs."""
        if self.busy:
            self.interrupted_at = time.monotonic()
            self.kernel.interrupt()

    async def perform(self, order: dict[str, Any]) -> None:
        """One order, answered. Raises `Lost`."""
        self.busy, self.interrupted_at = True, None
        try:
            if order["op"] == "variables":
                await self._variables(order)
            else:
                await self._execute(order)
        finally:
            self.busy = False

    async def _execute(self, order: dict[str, Any]) -> None:
        said = self.said.Said()
        sent = self.kernel.client.execute(order["code"], allow_stdin=False, stop_on_error=True)
        try:
            reply = await self._until_done(sent, said)
        except Lost as error:
            tell(event="lost", id=order["id"], why=str(error), outputs=said.done())
            raise
        self.shown.flush()
        tell(
            event="done",
            id=order["id"],
            status=reply.get("status", "unknown"),
            count=reply.get("execution_count"),
            outputs=said.done(),
            omitted=said.omitted,
        )

    async def _variables(self, order: dict[str, Any]) -> None:
        asked = "__import__('sys').modules['_jaato_kernel'].variables({offset:d},{limit:d},{within_s!r})"
        sent = self.kernel.client.execute(
            "", silent=True, user_expressions={"v": asked.format(**order)}, allow_stdin=False
        )
        try:
            reply = await self._until_done(sent, self.said.Said())
        except Lost as error:
            tell(event="lost", id=order["id"], why=str(error), outputs=[])
            raise
        answer = (reply.get("user_expressions") or {}).get("v") or {}
        try:
            found = json.loads(ast.literal_eval(answer["data"]["text/plain"]))
            tell(event="done", id=order["id"], status="ok", found=found)
        except (KeyError, TypeError, ValueError, SyntaxError):
            why = str(answer.get("evalue") or answer.get("ename") or "it gave no list")[:500]
            tell(event="done", id=order["id"], status="error", why=why)

    async def _until_done(self, sent: str, said: Any) -> dict[str, Any]:
        """Until the kernel has answered and is idle; its reply."""
        reply: dict[str, Any] | None = None
        replied_at, idle, shown_at = 0.0, False, time.monotonic()
        again_at = 0.0
        while True:
            idle = await self._iopub(sent, said) or idle
            now = time.monotonic()
            if reply is None and await self.kernel.client.shell_channel.socket.poll(0):
                message = await self.kernel.client.shell_channel.get_msg()
                if message["parent_header"].get("msg_id") == sent:
                    reply, replied_at = message["content"], now
            if reply is not None and (idle or now - replied_at > IDLE_S):
                return reply
            if now - shown_at > SHOW_EVERY_S:
                shown_at = now
                self.shown.flush()
            self.kernel.check()
            if self.interrupted_at is not None:
                waited = now - self.interrupted_at
                if waited > 2 * HEED_S:
                    self.kernel.close()
                    raise Lost("it did not heed the interrupt, so it was ended")
                if waited > HEED_S and not again_at:
                    again_at = now
                    self.kernel.interrupt()

    async def _iopub(self, sent: str, said: Any) -> bool:
        """Take one message, if one comes soon; whether it says that the kernel is idle."""
        channel = self.kernel.client.iopub_channel
        if not await channel.socket.poll(50):
            return False
        try:
            message = await channel.get_msg()
            kind, content = message["msg_type"], message["content"]
            own = message["parent_header"].get("msg_id") == sent
        except (ValueError, KeyError, TypeError):
            return False  # not signed, or no message
        if kind == "status":
            return bool(own and content.get("execution_state") == "idle")
        if own or kind == "stream":
            self.shown.take(said.take(kind, content))
        return False


async def orders(reader: asyncio.StreamReader) -> Any:
    """What jaato sends, until it closes."""
    while head := await reader.readline():
        await reader.readline()
        yield json.loads(await reader.readexactly(int(head.split(b":")[1])))


async def main() -> None:
    """Serve until jaato closes the pipe or the kernel is gone."""
    spec: Any = importlib.util.spec_from_file_location("said", str(Path(HERE) / "said.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that what is half made is put away
    try:
        kernel = Kernel()
    except ImportError as error:
        return tell(event="missing", name=str(error.name or error))
    try:
        await kernel.ready()
        tell(event="ready")
        bridge = Bridge(kernel, module)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb")
        )
        queue: asyncio.Queue[Any] = asyncio.Queue()

        async def listen() -> None:
            async for order in orders(reader):
                if order["op"] == "interrupt":
                    bridge.interrupt()
                else:
                    queue.put_nowait(order)
            queue.put_nowait(None)

        await serve(bridge, queue, asyncio.ensure_future(listen()))
    except Lost as error:
        tell(event="over", why=str(error))
    finally:
        kernel.close()


async def serve(bridge: Bridge, queue: asyncio.Queue[Any], listening: asyncio.Future[None]) -> None:
    """One order after the other; between them, see that the kernel lives."""
    while True:
        try:
            order = await asyncio.wait_for(queue.get(), 1.0)
        except (TimeoutError, asyncio.TimeoutError):  # noqa: UP041 two kinds before 3.11
            bridge.kernel.check()
            continue
        if order is None or listening.done():
            return
        await bridge.perform(order)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # what reads the closed pipes may still wait; nothing is left to be put in order
