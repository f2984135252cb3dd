"""A model server that streams: every request gets so many words, at so many a second, on as many connections as come."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

WORD = "word "
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One event of a streamed completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    made = {
        "id": "c-1",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "m",
        "choices": [choice],
    }
    return b"data: " + json.dumps(made).encode() + b"\n\n"


async def speak(writer: asyncio.StreamWriter, words: int, each_s: float) -> None:
    """The words of one reply, each in its time."""
    loop = asyncio.get_running_loop()
    writer.write(HEAD + chunk({"role": "assistant", "content": ""}))
    piece = chunk({"content": WORD})
    due = loop.time()
    for _ in range(words):
        writer.write(piece)
        due += each_s
        if each_s and (wait := due - loop.time()) > 0:
            await asyncio.sleep(wait)
        await writer.drain()
    writer.write(chunk({}, "stop") + b"data: [DONE]\n\n")
    await writer.drain()


async def main(words: int, each_s: float) -> None:
    """Answer every request until killed."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0] or 0)
            await reader.readexactly(length)
            await speak(writer, words, each_s)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, limit=1 << 22)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def speaking(words: int, a_second: float) -> Iterator[str]:
    """The URL of such a server in a process of its own; `a_second` 0 means as fast as it is read."""
    each_s = 1 / a_second if a_second else 0.0
    command = [sys.executable, "-m", "bench.model", str(words), str(each_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
