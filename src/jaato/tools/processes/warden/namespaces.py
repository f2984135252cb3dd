"""Namespaces of the warden's processes: the network of a session, and the Landlock back end of the sandbox.

A session's network namespace is created by a process that then ends; descriptors keep it, and commands join it.

A command of the Landlock back end has three processes: the first waits; the second is the first process of a new process
namespace and adopts orphans; the command runs below it. The second and the command are restricted (mounts, Landlock,
seccomp filter) before the program is executed. The first two are killed when their parent ends while the command runs.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import stat
import struct

from jaato.tools.processes.warden import seccomp
from jaato.tools.processes.warden.process_tree import LIBC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    Operation = tuple[str, str, str]

PROXY_ADDRESS = ("127.0.0.1", 3128)
BACKLOG = 256
MADE = b"k"
DESCRIPTORS = 3
"""The number of descriptors sent with `MADE`: the user namespace, the network namespace, a listener at `PROXY_ADDRESS`."""

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
INTERFACE = struct.Struct("16sh22x")
NAMESPACES = "/proc/self/ns"
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS, errno.EINVAL, errno.ENOSYS, errno.ENOENT)
"""Errors that come back however often it is tried; ENOSPC says that no more user namespaces are allowed."""


class NetworkRefused(OSError):
    """This machine lets this user make no network namespace."""


def send_new_network(reply: socket.socket) -> None:
    """Move this process into new namespaces and send their descriptors, or the number of the error that prevents it."""
    fds: list[int] = []
    try:
        unshare(NEWNET)
        listener = socket.socket()
        listener.bind(PROXY_ADDRESS)
        listener.listen(BACKLOG)
        fds = [os.open(f"{NAMESPACES}/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "net")]
        fds.append(listener.fileno())
    except OSError as error:
        reply.send(str(error.errno or errno.EPERM).encode())
        return
    socket.send_fds(reply, [MADE], fds)


def receive_network(reply: socket.socket) -> list[int]:
    """The descriptors that `send_new_network` sends: user namespace, network namespace, listener.

    Raises `NetworkRefused` where this machine has none, ConnectionError when nothing came, TimeoutError and OSError.
    """
    data, fds, _, _ = socket.recv_fds(reply, 16, DESCRIPTORS)
    if data == MADE and len(fds) == DESCRIPTORS:
        return fds
    for fd in fds:
        os.close(fd)
    if not data.isdigit():
        raise ConnectionError("The process that makes a network namespace ended before it had made one.")
    code = int(data)
    kind = NetworkRefused if code in REFUSALS else OSError
    raise kind(code, f"No network namespace can be made here: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Enter new namespaces, among them a user namespace in which this user is the only one. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    check_result("namespaces", LIBC.unshare(NEWUSER | flags))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    if flags & NEWNET:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            _, up = INTERFACE.unpack(fcntl.ioctl(any_socket, SIOCGIFFLAGS, INTERFACE.pack(b"lo", 0)))
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, INTERFACE.pack(b"lo", up | IFF_UP))


def join_network(descriptors: list[int]) -> None:
    """Move this process into a user namespace and the network namespace that belongs to it. Raises OSError."""
    if len(descriptors) != DESCRIPTORS - 1:
        raise OSError(errno.EBADF, "The descriptors of the network namespace did not come with the command")
    for fd, kind in zip(descriptors, (NEWUSER, NEWNET), strict=True):
        check_result("network", LIBC.setns(fd, kind))


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
LEAST_VERSION = 2
"""Before it nothing could be renamed into another directory."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SCOPES = 0b11  # abstract sockets and signals


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 where there is none, or it is turned off."""
    return max(int(LIBC.syscall(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)), 0)


def get_known_rights(abi: int) -> int:
    """All rights to files that a version knows."""
    known = {1: 13, 2: 14, 3: 15, 4: 15}
    return (1 << known.get(abi, 16)) - 1


def restrict_paths(writable: Iterable[str]) -> None:
    """Restrict this process by Landlock: everything can be read, only these paths can be written; irrevocable, also for root.

    Abstract sockets and processes outside are out of reach from version 6 on. Raises OSError.
    """
    abi = landlock_version()
    if abi < LEAST_VERSION:
        raise OSError(errno.ENOSYS, f"Landlock {abi} is too old")
    handled = get_known_rights(abi)
    attributes = struct.pack("=QQQ", handled, 0, SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = check_result("landlock", LIBC.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    add_rule(ruleset, "/", handled & (READING | IOCTL_DEV))
    for path in writable:
        add_rule(ruleset, path, handled)
    check_result("no_new_privs", LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check_result("landlock", LIBC.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def add_rule(ruleset: int, path: str, allowed: int) -> None:
    """Allow what is done to a path and below it."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        allowed &= OF_FILES
    rule = struct.pack("=Qi", allowed, place)
    check_result(path, LIBC.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0))
    os.close(place)


def check_result(doing: str, result: int) -> int:
    """The result of a call of libc; raises OSError for a failure."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), doing)
    return result


MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE = 1
MOVE_MOUNT_F_EMPTY_PATH = 4
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
KERNEL_PLACES = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "mtrr", "scsi", "driver")
"""Paths in `/proc` that user 0 may write whatever its capabilities are."""

OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)


def enter_sandbox(confinement: dict[str, Any], status_fd: int, fail: int) -> None:
    """Confine this process; returns in the process that becomes the command, never in the others. Raises OSError.

    `status_fd` gets `{"exit-code": N}` when the command has ended; `fail` stays open in the command alone.
    """
    unshare(NEWNS | NEWPID | NEWIPC | NEWUTS | NEWCGROUP | (0 if confinement["joined"] else NEWNET))
    die_with_parent()
    over, ended = os.pipe()
    first = os.fork()
    if first:
        wait_for_command(first, over)
    os.close(over)
    make_mounts(confinement["operations"])
    os.chdir("/")
    restrict(confinement["writable"])
    die_with_parent()
    command = os.fork()
    if command:
        reap_namespace(command, ended, status_fd, fail)
    os.close(ended)
    os.close(status_fd)


def die_with_parent(*, so: bool = True) -> None:
    """Set whether the kernel kills this process when its parent ends; a change of credentials resets it."""
    check_result("end", LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL if so else 0, 0, 0, 0))


def make_mounts(operations: Iterable[Operation]) -> None:
    """Create the mounts. Sources are cloned first, because later mounts may cover them."""
    check_result("/", LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    taken = [(one, clone_tree(one[1]) if one[0] in ("read", "write") else -1) for one in operations]
    devices = {name: clone_tree(f"/dev/{name}") for name in DEVICES}
    set_attributes(AT_FDCWD, "/", MS_RDONLY | MS_NOSUID | MS_NODEV)
    for (kind, source, target), tree in taken:
        match kind:
            case "read" if source == os.devnull and not os.path.exists(target):
                os.close(tree)  # a socket that is gone needs no cover
            case "read" | "write":
                make_mount_point(target, directory=stat.S_ISDIR(os.fstat(tree).st_mode))
                set_attributes(tree, "", (MS_RDONLY if kind == "read" else 0) | MS_NOSUID | MS_NODEV)
                attach_tree(tree, target)
            case "empty":
                mount_new("tmpfs", target, "mode=0755")
            case "seal":
                flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV
                check_result(target, LIBC.mount(None, os.fsencode(target), None, flags, None))
            case "devices":
                make_devices(target, devices)
            case "processes":
                make_processes(target)


def clone_tree(path: str) -> int:
    """Clone the mounts at and below a path; returns a descriptor."""
    flags = OPEN_TREE_CLONE | os.O_CLOEXEC | AT_RECURSIVE
    return check_result(path, LIBC.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(path), flags))


def set_attributes(tree: int, path: str, attributes: int) -> None:
    """Set attributes of all mounts of a tree (the same bits as for `mount`)."""
    where = AT_RECURSIVE | (0 if path else AT_EMPTY_PATH)
    given = struct.pack("=QQQQ", attributes, 0, 0, 0)
    check_result(
        path, LIBC.syscall(MOUNT_SETATTR, tree, os.fsencode(path), where, given, ctypes.c_size_t(32))
    )


def attach_tree(tree: int, target: str) -> None:
    """Attach a cloned tree at a path."""
    place = os.fsencode(target)
    check_result(target, LIBC.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH))
    os.close(tree)


def make_mount_point(target: str, *, directory: bool) -> None:
    """Create a mount point in a directory of the sandbox."""
    if os.path.lexists(target):
        return
    if directory:
        os.makedirs(target, 0o755)
        return
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def mount_new(kind: str, target: str, options: str, flags: int = MS_NOSUID | MS_NODEV) -> None:
    """Mount a new file system."""
    name = kind.encode()
    check_result(target, LIBC.mount(name, os.fsencode(target), name, flags, options.encode()))


def make_devices(target: str, devices: dict[str, int]) -> None:
    """Create `/dev` with the usual devices, and terminals and shared memory of the sandbox."""
    mount_new("tmpfs", target, "mode=0755", MS_NOSUID)
    for name, tree in devices.items():
        path = f"{target}/{name}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        attach_tree(tree, path)
    for name, place in DEVICE_LINKS.items():
        os.symlink(place, f"{target}/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{target}/{name}")
    mount_new("devpts", f"{target}/pts", "newinstance,ptmxmode=0666,mode=620", MS_NOSUID | MS_NOEXEC)
    mount_new("tmpfs", f"{target}/shm", "mode=1777")


def make_processes(target: str) -> None:
    """Mount `/proc` of the new namespace, with the kernel's settings read-only."""
    mount_new("proc", target, "", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for name in KERNEL_PLACES:
        path = f"{target}/{name}"
        if os.path.exists(path):
            tree = clone_tree(path)
            set_attributes(tree, "", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
            attach_tree(tree, path)


def restrict(writable: Iterable[str]) -> None:
    """Drop all capabilities and apply Landlock and the seccomp filter, for this process and everything it starts."""
    filter_bytes = seccomp.program()
    if not filter_bytes:
        raise OSError(errno.ENOSYS, "no filter of system calls for this machine")
    check_result("dumpable", LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
    number = 0
    while LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    restrict_paths(writable)
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    check_result("capabilities", LIBC.capset(header, bytes(24)))
    code = ctypes.create_string_buffer(filter_bytes, len(filter_bytes))
    described = struct.pack("@HP", len(filter_bytes) // 8, ctypes.addressof(code))
    check_result("filter", LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0))


def wait_for_command(first: int, over: int) -> NoReturn:
    """Wait, and exit with the code of the command. Signals of a terminal to the whole group are for the command only."""
    for number in OF_TERMINALS:
        signal.signal(number, signal.SIG_IGN)
    close_others(over)
    code = os.read(over, 1)
    if not code:
        os.waitpid(first, 0)
    os._exit(code[0] if code else 127)


def reap_namespace(command: int, ended: int, status_fd: int, fail: int) -> NoReturn:
    """Run as the first process of the namespace: reap orphans until the last process has ended."""
    close_others(ended, status_fd)
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code
            die_with_parent(so=False)  # what is left has its moment to end by itself
            for fd, report in ((status_fd, b'{"exit-code": %d}\n' % code), (ended, bytes([code & 0xFF]))):
                try:
                    os.write(fd, report)
                except OSError:
                    pass  # the reader was killed
                os.close(fd)


def close_others(*kept: int) -> None:
    """Close every descriptor but these."""
    last = 0
    for fd in sorted(kept):
        os.closerange(last, fd)
        last = fd + 1
    os.closerange(last, max(256, last))


def probe() -> None:
    """Confine this process by the request on standard input, and exit with 0 if the confinement works."""
    import marshal
    import sys

    status, written = os.pipe()
    request = marshal.loads(sys.stdin.buffer.read())  # noqa: S302 jaato wrote it
    try:
        enter_sandbox(request, written, status)
    except OSError as error:
        sys.stderr.write(f"{error.filename or 'it'}: {error.strerror or error}")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0 if is_confined() else 1)


def is_confined() -> bool:
    """Whether this process sees few processes and cannot write outside."""
    try:
        os.close(os.open("/etc/jaato-probe", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return os.getpid() <= 3
    return False
