"""Start a command: what happens between the fork and the first instruction of its program."""

from __future__ import annotations

import fcntl
import marshal
import os
import resource
import signal
import termios

from jaato.tools.processes.warden import cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PIPE_BYTES = 1 << 18
MOST_STREAMS = 2  # what a command may bring as its own input and output
USER_PROCESSES = 4096  # what the rest of a user's programs may need under one limit on processes

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
"""What the warden and its supervisors do not hear, and a command hears again."""


def start(request: dict[str, Any], group: str, streams: list[int]) -> tuple[int, int, dict[str, Any] | None]:
    """Start the command; its pid, the reading end of its output, and why it could not be, if it could not.

    `streams` are its input and output, if they are not to be nothing and the pipe that is read here; a single one is a
    terminal, and all three. They are closed here.
    """
    output_fd, output = os.pipe()
    try:
        fcntl.fcntl(output_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (AttributeError, OSError):
        pass  # it is Linux's, and the user's share of pipe memory may be used up; the default size works
    os.set_blocking(output_fd, False)
    failed, fail = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        return 0, output_fd, {"doing": "fork for", "error": os.strerror(error.errno or 0)}
    if pid == 0:
        become_command(request, output, fail, group, streams)
    for fd in (output, fail, *streams):
        os.close(fd)
    report = os.read(failed, 4096)
    os.close(failed)
    return pid, output_fd, marshal.loads(report) if report else None  # noqa: S302 our own fork wrote it


def become_command(
    request: dict[str, Any], output: int, fail: int, group: str, streams: list[int]
) -> NoReturn:
    """Turn this process into the command; never returns. A failure is written to `fail` as a value."""
    doing = "start"
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        if group:
            cgroup.join(group)
        doing = "connect the streams of"
        connect(streams or [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), output], output)
        close_all_but(fail)
        doing = "enter"
        os.chdir(request["cwd"])
        doing = "run"
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.setpriority(os.PRIO_PROCESS, 0, request["nice"])
        limit_processes(USER_PROCESSES + request["max_processes"])
        os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606 a shell is among the arguments if one is wanted
    except (OSError, ValueError) as error:
        code = error.errno if isinstance(error, OSError) else None
        report = {"doing": doing, "error": os.strerror(code) if code else str(error)}
        os.write(fail, marshal.dumps(report))
    finally:
        os._exit(127)


def connect(streams: list[int], errors: int) -> None:
    """Make these the standard streams; a single one is a terminal, and the session's own."""
    if len(streams) == 1:
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


def limit_processes(most: int) -> None:
    """Lower the user's limit on processes; root has none, and is watched by counting alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.getuid() != 0 and (soft == resource.RLIM_INFINITY or soft > most):
        resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
