"""What it costs to start: importing jaato, its help, and one whole run against a model server in another process, beside
the same run of codex, a compiled program."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.row import Row

ROUNDS = 15
RUNS = 7
PAIRS = 11
PASS = "python -c pass"
AGAINST = "a loopback chat-completions server in another process"
ANSWER = [
    {"role": "assistant", "content": "All "},
    {"content": "is well."},
]
CODEX = """model = "m"
model_provider = "loopback"
[model_providers.loopback]
name = "loopback"
base_url = "{url}"
env_key = "OPENAI_API_KEY"
"""


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
                    connection.sendall(streamed(responses() if b"/responses " in header else completion()))
                    held = b""


def streamed(events: str) -> bytes:
    """A stream of events, whole."""
    body = events.encode()
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )


def responses() -> str:
    """The same answer in the interface of codex."""
    item: dict[str, Any] = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    item |= {"content": [{"type": "output_text", "text": "All is well.", "annotations": []}]}
    usage = {"input_tokens": 1100, "output_tokens": 4, "total_tokens": 1104}
    answered = {"id": "r1", "object": "response", "model": "m", "output": [item], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**answered, "output": [], "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**answered, "status": "completed"}},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def completion() -> str:
    """One streamed completion."""
    shared = {"id": "c-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "m"}
    chunks = [
        {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in ANSWER
    ]
    usage = {"prompt_tokens": 1100, "completion_tokens": 4, "total_tokens": 1104}
    last = {**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, last]) + "data: [DONE]\n\n"


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


def find_codex() -> str | None:
    """The program of `@openai/codex`, not the script of Node.js that starts it; None where it is not installed."""
    found = shutil.which("codex")
    if found is None:
        return None
    real = Path(found).resolve()
    packed = real.parents[2].glob("codex-*/vendor/*/bin/codex") if real.suffix == ".js" else [real]
    return str(next(iter(packed), "")) or None


def against_codex(home: Path, url: str, run: Sequence[str]) -> Row:
    """The CPU of one cold prompt as a multiple of what codex uses, the median of pairs."""
    name = "one cold prompt, CPU beside codex"
    codex = find_codex()
    if codex is None:
        return Row(name, math.nan, "skipped", None, "codex is not installed: npm install -g @openai/codex")
    (home / "codex").mkdir()
    (home / "codex" / "config.toml").write_text(CODEX.format(url=url))
    environ = environ_for(home, url) | {"CODEX_HOME": str(home / "codex")}
    other = [codex, "exec", "--skip-git-repo-check", "say hi"]
    pairs = [cpu_s(run, environ, home)[0] / cpu_s(other, environ, home)[0] for _ in range(PAIRS)]
    return Row(name, sorted(pairs)[PAIRS // 2], "times", 1.0, "codex exec, the median of 11 pairs")


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
        public, _ = best("-c", "from jaato import Agent, tool")
        helped, _ = best("-m", "jaato", "--help")
        run = ("-m", "jaato", "run", "--model", "m", "say hi")
        ran, megabytes = best(*run, rounds=RUNS)
        beside = against_codex(home, url, [sys.executable, *run])
    return [
        Row("import jaato", imported / nothing, "times", 2.0, PASS),
        Row("jaato --help", helped / nothing, "times", 6.0, PASS),
        Row("from jaato import Agent, tool, CPU", public, "s", 0.15, "least of 15"),
        Row("one jaato run, CPU", ran, "s", 0.30, AGAINST),
        beside,
        Row("one jaato run, peak memory", megabytes, "MB", 80.0, AGAINST),
    ]


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as waiting:
        main(waiting)
