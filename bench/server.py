"""What the server costs, and what it costs those who use it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.row import Row
from bench.startup import cpu_s, environ_for

ROUNDS = 15
AGAINST = "a scripted model, least of 15"
SCRIPT = [{"text": "All is well.", "usage": {"input_tokens": 1000, "output_tokens": 4}}]


@contextmanager
def daemon(environ: Mapping[str, str]) -> Iterator[None]:
    """A server in the background, gone in the end."""
    serve = [sys.executable, "-m", "jaato", "serve"]
    subprocess.run([*serve, "--daemon"], env=dict(environ), stderr=subprocess.DEVNULL, check=True)
    try:
        yield
    finally:
        subprocess.run([*serve, "--stop"], env=dict(environ), stderr=subprocess.DEVNULL, check=True)


def rows() -> list[Row]:
    """The figures of the server."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        environ = environ_for(home, "http://127.0.0.1:9/v1") | {"XDG_RUNTIME_DIR": folder}
        script = home / "script.json"
        script.write_text(json.dumps(SCRIPT))
        run = [sys.executable, "-m", "jaato", "run", "--provider", "scripted", "--model", str(script), "hi"]
        with daemon(environ):
            cpu_s(run, environ, home)  # leaves the compiled modules behind
            least = min(cpu_s(run, environ, home)[0] for _ in range(ROUNDS))
    return [Row("one jaato run through a running server, CPU of the client", least, "s", 0.15, AGAINST)]
