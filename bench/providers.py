"""What a request and a streamed chunk cost over HTTP, as CPU of the client alone."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from bench.row import Row

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.http import HttpProvider
from jaato.providers.profiles import make_provider

MESSAGES = 2_000
TOOLS = 20
ROUNDS = 7
AGAINST = "a loopback server in another process"


def main(listener: socket.socket) -> None:
    """Answer every request with as many chunks as its model's name asks for: `NUMBER` or `NUMBER-paced`."""
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            attend(connection)


def attend(connection: socket.socket) -> None:
    """Serve one connection until it closes."""
    held = b""
    while True:
        while b"\r\n\r\n" not in held:
            data = connection.recv(1 << 20)
            if not data:
                return
            held += data
        header, _, held = held.partition(b"\r\n\r\n")
        length = int(header.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        while len(held) < length:
            held += connection.recv(1 << 20)
        body, held = held[:length], held[length:]
        count, _, paced = body.partition(b'"model":"')[2].partition(b'"')[0].partition(b"-")
        send(connection, int(count), bool(paced))


def send(connection: socket.socket, count: int, paced: bool) -> None:
    """Stream an answer of this many chunks, each its own HTTP chunk, all at once or each by itself."""
    event = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"m",'
        b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
    )
    last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    piece = b"%x\r\n%b\r\n" % (len(event), event)
    connection.sendall(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    if paced:
        for _ in range(count):
            connection.sendall(piece)
            time.sleep(0.0005)
    else:
        connection.sendall(piece * count)
    connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))


@contextmanager
def server() -> Iterator[str]:
    """The base URL of a server in another process, which ends with the block."""
    process = subprocess.Popen([sys.executable, "-m", "bench.providers"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def conversation(count: int) -> list[Message]:
    """Messages as work with tools makes them: a question, a call, its result, an answer."""
    found: list[Message] = []
    for number in range(count // 4):
        call_id = f"c{number:026d}"
        call = ToolCall(call_id, "readFile", {"path": f"src/file_{number}.py", "offset": number})
        result = ToolResult(call_id, "readFile", True, [Text("def work():\n    return 42\n" * 4)])
        found += [
            Message("user", [Text(f"What does file number {number} do, and why?")]),
            Message("assistant", [Text("I shall look."), call], provider="openai"),
            Message("tool", [result]),
            Message(
                "assistant", [Text("It returns forty-two, as its callers expect. " * 3)], provider="openai"
            ),
        ]
    return found


def tools(count: int) -> list[ToolSpec]:
    """Tools of usual size."""
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": "What it says."} for name in ("path", "text", "mode")
        },
        "required": ["path"],
    }
    return [
        ToolSpec(f"tool_{n}", "Does one thing well. Use it when that thing is wanted.", parameters)
        for n in range(count)
    ]


async def cost(provider: HttpProvider, request: ModelRequest) -> tuple[float, int]:
    """CPU seconds of one whole call, and the chunks it brought."""
    started = time.process_time()
    count = 0
    async for _ in provider.stream(request):
        count += 1
    return time.process_time() - started, count


async def measure(base_url: str) -> list[Row]:
    """Every row, each the best of several."""
    provider = make_provider("openai", environ={}, base_url=base_url)
    encoded: dict[Any, Any] = {}
    messages = conversation(MESSAGES)
    specs = tools(TOOLS)
    request = ModelRequest("1", messages, "You work with tools.", specs, encoded=encoded)
    first, _ = await cost(provider, request)
    best = 1.0
    for number in range(ROUNDS):
        messages = [*messages, Message("user", [Text(f"and then? {number}")])]
        spent, _ = await cost(
            provider, ModelRequest("1", messages, "You work with tools.", specs, encoded=encoded)
        )
        best = min(best, spent)
    rows = [
        Row(f"request of {MESSAGES} messages over HTTP", best * 1e3, "ms", 3.0, AGAINST),
        Row(f"the same, nothing encoded before ({len(messages)} messages)", first * 1e3, "ms", None, AGAINST),
    ]
    question = [Message("user", [Text("Go on.")])]
    for count in (5_000, 50_000):
        spent = min([(await cost(provider, ModelRequest(str(count), question)))[0] for _ in range(3)])
        rows.append(
            Row(f"streamed chunk over HTTP, {count} chunks", spent / count * 1e6, "µs", 30.0, AGAINST)
        )
    spent = min([(await cost(provider, ModelRequest("1000-paced", question)))[0] for _ in range(3)])
    rows.append(
        Row("streamed chunk over HTTP, each arriving by itself", spent / 1_000 * 1e6, "µs", None, AGAINST)
    )
    await provider.aclose()
    return rows


def rows() -> list[Row]:
    """The figures of the transport and the chat dialect."""
    with server() as base_url:
        return anyio.run(measure, base_url)


if __name__ == "__main__":
    main(socket.create_server(("127.0.0.1", 0)))
