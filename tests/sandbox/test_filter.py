"""The filter of system calls, decided instruction by instruction for each machine."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from jaato.tools.processes.warden import seccomp

ALLOWED = -1
MACHINES = tuple(seccomp.AUDIT_ARCHES)


def decision(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter says of a call: an errno, or -1 if it is allowed."""
    code = list(struct.iter_unpack("<HBBI", seccomp.program(machine)))
    given = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    arch = seccomp.AUDIT_ARCHES[machine] if arch is None else arch
    data = struct.pack("<IIQ6Q", number, arch, 0, *given)
    at = value = 0
    for _ in range(len(code)):
        kind, then, otherwise, operand = code[at]
        at += 1
        match kind:
            case seccomp.LOAD:
                value = struct.unpack_from("<I", data, operand)[0]
            case seccomp.EQUAL:
                at += then if value == operand else otherwise
            case seccomp.AT_LEAST:
                at += then if value >= operand else otherwise
            case seccomp.ANY_BIT:
                at += then if value & operand else otherwise
            case seccomp.RETURN:
                return ALLOWED if operand == seccomp.SECCOMP_RET_ALLOW else operand & 0xFFFF
    raise AssertionError("the program has no end")


def number(machine: str, name: str) -> int:
    """The number of a call."""
    listed = " ".join([*seccomp.REFUSED.values(), seccomp.CONDITIONAL])
    return seccomp.numbers(listed, machine)[name]


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_of_the_lists_is_refused(machine: str) -> None:
    """Each refused call fails with the errno of its list, and read and write are allowed."""
    for code, listed in seccomp.REFUSED.items():
        for one in seccomp.numbers(listed, machine).values():
            assert decision(machine, one) == code
    assert decision(machine, {"x86_64": 0, "aarch64": 63}[machine]) == ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_another_machines_calls_are_refused(machine: str) -> None:
    """A call in the 32-bit interface is refused whatever its number; so is x32 on x86-64."""
    foreign = {"x86_64": 0x40000003, "aarch64": 0x40000028}[machine]
    assert decision(machine, 0, arch=foreign) == errno.ENOSYS
    if machine == "x86_64":
        assert decision(machine, seccomp.X32_SYSCALL_BIT) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_namespaces_are_refused_and_threads_are_not(machine: str) -> None:
    """Every flag of a namespace is refused for clone and unshare; threads, forks and other sharing go on."""
    clone, unshare = number(machine, "clone"), number(machine, "unshare")
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert decision(machine, clone, flag | 17) == errno.EPERM
        assert decision(machine, unshare, flag) == errno.EPERM
    assert decision(machine, unshare, 0x80) == errno.EPERM
    assert decision(machine, clone, 0x3D0F00) == ALLOWED
    assert decision(machine, clone, 0x1200011) == ALLOWED
    assert decision(machine, unshare, 0x400) == ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_of_four_families_are_allowed(machine: str) -> None:
    """UNIX, IPv4, IPv6 and routes are allowed; other families and other talks with the kernel are not."""
    socket = number(machine, "socket")
    allowed = {family for family in range(64) if decision(machine, socket, family, 1, 0) == ALLOWED}
    assert allowed == {1, 2, 10, 16}
    assert decision(machine, socket, 40) == errno.EAFNOSUPPORT
    assert decision(machine, socket, 16, 3, 9) == errno.EPROTONOSUPPORT
    assert decision(machine, number(machine, "socketpair"), 1) == ALLOWED
    assert decision(machine, number(machine, "socketpair"), 30) == errno.EAFNOSUPPORT


@pytest.mark.parametrize("machine", MACHINES)
def test_terminals_and_personalities(machine: str) -> None:
    """Typing into terminals is refused, whatever the high half says; debuggers may fix the layout of memory."""
    ioctl, personality = number(machine, "ioctl"), number(machine, "personality")
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):
        assert decision(machine, ioctl, 0, request) == errno.EPERM
    assert decision(machine, ioctl, 0, 0x5413) == ALLOWED
    assert decision(machine, personality, 0xFFFFFFFF) == ALLOWED
    assert decision(machine, personality, 0x40000) == ALLOWED
    assert decision(machine, personality, 0x400000) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_no_program_becomes_setuid(machine: str) -> None:
    """No mode with the setuid bit is set or made; without O_CREAT what stands in the place of a mode is nothing."""
    flags = os.O_CREAT | os.O_WRONLY
    openat = number(machine, "openat")
    assert decision(machine, openat, 0, 0, flags, 0o4755) == errno.EPERM
    assert decision(machine, openat, 0, 0, 0o20200000, 0o4755) == errno.EPERM
    assert decision(machine, openat, 0, 0, flags, 0o2755) == ALLOWED
    assert decision(machine, openat, 0, 0, os.O_RDONLY, 0o7777) == ALLOWED
    assert decision(machine, number(machine, "fchmod"), 3, 0o4755) == errno.EPERM
    assert decision(machine, number(machine, "fchmodat"), 3, 0, 0o4755) == errno.EPERM
    assert decision(machine, number(machine, "fchmodat2"), 3, 0, 0o755) == ALLOWED
    if machine == "x86_64":
        assert decision(machine, number(machine, "chmod"), 0, 0o4755) == errno.EPERM
        assert decision(machine, number(machine, "open"), 0, flags, 0o4755) == errno.EPERM
        assert decision(machine, number(machine, "creat"), 0, 0o4755) == errno.EPERM


def test_no_filter_for_an_unknown_machine() -> None:
    """A machine whose numbers are not known has no filter, and so no sandbox."""
    assert seccomp.program("riscv64") == b""
    assert seccomp.program("i686") == b""
