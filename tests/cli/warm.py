"""Commands of jaato in processes that need not load it first: each is forked from one that has.

`python -m tests.cli.warm PATH` serves at a Unix socket. A request is one message, `{"args", "env", "cwd", "terminal",
"without"}`, with the three standard descriptors and perhaps the one that is to be 3; the answers are the process's number
and, once it has ended, its exit code. With `terminal` its input is the terminal of a session of its own; modules it is to
be `without` cannot be imported.
"""

from __future__ import annotations

import contextlib
import fcntl
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
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

ROOT = Path(__file__).parents[2]
MAX_REQUEST_BYTES = 1 << 17
PACKAGES = (
    *("jaato.cli", "jaato.cli.arguments", "jaato.cli.clients", "jaato.cli.commands", "jaato.cli.output"),
    *("jaato.cli.repl", "jaato.cli.sources"),
    *("jaato.runtime", "jaato.agent", "jaato.storage", "jaato.client", "jaato.protocol"),
    *(
        "jaato.providers",
        "jaato.server",
        "jaato.server.sessions",
        "jaato.tools",
        "jaato.tools.filesystem",
    ),
    *(
        "jaato.tools.network",
        "jaato.tools.permissions",
        "jaato.tools.processes",
        "jaato.tools.processes.sandbox",
    ),
    *(
        "jaato.tools.redaction",
        "jaato.tools.remote",
        "jaato.tools.search",
        "jaato.tools.shell",
        "jaato.plugins.files",
    ),
    *("jaato.plugins.search", "jaato.plugins.subagent", "jaato.plugins.waypoint"),
)
OTHERS = (
    *("jaato.plugins.background", "jaato.plugins.introspection", "jaato.plugins.memory"),
    *("jaato.plugins.session", "jaato.plugins.shell", "jaato.plugins.skills", "jaato.plugins.todo"),
    *("jaato.providers.local.download", "jaato.providers.local.models", "jaato.providers.local.wheels"),
    "anyio._backends._asyncio",
    "tree_sitter_bash",
    "uvicorn.lifespan.off",
    "websockets.protocol",
    "httpx2",
    "uvicorn",
    "jsonschema_rs",
    "jaato.server.mcp.stdio",
    "jaato.server.mcp.app",
)

CLIENTS = {"acp": "jaato.acp.command", "tui": "jaato.tui.command"}
"""What needs an extra, by the command that needs it: loaded before the first one is forked."""


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


def load_client(data: bytes) -> None:
    """Load what the command of a request needs beside that."""
    args: list[str] = json.loads(data)["args"]
    command = args[0] if args else "tui"
    if command in CLIENTS:
        importlib.import_module(CLIENTS[command])
        gc.freeze()


def fork_on_request(
    path: str, *, leads: bool = False, prepare: Callable[[bytes], None] | None = None
) -> tuple[bytes, list[int]]:
    """Fork for each request until the one who started this has gone. In the forked process: returns the request.

    `prepare` is called with the request first. One that `leads` a session of its own is killed with all it has started
    when its client or this one goes.
    """
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
        watched: list[Any] = [listener, wake, 0, *(waiting.values() if leads else ())]
        ready = select.select(watched, [], [])[0]
        if 0 in ready:
            for child in waiting if leads else ():
                os.killpg(child, signal.SIGKILL)
            raise SystemExit
        if wake in ready:
            os.read(wake, 4096)
        if listener in ready:
            line, _ = listener.accept()
            data, descriptors, _, _ = socket.recv_fds(line, MAX_REQUEST_BYTES, 4)
            if not data:
                line.close()  # who connected has gone
                continue
            if prepare is not None:
                prepare(data)
            child = os.fork()
            if not child:
                if leads:
                    os.setsid()
                return data, descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            waiting[child] = line
            line.send(str(child).encode())
        for child, line in list(waiting.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError):  # it may be gone itself
                    line.send(str(os.waitstatus_to_exitcode(status)).encode())
                line.close()
                del waiting[child]
            elif line in ready:  # it says nothing more: it has gone
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)


def take_streams(descriptors: list[int]) -> None:
    """In a forked process: have these as its first descriptors and no others, and signals as a new process has them."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(len(descriptors), 1024)


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the command, as if it had been started by name; never returns."""
    code = 70
    try:
        take_streams(descriptors)
        if request["terminal"]:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for name in [*request["without"], *sys.modules]:
            if name.partition(".")[0] in request["without"]:
                sys.modules[name] = None  # type: ignore[assignment]  # what cannot be imported is there as None
        os.environ.clear()  # noqa: TID251 the command has its own
        os.environ.update(request["env"])  # noqa: TID251
        os.chdir(request["cwd"])
        sys.argv = ["jaato", *request["args"]]
        for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            errors = "backslashreplace" if name == "stderr" else "surrogateescape"
            stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
            if name == "stderr":
                stream.reconfigure(line_buffering=True)  # type: ignore[attr-defined]  # it is text
            setattr(sys, name, stream)
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


class Forked(subprocess.Popen[bytes]):
    """A command that the process at this path has forked; for the one who holds it as if he had started it."""

    def __init__(self, path: str, request: dict[str, Any], more: Sequence[int], **streams: Any) -> None:
        self._path = path
        self._request = json.dumps(request).encode()
        self._more = more
        super().__init__(request["args"], **streams)

    def _execute_child(self, *given: Any) -> None:
        pipes = given[10:16]
        standard = [own if one == -1 else one for own, one in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.connect(self._path)
        socket.send_fds(self._line, [self._request], [*standard, *self._more])
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int(self._line.recv(64))
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._line], [], [], 0)[0]:
            return 0, 0
        code = int(self._line.recv(64))
        self._line.close()
        return self.pid, code << 8 if code >= 0 else -code

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


class Warm:
    """The process that forks; there while the body of `warmed()` runs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def start(
        self,
        args: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        terminal: bool = False,
        without: Sequence[str] = (),
        more: Sequence[int] = (),
        **streams: Any,
    ) -> Forked:
        """A running command, its streams as `subprocess.Popen` has them."""
        request = {"args": args, "env": env, "cwd": str(cwd), "terminal": terminal, "without": without}
        return Forked(self._path, request, more, **streams)

    def relay(self, args: Sequence[str]) -> list[str]:
        """What starts a command for those that start it themselves: a small program has it forked, and waits for it."""
        return [sys.executable, "-I", "-S", str(Path(__file__).with_name("relay.py")), self._path, *args]

    def run(
        self, args: list[str], *, data: bytes | None, cwd: Path, env: dict[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        """A command from beginning to end, as `subprocess.run` has it."""
        with self.start(args, cwd=cwd, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
            try:
                out, err = process.communicate(data, timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return subprocess.CompletedProcess(args, process.returncode, out, err)


@contextmanager
def forker(module: str, *more: str) -> Iterator[str]:
    """Start a module that forks, give the path of its socket, and end it. Its environment is that of no command."""
    environ = {
        "PATH": os.defpath,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
    }
    with tempfile.TemporaryDirectory(prefix="jaato-forks-") as directory:
        path = f"{directory}/s"
        command = [sys.executable, "-m", module, path, *more]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, cwd=ROOT, env=environ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield path
            process.communicate()  # the end of its input is its end


@contextmanager
def warmed() -> Iterator[Warm]:
    """Start it, and end it."""
    with forker("tests.cli.warm") as path:
        yield Warm(path)


HELD = contextlib.ExitStack()
RUNNING: list[Warm] = []


def warm() -> Warm:
    """The one of this test run, started when it is first needed; `HELD` ends it."""
    if not RUNNING:
        RUNNING.append(HELD.enter_context(warmed()))
        HELD.callback(RUNNING.clear)
    return RUNNING[0]


def main() -> None:
    """Serve; and in each forked process, be its command."""
    load()
    data, descriptors = fork_on_request(sys.argv[1], prepare=load_client)
    become(json.loads(data), descriptors)


if __name__ == "__main__":
    main()
