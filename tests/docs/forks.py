"""`jaato` and `python` as pages name them, without the time they take to load: each is forked from a process that has.

`python -m tests.docs.forks PATH MODULE…` serves at a Unix socket. The program `python` that `program` gives sends there what it was
started with and its three standard descriptors, waits for the forked process, and ends as that does. Where nobody serves,
as in a sandbox, and for options that are not known here, it becomes the real interpreter. Whoever kills it kills the other.
"""

from __future__ import annotations

import ast
import atexit
import gc
import importlib
import os
import runpy
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tests.cli import warm

ROOT = Path(__file__).parents[2]
CLIENT = """#!{python} -ISE
import os, signal, sys
import _socket, array

words = {words!r} + sys.argv[1:]


def real():
    os.execv({python!r}, [{python!r}, *words])


known = words[:1] in (["-m"], ["-c"]) or words[:1] and not words[0].startswith("-") or words[:2] == ["-W", "error"]
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
try:
    [os.fstat(number) for number in range(3)]
    line.connect({path!r}) if known else real()
except OSError:
    real()
request = repr(dict(words=words, env=dict(os.environ), cwd=os.getcwd(), executable={executable!r}, mask=os.umask(0)))
control = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
line.sendmsg([request.encode()], [control])
child = int(line.recv(64))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, _: os.kill(child, number))
code = int(line.recv(64) or -9)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -9 else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def load(more: Sequence[str]) -> None:
    """Load what most commands need, and more."""
    warm.load()
    for name in more:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be the interpreter with these words, up to the end of its program."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors, lines = ("backslashreplace", 1) if name == "stderr" else ("surrogateescape", -1)
        stream = open(number, mode, lines, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115 to its end
        setattr(sys, name, stream)
    os.umask(request["mask"])
    os.environ.clear()  # noqa: TID251 the program has its own
    os.environ.update(request["env"])  # noqa: TID251
    os.chdir(request["cwd"])
    sys.executable = request["executable"] or sys.executable
    words: list[str] = request["words"]
    if words[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        words = words[2:]
    own = [part for part in request["env"].get("PYTHONPATH", "").split(":") if part]
    installed = [part for part in sys.path[1:] if part not in own and not part.startswith(str(ROOT / "src"))]
    what, rest = words[0], words[1:]
    match what:
        case "-m" if rest[0] == "jaato":
            from jaato.cli import main

            sys.path[:] = [request["cwd"], *own, *installed]
            sys.argv = ["jaato", *rest[1:]]
            sys.exit(
                main(rest[1:])
            )  # with arguments of its own it is not started anew with a clean environment
        case "-m":
            sys.path[:] = [request["cwd"], *own, *installed]
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        case "-c":
            sys.path[:] = ["", *own, *installed]
            sys.argv = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), vars(sys.modules["__main__"]))
        case _:
            sys.path[:] = [str(Path(what).resolve().parent), *own, *installed]
            sys.argv = words
            runpy.run_path(what, run_name="__main__")


class Forks:
    """The process that forks; there while the body of `forking()` runs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def program(self, place: Path, *words: str, within: bool = False) -> Path:
        """Make a file an interpreter that begins with these words; if `within`, what it runs starts others with it, too."""
        place.write_text(
            CLIENT.format(
                python=sys.executable,
                words=list(words),
                path=self._path,
                executable=str(place) if within else "",
            )
        )
        place.chmod(0o755)
        return place


@contextmanager
def forking(*more: str) -> Iterator[Forks]:
    """Start it, and end it; it loads these modules, too."""
    with warm.forker("tests.docs.forks", *more) as path:
        yield Forks(path)


def ended(code: object) -> NoReturn:
    """End with what a program has given to `sys.exit`, as it would, without clearing away what the interpreter holds."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    status = code if isinstance(code, int) else int(code is not None)
    getattr(threading, "_shutdown")()  # noqa: B009 no public name waits for the threads that are not daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120
    os._exit(status)


def main() -> None:
    """Serve; and in each forked process, be its program and end."""
    path, *more = sys.argv[1:]
    load(more)
    data, descriptors = warm.fork_on_request(path, leads=True)
    request: dict[str, Any] = ast.literal_eval(data.decode())
    if "-W" in request["words"][:1]:  # what is said while everything is cleared away counts
        return become(request, descriptors)
    try:
        become(request, descriptors)
    except SystemExit as ending:
        ended(ending.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        ended(1)
    ended(None)


if __name__ == "__main__":
    main()
