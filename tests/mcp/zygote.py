"""`jaato` started often: a process that has loaded the command line and the SDK, and forks for each command.

What runs in the forked process is the command line itself, from its arguments to its exit code. Run as a program, this
listens on a Unix socket; each connection sends one line of JSON, either `{"argv", "home", "work", "stdin"}` or a scenario
of the conformance suite, and gets one back.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NamedTuple

AT_ONCE = 6
"""How many connections are served at the same time; the suite asks for everything at once."""
MODULES = (
    *("anyio._backends._asyncio", "concurrent.futures.thread", "encodings.utf_8_sig", "httpx2", "httpcore2"),
    *("jsonschema_rs", "keyring.backends.fail", "mcp.client.auth", "mcp.client.session"),
    *("mcp.client.streamable_http", "jaato.cli.arguments.servers", "jaato.cli.sources.mcp"),
    *("jaato.plugins.mcp.client", "jaato.plugins.mcp.http_transport", "jaato.plugins.mcp.oauth.callback"),
    *("jaato.plugins.mcp.oauth.login", "jaato.plugins.mcp.oauth.requests"),
    *("jaato.tools.permissions.evaluation", "jaato.tools.processes.environment", "tests.mcp.scenarios"),
)
"""What the commands import, loaded once; none of it starts a thread."""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def main(path: str, browser: str) -> None:
    """Load everything, then serve until the parent ends it."""
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    free, freed = os.pipe()
    os.write(freed, b"." * AT_ONCE)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            os.read(free, 1)
            serve(connection, browser, freed)
        connection.close()


def serve(connection: socket.socket, browser: str, freed: int) -> None:
    """Carry out what one connection asks, in this process, and end it."""
    code = 1
    try:
        with connection, connection.makefile("rw") as stream:
            stream.write(json.dumps(answer_to(json.loads(stream.readline()), browser)) + "\n")
            stream.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os.write(freed, b".")
        os._exit(code)


def answer_to(asked: dict[str, Any], browser: str) -> Any:
    """A command's end, or a scenario's."""
    if "argv" in asked:
        runner = Runner(Path(asked["home"]), Path(asked["work"]), browser)
        return runner.become(asked["argv"], asked["stdin"])
    from tests.mcp.scenarios import play

    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        code, out = play(asked, Runner(home, work, browser))
    return {"code": code, "out": out}


class Runner:
    """A user's machine, on which `jaato` is run in forked processes."""

    def __init__(self, home: Path, work: Path, browser: str) -> None:
        self.home, self.work = home, work
        self._environ = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "BROWSER": browser,
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        self.log: list[str] = []

    def configure(self, entry: dict[str, Any]) -> None:
        """Make a server the user's, as `it`."""
        (self.home / ".mcp.json").write_text(json.dumps({"mcpServers": {"it": entry}}))

    def run(self, *args: str, stdin: str = "") -> Done:
        """`jaato mcp …`, noted in the log."""
        done = self.become(["mcp", *args], stdin)
        self.log += [f"$ jaato mcp {' '.join(args)}", done.out.strip(), done.err.strip(), f"= {done.code}"]
        return done

    def become(self, argv: list[str], stdin: str) -> Done:
        """Run a command to its end."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            child = os.fork()
            if child == 0:
                self._command(argv, [given.fileno(), out.fileno(), err.fileno()])
            _, status = os.waitpid(child, 0)
            out.seek(0)
            err.seek(0)
            texts = [file.read().decode("utf-8", "replace") for file in (out, err)]
            return Done(os.waitstatus_to_exitcode(status), *texts)

    def _command(self, argv: list[str], files: list[int]) -> None:
        """Be the command."""
        code = 98
        try:
            os.environ.clear()  # noqa: TID251 the forked process begins as a new one would
            os.environ.update(self._environ)  # noqa: TID251 as above
            os.chdir(self.work)
            for number, file in enumerate(files):
                os.dup2(file, number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115 for as long as the process lives
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115 as above
            from jaato.cli import main as jaato

            code = jaato(argv)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
