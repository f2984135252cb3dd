"""What it costs to start: importing jaato, its help, and one whole run against a model server in another process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.row import Row

ROUNDS = 15
RUNS = 7
PASS = "python -c pass"
AGAINST = "a loopback chat-completions server in another process"
ANSWER = [
    {"role": "assistant", "content": "All "},
    {"content": "is well."},
]


def main(listener: socket.socket) -> None:
    """Answer every request with a short streamed completion."""
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            held = b""
            while data := connection.recv(1 << 16):
                held += data
                header, _, body = held.partition(b"\r\n\r\n")
                length = header.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0]
                if length and len(body) >= int(length):
                    connection.sendall(reply())
                    held = b""


def reply() -> bytes:
    """One streamed completion, whole."""
    shared = {"id": "c-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "m"}
    chunks = [
        {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in ANSWER
    ]
    usage = {"prompt_tokens": 1100, "completion_tokens": 4, "total_tokens": 1104}
    last = {**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, last]) + "data: [DONE]\n\n"
    body = events.encode()
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )


@contextmanager
def server() -> Iterator[str]:
    """The server's URL while it runs, in a process of its own."""
    command = [sys.executable, "-m", "bench.startup"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()


MEASURE = """
import json, os, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, stdin=subprocess.DEVNULL, check=False)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Runs a command from a small process: one forked off a large one would begin with its memory."""


def cpu_s(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> tuple[float, float]:
    """CPU seconds and peak resident megabytes of one process and what it starts; raises when it fails."""
    measured = subprocess.run(
        [sys.executable, "-I", "-S", "-c", MEASURE, *command],
        env=dict(environ),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    code, seconds, megabytes = json.loads(measured.stdout)
    if code:
        raise RuntimeError(f"{command} ended with {code}")
    return seconds, megabytes


def environ_for(home: Path, url: str) -> dict[str, str]:
    """The environment of a `jaato` that has this home and asks the model server at this address."""
    return {
        "HOME": str(home),
        "PATH": os.defpath,
        "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "none",
    }


def rows() -> list[Row]:
    """The figures of a start."""
    with tempfile.TemporaryDirectory() as folder, server() as url:
        home = Path(folder)
        environ = environ_for(home, url)

        def best(*arguments: str, rounds: int = ROUNDS) -> tuple[float, float]:
            cpu_s([sys.executable, *arguments], environ, home)  # leaves the compiled modules behind
            measured = [cpu_s([sys.executable, *arguments], environ, home) for _ in range(rounds)]
            return min(seconds for seconds, _ in measured), max(megabytes for _, megabytes in measured)

        nothing, _ = best("-c", "pass")
        imported, _ = best("-c", "import jaato")
        helped, _ = best("-m", "jaato", "--help")
        run = ("-m", "jaato", "run", "--model", "m", "say hi")
        ran, megabytes = best(*run, rounds=RUNS)
    return [
        Row("import jaato", imported / nothing, "times", 2.0, PASS),
        Row("jaato --help", helped / nothing, "times", 6.0, PASS),
        Row("one jaato run, CPU", ran, "s", 0.40, AGAINST),
        Row("one jaato run, peak memory", megabytes, "MB", 80.0, AGAINST),
    ]


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as waiting:
        main(waiting)
