"""Runs beside the kernel: connects it by Jupyter's protocol, and jaato by bounded JSON frames.

A program for the kernel's Python, 3.9 or newer, with ipykernel and jupyter_client; nothing of jaato is imported here.
"""

from __future__ import annotations

import os
import sys

HERE = sys.path[0]
if __name__ == "__main__":
    del sys.path[0]  # the folder of this file, whose modules are not to be imported

import ast  # noqa: E402
import asyncio  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

START_S = 60.0
IDLE_S = 2.0
INTERRUPT_S = 3.0
SHOW_EVERY_S = 0.1
HEAD_CHARS = 100_000
TAIL_CHARS = 100_000
SHOWN_CHARS = 16_000
LINE_CHARS = 20_000
MOST_LINES = 200
MOST_DISPLAYS = 40
MOST_BYTES = 20_000_000
COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
FLAGS = (
    "--HistoryManager.enabled=False",
    "--InteractiveShellApp.ignore_cwd=True",
    "--InteractiveShell.colors=NoColor",
    "--IPKernelApp.trio_loop=False",
)


class KernelLost(Exception):
    """The kernel has ended or broke its protocol."""


def send_frame(**message: Any) -> None:
    """Send one frame to jaato."""
    body = json.dumps(message, default=str).encode("utf-8", "replace")
    data = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    while data:
        data = data[os.write(1, data) :]


class KernelProcess:
    """One kernel process and its client."""

    def __init__(self) -> None:
        from jupyter_client.asynchronous.client import AsyncKernelClient
        from jupyter_client.connect import write_connection_file

        self.place = Path(tempfile.mkdtemp(prefix="jaato-kernel-"))
        file = str(self.place / "connection.json")
        write_connection_file(
            file, transport="ipc", ip=str(self.place / "s"), key=os.urandom(32).hex().encode()
        )
        environment = dict(os.environ)  # noqa: TID251 a program of its own
        environment |= {"IPYTHONDIR": str(self.place), "JPY_PARENT_PID": str(os.getpid())}
        environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(HERE) / "kernel_startup.py"), "-f", file, *FLAGS],
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=environment,
            start_new_session=True,
        )
        self.client: Any = AsyncKernelClient(connection_file=file)

    async def wait_until_ready(self) -> None:
        """Wait until it answers, then remove its connection files. Raises `KernelLost`."""
        self.client.load_connection_file()
        self.client.start_channels(stdin=False, hb=False)
        asked = [self.client.kernel_info(), 0]
        control = self.client.session.msg("kernel_info_request")
        self.client.control_channel.send(control)
        until = time.monotonic() + START_S
        ready_channels: set[str] = set()
        while ready_channels != {"shell", "iopub", "control"}:
            if time.monotonic() > until or self.process.poll() is not None:
                raise KernelLost("the kernel did not start")
            for name in ("shell", "iopub", "control"):
                channel = getattr(self.client, f"{name}_channel")
                if await channel.socket.poll(50):
                    await channel.get_msg()
                    ready_channels.add(name)
            if "iopub" not in ready_channels and "shell" in ready_channels and asked[1] < 20:
                asked[1] += 1  # what it published before the subscription is lost: ask for it again
                self.client.kernel_info()
        shutil.rmtree(self.place, ignore_errors=True)

    def interrupt(self) -> None:
        """Send SIGINT to its process group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)

    def check(self) -> None:
        """Raise `KernelLost` when it has ended."""
        if (code := self.process.poll()) is not None:
            raise KernelLost(
                f"it ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
            )

    def close(self) -> None:
        """Kill it and remove its files."""
        if self.process.poll() is None:
            self.process.kill()
        shutil.rmtree(self.place, ignore_errors=True)


def bound_text(text: Any, most: int = LINE_CHARS) -> str:
    """A text without colours, cut with a note of how much is missing."""
    plain = COLOUR.sub("", str(text))
    return plain if len(plain) <= most else f"{plain[:most]}\n[… {len(plain) - most:,} characters left out …]"


class CellOutputs:
    """The outputs of a cell: streams, values, displays and an error, in order. Of long text the head and the tail stay."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.omitted = 0
        self._head = 0
        self._tail = ""
        self._tail_name = "stdout"
        self._displays = self._bytes = 0
        self._clear = False

    def add(self, kind: str, content: dict[str, Any]) -> str:
        """Add one message of the kernel; gives the text for the live output."""
        if self._clear and kind != "clear_output":
            self._clear_outputs()
        if kind == "stream":
            text = COLOUR.sub("", str(content.get("text", "")))
            self._add_stream(str(content.get("name", "stdout")), text)
            return text
        if kind == "error":
            lines = [bound_text(line) for line in content.get("traceback", [])[:MOST_LINES]]
            name, value = bound_text(content.get("ename")), bound_text(content.get("evalue"))
            self.outputs.append({"output_type": "error", "ename": name, "evalue": value, "traceback": lines})
        elif kind in ("execute_result", "display_data"):
            return self._add_display(kind, content)
        elif kind == "update_display_data":
            identity = (content.get("transient") or {}).get("display_id")
            for output in self.outputs:
                if identity is not None and output.get("_id") == identity:
                    output["data"] = self._bound_data(content.get("data"))
        elif kind == "clear_output":
            self._clear = True
            if not content.get("wait"):
                self._clear_outputs()
        return ""

    def finish(self) -> list[dict[str, Any]]:
        """All outputs, with the tail of the text."""
        if self._tail or self.omitted:
            note = f"\n[… {self.omitted:,} characters left out …]\n" if self.omitted else ""
            at = next(
                (i for i, o in enumerate(self.outputs) if o["output_type"] == "error"), len(self.outputs)
            )
            self.outputs.insert(
                at, {"output_type": "stream", "name": self._tail_name, "text": note + self._tail}
            )
        for output in self.outputs:
            output.pop("_id", None)
        return self.outputs

    def _clear_outputs(self) -> None:
        kept = {name: getattr(self, name) for name in ("_displays", "_bytes")}
        self.__init__()  # type: ignore[misc]  # as new, but for what bounds the whole cell
        self._displays, self._bytes = kept["_displays"], kept["_bytes"]

    def _add_stream(self, name: str, text: str) -> None:
        room = HEAD_CHARS - self._head
        if room > 0:
            piece, text = text[:room], text[room:]
            self._head += len(piece)
            last = self.outputs[-1] if self.outputs else {}
            if last.get("output_type") == "stream" and last["name"] == name:
                last["text"] += piece
            else:
                self.outputs.append({"output_type": "stream", "name": name, "text": piece})
        if text:
            self._tail += text
            self._tail_name = name
            surplus = len(self._tail) - TAIL_CHARS
            if surplus > 0:
                self.omitted += surplus
                self._tail = self._tail[surplus:]

    def _add_display(self, kind: str, content: dict[str, Any]) -> str:
        self._displays += 1
        data = self._bound_data(content.get("data"))
        if self._displays > MOST_DISPLAYS:
            return ""
        made: dict[str, Any] = {"output_type": kind, "data": data, "metadata": {}}
        if kind == "execute_result":
            made["execution_count"] = content.get("execution_count")
        identity = (content.get("transient") or {}).get("display_id")
        if identity is not None:
            made["_id"] = identity
        self.outputs.append(made)
        return str(data.get("text/plain", "")) + "\n"

    def _bound_data(self, data: Any) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for kind, value in list(data.items())[:20] if isinstance(data, dict) else []:
            if not isinstance(value, str):
                continue
            text = COLOUR.sub("", value) if kind.startswith("text/") else value
            text = bound_text(text, HEAD_CHARS) if kind == "text/plain" else text
            self._bytes += len(text)
            if self._bytes > MOST_BYTES:
                kept["text/plain"] = kept.get("text/plain", "") + f"[{kind} left out: too much in one cell]"
                continue
            kept[kind] = text
        return kept


class LiveOutput:
    """Output that is sent while the cell runs: a bounded amount per flush, the rest is counted."""

    def __init__(self, send: Callable[..., None]) -> None:
        self._send = send
        self._parts: list[str] = []
        self._chars = self._skipped = 0

    def add(self, text: str) -> None:
        """Add text."""
        piece = text[: SHOWN_CHARS - self._chars]
        if piece:
            self._parts.append(piece)
            self._chars += len(piece)
        self._skipped += len(text) - len(piece)

    def flush(self) -> None:
        """Send the pending text."""
        text = "".join(self._parts)
        if self._skipped:
            text += f"\n[… {self._skipped:,} characters not shown …]\n"
        self._parts, self._chars, self._skipped = [], 0, 0
        if text:
            self._send(event="output", text=text)


class KernelHost:
    """Runs jaato's requests in the kernel, one at a time, and sends the result of each."""

    def __init__(self, kernel: KernelProcess) -> None:
        self.kernel = kernel
        self.live_output = LiveOutput(send_frame)
        self.interrupted_at: float | None = None
        self.busy = False

    def interrupt(self) -> None:
        """Interrupt the running cell."""
        if self.busy:
            self.interrupted_at = time.monotonic()
            self.kernel.interrupt()

    async def run_request(self, request: dict[str, Any]) -> None:
        """Run one request and send its result. Raises `KernelLost`."""
        self.busy, self.interrupted_at = True, None
        try:
            if request["op"] == "variables":
                await self._list_variables(request)
            else:
                await self._execute(request)
        finally:
            self.busy = False

    async def _execute(self, request: dict[str, Any]) -> None:
        outputs = CellOutputs()
        sent = self.kernel.client.execute(request["code"], allow_stdin=False, stop_on_error=True)
        try:
            reply = await self._wait_for_reply(sent, outputs)
        except KernelLost as error:
            send_frame(event="lost", id=request["id"], why=str(error), outputs=outputs.finish())
            raise
        self.live_output.flush()
        send_frame(
            event="done",
            id=request["id"],
            status=reply.get("status", "unknown"),
            count=reply.get("execution_count"),
            outputs=outputs.finish(),
            omitted=outputs.omitted,
        )

    async def _list_variables(self, request: dict[str, Any]) -> None:
        asked = "__import__('sys').modules['_jaato_kernel'].list_variables({offset:d},{limit:d},{within_s!r})"
        sent = self.kernel.client.execute(
            "", silent=True, user_expressions={"v": asked.format(**request)}, allow_stdin=False
        )
        try:
            reply = await self._wait_for_reply(sent, CellOutputs())
        except KernelLost as error:
            send_frame(event="lost", id=request["id"], why=str(error), outputs=[])
            raise
        answer = (reply.get("user_expressions") or {}).get("v") or {}
        try:
            found = json.loads(ast.literal_eval(answer["data"]["text/plain"]))
            send_frame(event="done", id=request["id"], status="ok", found=found)
        except (KeyError, TypeError, ValueError, SyntaxError):
            why = str(answer.get("evalue") or answer.get("ename") or "it gave no list")[:500]
            send_frame(event="done", id=request["id"], status="error", why=why)

    async def _wait_for_reply(self, sent: str, outputs: CellOutputs) -> dict[str, Any]:
        """Wait until the kernel has replied and is idle; gives its reply."""
        reply: dict[str, Any] | None = None
        replied_at, idle, shown_at = 0.0, False, time.monotonic()
        again_at = 0.0
        while True:
            idle = await self._read_iopub(sent, outputs) or idle
            now = time.monotonic()
            if reply is None and await self.kernel.client.shell_channel.socket.poll(0):
                message = await self.kernel.client.shell_channel.get_msg()
                if message["parent_header"].get("msg_id") == sent:
                    reply, replied_at = message["content"], now
            if reply is not None and (idle or now - replied_at > IDLE_S):
                return reply
            if now - shown_at > SHOW_EVERY_S:
                shown_at = now
                self.live_output.flush()
            self.kernel.check()
            if self.interrupted_at is not None:
                waited = now - self.interrupted_at
                if waited > 2 * INTERRUPT_S:
                    self.kernel.close()
                    raise KernelLost("it did not heed the interrupt, so it was ended")
                if waited > INTERRUPT_S and not again_at:
                    again_at = now
                    self.kernel.interrupt()

    async def _read_iopub(self, sent: str, outputs: CellOutputs) -> bool:
        """Read one message, if one comes soon; returns whether the kernel is idle."""
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
            self.live_output.add(outputs.add(kind, content))
        return False


async def read_requests(reader: asyncio.StreamReader) -> Any:
    """Yield jaato's requests until it closes the pipe."""
    while head := await reader.readline():
        await reader.readline()
        yield json.loads(await reader.readexactly(int(head.split(b":")[1])))


async def main() -> None:
    """Serve until jaato closes the pipe or the kernel has ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that cleanup runs
    try:
        kernel = KernelProcess()
    except ImportError as error:
        return send_frame(event="missing", name=str(error.name or error))
    try:
        await kernel.wait_until_ready()
        send_frame(event="ready")
        host = KernelHost(kernel)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb")
        )
        queue: asyncio.Queue[Any] = asyncio.Queue()

        async def listen() -> None:
            async for request in read_requests(reader):
                if request["op"] == "interrupt":
                    host.interrupt()
                else:
                    queue.put_nowait(request)
            queue.put_nowait(None)

        await serve(host, queue, asyncio.ensure_future(listen()))
    except KernelLost as error:
        send_frame(event="over", why=str(error))
    finally:
        kernel.close()


async def serve(host: KernelHost, queue: asyncio.Queue[Any], listening: asyncio.Future[None]) -> None:
    """Run requests in order; between them, check that the kernel is alive."""
    while True:
        try:
            request = await asyncio.wait_for(queue.get(), 1.0)
        except (TimeoutError, asyncio.TimeoutError):  # noqa: UP041 two kinds before 3.11
            host.kernel.check()
            continue
        if request is None or listening.done():
            return
        await host.run_request(request)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # readers of the closed pipes may still wait; all cleanup is done
