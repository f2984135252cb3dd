"""A session's network namespace: made by a process that then ends, kept by descriptors, entered by commands."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct

from jaato.tools.processes.warden.process_tree import LIBC

PROXY_ADDRESS = ("127.0.0.1", 3128)
BACKLOG = 256
MADE = b"k"
DESCRIPTORS = 3
"""How many come with `MADE`: the user namespace, the network namespace, a listener at `PROXY_ADDRESS`."""

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
INTERFACE = struct.Struct("16sh22x")
NAMESPACES = "/proc/self/ns"
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS, errno.EINVAL, errno.ENOSYS, errno.ENOENT)
"""Errors that come back however often it is tried; ENOSPC says that no more user namespaces are allowed."""


class NetworkRefused(OSError):
    """This machine lets this user make no network namespace."""


def hand_out(reply: socket.socket) -> None:
    """Move this process into new namespaces and send their descriptors, or the number of the error that prevents it."""
    fds: list[int] = []
    try:
        unshare()
        raise_loopback()
        listener = socket.socket()
        listener.bind(PROXY_ADDRESS)
        listener.listen(BACKLOG)
        fds = [os.open(f"{NAMESPACES}/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "net")]
        fds.append(listener.fileno())
    except OSError as error:
        reply.send(str(error.errno or errno.EPERM).encode())
        return
    socket.send_fds(reply, [MADE], fds)


def receive(reply: socket.socket) -> list[int]:
    """The descriptors that `hand_out` sends: user namespace, network namespace, listener.

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


def unshare() -> None:
    """Enter a new user namespace, in which this user is itself, and a new network namespace that belongs to it."""
    user, group = os.geteuid(), os.getegid()
    if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise last_error()
    for name, value in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)


def raise_loopback() -> None:
    """Bring the loopback interface of this namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        _, flags = INTERFACE.unpack(fcntl.ioctl(any_socket, SIOCGIFFLAGS, INTERFACE.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, INTERFACE.pack(b"lo", flags | IFF_UP))


def enter(descriptors: list[int]) -> None:
    """Move this process into a user namespace and the network namespace that belongs to it. Raises OSError."""
    if len(descriptors) != DESCRIPTORS - 1:
        raise OSError(errno.EBADF, "The descriptors of the network namespace did not come with the command")
    for fd, kind in zip(descriptors, (CLONE_NEWUSER, CLONE_NEWNET), strict=True):
        if LIBC.setns(fd, kind) != 0:
            raise last_error()


def last_error() -> OSError:
    """What the C library last failed with."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
