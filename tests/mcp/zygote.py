"""`jaato` started often: a process that has loaded the command line and the SDK forks for each command.

Run as a program it listens on a Unix socket; each connection sends `{"scenario", "context", "url"}` as one line and gets
`{"code", "out"}`. What runs in the forked process is the command line itself, from its arguments to its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main(path: str, browser: str) -> None:
    """Load everything, then serve until the parent ends."""
    import httpx2  # noqa: F401
    import mcp.client.session
    import mcp.client.streamable_http  # noqa: F401

    import jaato.cli.mcp_login
    import jaato.cli.mcp_use
    import jaato.plugins.mcp.connection
    import jaato.plugins.mcp.http  # noqa: F401

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            serve(connection, browser)
        connection.close()


def serve(connection: socket.socket, browser: str) -> None:
    """Carry out one scenario in this process, and end it."""
    code = 99
    try:
        with connection, connection.makefile("rw") as stream:
            asked = json.loads(stream.readline())
            with tempfile.TemporaryDirectory() as folder:
                from tests.mcp.scenarios import play

                code, out = play(asked, Runner(Path(folder), browser))
            stream.write(json.dumps({"code": code, "out": out}) + "\n")
            stream.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Runner:
    """A user's machine of its own, on which `jaato` is run in forked processes."""

    def __init__(self, folder: Path, browser: str) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self._environ = {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "BROWSER": browser,
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        self.log: list[str] = []

    def configure(self, entry: dict[str, Any]) -> None:
        """Make a server the user's, as `it`."""
        (self.home / ".mcp.json").write_text(json.dumps({"mcpServers": {"it": entry}}))

    def run(self, *args: str, stdin: str = "") -> tuple[int, str]:
        """The exit code and stdout of `jaato mcp …`."""
        self.log.append(f"$ jaato mcp {' '.join(args)}")
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            child = os.fork()
            if child == 0:
                self._become(["mcp", *args], given.fileno(), out.fileno(), err.fileno())
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            stdout, stderr = (file.read().decode("utf-8", "replace") for file in (out, err))
        self.log += [stdout.strip(), stderr.strip(), f"= {code}"]
        return code, stdout

    def _become(self, argv: list[str], given: int, out: int, errors: int) -> None:
        """Be the command, to its end."""
        code = 98
        try:
            os.environ.clear()  # noqa: TID251 the forked process begins as a new one would
            os.environ.update(self._environ)  # noqa: TID251 as above
            os.chdir(self.work)
            for number, file in enumerate((given, out, errors)):
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
