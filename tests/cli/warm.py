"""Commands of jaato in processes that need not load it first: each is forked from one that has.

`python -m tests.cli.warm PATH` serves at a Unix socket. A request is one message, `{"args", "env", "cwd"}`, with the three
standard descriptors; the answers are the process's number and, once it has ended, its exit code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

ROOT = Path(__file__).parents[2]
MAX_REQUEST_BYTES = 1 << 17
PACKAGES = (
    *("jaato.cli", "jaato.runtime", "jaato.agent", "jaato.storage", "jaato.client", "jaato.protocol"),
    *("jaato.providers", "jaato.server"),
)
OTHERS = (
    "anyio._backends._asyncio",
    "websockets.protocol",
    "httpx2",
    "uvicorn",
    "jaato.server.mcp.stdio",
    "jaato.server.mcp.listen",
)


def load() -> None:
    """Load what most commands need; what starts threads or needs an extra is left alone."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in OTHERS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def serve(path: str) -> None:
    """Fork for each request until the one who started this has gone."""
    load()
    wake, awake = os.pipe()
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(awake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    waiting: dict[int, socket.socket] = {}
    while True:
        watched: list[Any] = [listener, wake, 0]
        ready = select.select(watched, [], [])[0]
        if 0 in ready:
            return
        if wake in ready:
            os.read(wake, 4096)
        if listener in ready:
            line, _ = listener.accept()
            data, descriptors, _, _ = socket.recv_fds(line, MAX_REQUEST_BYTES, 3)
            request = json.loads(data)
            child = os.fork()
            if not child:
                become(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            waiting[child] = line
            line.send(str(child).encode())
        for child, line in list(waiting.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                line.send(str(os.waitstatus_to_exitcode(status)).encode())
                line.close()
                del waiting[child]


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the command, as if it had been started by name; never returns."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, 1024)
        os.environ.clear()  # noqa: TID251 the command has its own
        os.environ.update(request["env"])  # noqa: TID251
        os.chdir(request["cwd"])
        sys.argv = ["jaato", *request["args"]]
        for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            errors = "backslashreplace" if name == "stderr" else "surrogateescape"
            setattr(sys, name, open(number, mode, encoding="utf-8", errors=errors, closefd=False))  # noqa: SIM115
        from jaato.cli import main

        code = main(request["args"])
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(bool(ending.code))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 120
        os._exit(code)


class Warm:
    """The process that forks; there while the body of `warmed()` runs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def run(
        self, args: list[str], *, data: bytes | None, cwd: Path, env: dict[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        """A command from beginning to end, as `subprocess.run` has it."""
        pipes = [os.pipe() for _ in range(3)]
        (its_in, given), (out, its_out), (err, its_err) = pipes
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line, ThreadPoolExecutor(3) as threads:
            line.settimeout(timeout_s)
            line.connect(self._path)
            request = json.dumps({"args": args, "env": env, "cwd": str(cwd)}).encode()
            socket.send_fds(line, [request], [its_in, its_out, its_err])
            for descriptor in (its_in, its_out, its_err):
                os.close(descriptor)
            child = int(line.recv(64))
            threads.submit(feed, given, data or b"")
            said, told = threads.submit(drain, out), threads.submit(drain, err)
            try:
                code = int(line.recv(64))
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise subprocess.TimeoutExpired(args, timeout_s, said.result(), told.result()) from None
            return subprocess.CompletedProcess(args, code, said.result(), told.result())


def feed(descriptor: int, data: bytes) -> None:
    """Write everything a reader takes."""
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as file:
        file.write(data)


def drain(descriptor: int) -> bytes:
    """Read to the end."""
    with open(descriptor, "rb") as file:
        return file.read()


@contextmanager
def warmed() -> Iterator[Warm]:
    """Start it, and end it. Its environment is that of no command."""
    environ = {
        "PATH": os.defpath,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
    }
    with tempfile.TemporaryDirectory(prefix="jaato-warm-") as directory:
        path = f"{directory}/s"
        command = [sys.executable, "-m", "tests.cli.warm", path]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, cwd=ROOT, env=environ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield Warm(path)
            process.communicate()  # the end of its input is its end


HELD = contextlib.ExitStack()
RUNNING: list[Warm] = []


def warm() -> Warm:
    """The one of this test run, started when it is first needed; `HELD` ends it."""
    if not RUNNING:
        RUNNING.append(HELD.enter_context(warmed()))
        HELD.callback(RUNNING.clear)
    return RUNNING[0]


if __name__ == "__main__":
    serve(sys.argv[1])
