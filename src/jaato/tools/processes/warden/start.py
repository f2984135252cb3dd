"""Start a command: everything between the fork and the exec of its program."""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import resource
import signal
import sys
import termios

from jaato.tools.processes.warden import cgroup, namespaces, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PIPE_BYTES = 1 << 18
MOST_STREAMS = 2  # what a command may bring as its own input and output
NAMESPACES = ("user", "net")  # what a confined command enters, in this order
STATUS_FD = 9  # where the sandbox writes how its program ended
FILTER_FD = 8  # where bubblewrap reads the filter of system calls
FIRST_FREE_FD = 20
USER_PROCESSES = 4096  # what the rest of a user's programs may need under one limit on processes

TAKES_TERMINAL = [
    os.fsencode(sys.executable),
    b"-I",
    b"-S",
    b"-c",
    b"import fcntl, os, sys, termios as t; os.setsid(); fcntl.ioctl(0, t.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])",
]
"""Runs a program in the sandbox in a session of its own at the terminal: its Ctrl-C must not end the sandbox around it,
and a shell's job control needs a process group that it can see."""

IGNORED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGALRM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
"""Signals that the warden and its supervisors ignore; a command gets the default handlers again."""


class Started:
    """A started command: `output_fd` and `status_fd` are read here; `failure` says why it could not be started."""

    def __init__(self, pid: int, output_fd: int, status_fd: int, failure: dict[str, Any] | None) -> None:
        self.pid = pid
        self.output_fd = output_fd
        self.status_fd = status_fd
        self.failure = failure

    def is_unconfined(self, status: int | None) -> bool:
        """Whether the sandbox ended before it ran the program: it then writes no exit code."""
        if self.status_fd < 0:
            return False
        os.set_blocking(self.status_fd, False)
        try:
            data = os.read(self.status_fd, 4096)
        except BlockingIOError:
            data = b""
        return b"exit-code" not in data and status is not None and os.WIFEXITED(status)


def start(request: dict[str, Any], group: str, streams: list[int], joins: list[int]) -> Started:
    """Start the command of a request.

    `streams` are its input and output, if they differ from the defaults (no input, the pipe that is read here); a single one is a
    terminal, and all three. `joins` are the namespaces it enters. All of them are closed here.
    """
    output_fd, output = os.pipe()
    status_fd, status = os.pipe() if request["confinement"] else (-1, -1)
    try:
        fcntl.fcntl(output_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (AttributeError, OSError):
        pass  # it is Linux's, and the user's share of pipe memory may be used up; the default size works
    os.set_blocking(output_fd, False)
    failed, fail = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        report = {"doing": "fork for", "error": os.strerror(error.errno or 0)}
        return Started(0, output_fd, status_fd, report)
    if pid == 0:
        become_command(request, output, fail, status, group, streams, joins)
    for fd in (output, fail, *streams, *joins, *((status,) if status >= 0 else ())):
        os.close(fd)
    message = os.read(failed, 4096)
    os.close(failed)
    failure = marshal.loads(message) if message else None  # noqa: S302 our own fork wrote it
    return Started(pid, output_fd, status_fd, failure)


def become_command(
    request: dict[str, Any],
    output: int,
    fail: int,
    status: int,
    group: str,
    streams: list[int],
    joins: list[int],
) -> NoReturn:
    """Execute the command in this process; never returns. A failure is written to `fail` as a value."""
    doing = "start"
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        if group:
            cgroup.join(group)
        joins = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD) for fd in joins]
        doing = "connect the streams of"
        given = streams or [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), output]
        connect(given, output, controls=not request["confinement"])
        fail = fcntl.fcntl(fail, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)
        confinement = request["confinement"]
        if confinement:
            os.dup2(fcntl.fcntl(status, fcntl.F_DUPFD, FIRST_FREE_FD), STATUS_FD)
        close_all_but(fail, *joins, *((STATUS_FD,) if confinement else ()))
        doing = "enter"
        os.chdir(request["cwd"])
        if confinement and confinement["joined"]:
            doing = "connect the network of"
            namespaces.join_network(joins)
        doing = "run"
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.setpriority(os.PRIO_PROCESS, 0, request["nice"])
        limit_resources(request)
        if confinement:
            find_program(request["argv"][0], request["env"])
            inner = TAKES_TERMINAL if len(streams) == 1 else []
            run_confined(request, confinement, fail, inner)
        os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606 a shell is among the arguments if one is wanted
    except (OSError, ValueError) as error:
        code = error.errno if isinstance(error, OSError) else None
        report = {"doing": doing, "error": os.strerror(code) if code else str(error)}
        os.write(fail, marshal.dumps(report))
    finally:
        os._exit(127)


def run_confined(request: dict[str, Any], confinement: dict[str, Any], fail: int, inner: list[bytes]) -> None:
    """Run the command in its sandbox, by the program `inner` if there is one. Raises OSError where that cannot be started."""
    argv = [*without_gone(confinement["prefix"]), *inner, *request["argv"]]
    if confinement["backend"] == "landlock":
        doing = "confine"
        try:
            namespaces.enter_sandbox(confinement, STATUS_FD, fail)
            doing = "enter"
            os.chdir(request["cwd"])
        except OSError as error:
            report = {"doing": doing, "error": f"{error.strerror or error} ({error.filename or 'landlock'})"}
            os.write(fail, marshal.dumps(report))
            os._exit(127)
        os.execvpe(argv[0], argv, request["env"])  # noqa: S606 no shell
    os.dup2(filter_file(), FILTER_FD)
    os.execve(argv[0], argv, request["env"])  # noqa: S606 no shell


def without_gone(prefix: list[bytes]) -> list[bytes]:
    """The arguments of bubblewrap without covers for files that are gone: sockets come and go, and it fails for want of one."""
    kept: list[bytes] = []
    number = 0
    while number < len(prefix):
        is_cover = prefix[number : number + 2] == [b"--ro-bind", os.fsencode(os.devnull)]
        if not is_cover or os.path.lexists(prefix[number + 2]):
            kept += prefix[number : number + (3 if is_cover else 1)]
        number += 3 if is_cover else 1
    return kept


def filter_file() -> int:
    """A descriptor that the filter of system calls is read from. Raises OSError where there is none for this machine."""
    program = seccomp.program()
    if not program:
        raise OSError(errno.ENOSYS, "no filter of system calls for this machine")
    file = os.memfd_create("filter")
    os.write(file, program)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def find_program(name: bytes, environment: dict[bytes, bytes]) -> None:
    """Raise OSError where no program of this name can be run, in the words of exec: the sandbox has others."""
    code = errno.ENOENT
    places = [b""] if b"/" in name else environment.get(b"PATH", os.defpath.encode()).split(b":")
    for place in places:
        path = os.path.join(place, name)
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return
            code = errno.EACCES
    raise OSError(code, os.strerror(code))


def connect(streams: list[int], errors: int, *, controls: bool) -> None:
    """Make these the standard streams; a single one is a terminal, and the session's own if it `controls` it."""
    if len(streams) == 1 and controls:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    given = [streams[0], streams[0], streams[0]] if len(streams) == 1 else [*streams, errors]
    for number, fd in enumerate(given):
        os.dup2(fd, number)


def close_all_but(*kept: int) -> None:
    """Close every descriptor but the standard three and these."""
    try:
        listed = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        listed = list(range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for fd in listed:
        if fd > 2 and fd not in kept:
            os.closerange(fd, fd + 1)  # the listing's own is closed already


def limit_resources(request: dict[str, Any]) -> None:
    """Bound what one process of the command may use; no core files, which may hold what memory held.

    The user's limit on processes does nothing to root, whose processes are counted.
    """
    if os.getuid() != 0:
        lower(resource.RLIMIT_NPROC, USER_PROCESSES + request["max_processes"], hard=False)
    lower(resource.RLIMIT_CORE, 0, hard=False)
    if request["max_file_bytes"]:
        lower(resource.RLIMIT_FSIZE, request["max_file_bytes"])
    if request["cpu_s"]:
        lower(resource.RLIMIT_CPU, request["cpu_s"])


def lower(kind: int, most: int, *, hard: bool = True) -> None:
    """Lower a limit, with `hard` for good; one that is lower already stays."""
    soft, highest = resource.getrlimit(kind)
    if hard and (highest == resource.RLIM_INFINITY or highest > most):
        highest = most
    if soft == resource.RLIM_INFINITY or soft > most:
        soft = most
    resource.setrlimit(kind, (soft, highest))
