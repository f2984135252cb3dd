"""The seccomp filter of a confined process: a classic BPF program, as bytes.

A refused call fails with an errno and kills nothing, so that programs fall back, as on a kernel without the call.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_ERRNO = 0x00050000
X32_SYSCALL_BIT = 0x40000000
AUDIT_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCH_AT, ARGUMENTS_AT = 0, 4, 16
CLONE_NAMESPACES = 0x7E020080  # CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
CLONE_NEWTIME = 0x00000080
S_ISUID = 0o4000
MAKES_A_FILE = os.O_CREAT | 0o20000000  # __O_TMPFILE, without O_DIRECTORY
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Linux, its 32-bit form, version 2.6, a fixed layout (debuggers), and the question for the present one."""

REFUSED = {
    errno.ENOSYS: """
        io_uring_setup=425/425 io_uring_enter=426/426 io_uring_register=427/427 clone3=435/435 openat2=437/437
    """,
    errno.EPERM: """
        bpf=321/280 perf_event_open=298/241 userfaultfd=323/282
        add_key=248/217 request_key=249/218 keyctl=250/219
        kexec_load=246/104 kexec_file_load=320/294 reboot=169/142
        init_module=175/105 finit_module=313/273 delete_module=176/106
        open_by_handle_at=304/265
        mount=165/40 umount2=166/39 pivot_root=155/41 open_tree=428/428 move_mount=429/429 fsopen=430/430
        fsconfig=431/431 fsmount=432/432 fspick=433/433 mount_setattr=442/442 open_tree_attr=467/467
        setns=308/268 swapon=167/224 swapoff=168/225 acct=163/89 quotactl=179/60 quotactl_fd=443/443
        iopl=172/- ioperm=173/- lookup_dcookie=212/18
    """,
}
"""Calls that are refused whatever their arguments, with their numbers on x86_64 and aarch64.

`clone3` and `openat2` take their flags from memory, which a filter cannot read; libraries fall back to `clone` and
`openat`.
"""

CONDITIONAL = """
    clone=56/220 unshare=272/97 ioctl=16/29 socket=41/198 socketpair=53/199 personality=135/92
    chmod=90/- fchmod=91/52 fchmodat=268/53 fchmodat2=452/452 open=2/- openat=257/56 creat=85/- mknod=133/- mknodat=259/33
"""
"""Calls that are refused for some of their arguments."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    Instruction = tuple[int, int, int, int]

_programs: dict[str, bytes] = {}


def program(machine: str = "") -> bytes:
    """The filter for a machine (this one unless named); empty where there is none for it."""
    machine = machine or os.uname().machine
    if machine not in _programs:
        _programs[machine] = assemble(machine) if machine in AUDIT_ARCHES and is_plain() else b""
    return _programs[machine]


def is_plain() -> bool:
    """Whether this process has the machine's own byte order and word size, which the filter is written for."""
    return sys.byteorder == "little" and sys.maxsize > 1 << 32


def assemble(machine: str) -> bytes:
    """The instructions of the filter in the form the kernel takes."""
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCH_AT),
        (EQUAL, 1, 0, AUDIT_ARCHES[machine]),
        refuse(errno.ENOSYS),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    if machine == "x86_64":
        code += [(AT_LEAST, 0, 1, X32_SYSCALL_BIT), refuse(errno.ENOSYS)]
    for code_of_error, listed in REFUSED.items():
        for number in numbers(listed, machine).values():
            code += [(EQUAL, 0, 1, number), refuse(code_of_error)]
    for name, number in numbers(CONDITIONAL, machine).items():
        block = check_of(name)
        code += [(EQUAL, 0, len(block), number), *block]
    code.append((RETURN, 0, 0, SECCOMP_RET_ALLOW))
    return b"".join(struct.pack("<HBBI", *one) for one in code)


def numbers(listed: str, machine: str) -> dict[str, int]:
    """The calls of a list that this machine has, by name."""
    column = list(AUDIT_ARCHES).index(machine)
    found = {}
    for entry in listed.split():
        name, _, both = entry.partition("=")
        number = both.split("/")[column]
        if number != "-":
            found[name] = int(number)
    return found


def check_of(name: str) -> list[Instruction]:
    """The instructions that decide about a call by its arguments."""
    match name:
        case "clone":
            # CLONE_NEWTIME has the bits of clone's exit signal and means nothing there.
            return [*any_bit(0, CLONE_NAMESPACES & ~CLONE_NEWTIME), *otherwise_allow(errno.EPERM)]
        case "unshare":
            return [*any_bit(0, CLONE_NAMESPACES), *otherwise_allow(errno.EPERM)]
        case "ioctl":
            return one_of(1, (TIOCSTI, TIOCLINUX), found=refuse(errno.EPERM), other=allow())
        case "personality":
            return one_of(0, PERSONALITIES, found=allow(), other=refuse(errno.EPERM))
        case "socket":
            return [
                (LOAD, 0, 0, argument(0)),
                (EQUAL, 3, 0, AF_UNIX),
                (EQUAL, 2, 0, AF_INET),
                (EQUAL, 1, 0, AF_INET6),
                (EQUAL, 1, 5, AF_NETLINK),
                allow(),
                (LOAD, 0, 0, argument(2)),
                (EQUAL, 0, 1, NETLINK_ROUTE),
                allow(),
                refuse(errno.EPROTONOSUPPORT),
                refuse(errno.EAFNOSUPPORT),
            ]
        case "socketpair":
            return one_of(0, (AF_UNIX,), found=allow(), other=refuse(errno.EAFNOSUPPORT))
        case "open" | "openat":
            flags = 1 if name == "open" else 2
            return [
                (LOAD, 0, 0, argument(flags)),
                (ANY_BIT, 1, 0, MAKES_A_FILE),
                allow(),
                *any_bit(flags + 1, S_ISUID),
                *otherwise_allow(errno.EPERM),
            ]
    mode = {"fchmodat": 2, "fchmodat2": 2, "mknodat": 2}.get(name, 1)
    return [*any_bit(mode, S_ISUID), *otherwise_allow(errno.EPERM)]


def any_bit(index: int, mask: int) -> list[Instruction]:
    """Test an argument for bits; the next instruction is skipped if none is set."""
    return [(LOAD, 0, 0, argument(index)), (ANY_BIT, 0, 1, mask)]


def otherwise_allow(code: int) -> list[Instruction]:
    """Refuse after a test that held, allow after one that did not."""
    return [refuse(code), allow()]


def one_of(
    index: int, values: tuple[int, ...], *, found: Instruction, other: Instruction
) -> list[Instruction]:
    """Decide by whether the low half of an argument is one of these values."""
    tests: list[Instruction] = [(EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [(LOAD, 0, 0, argument(index)), *tests, other, found]


def argument(index: int) -> int:
    """The offset of the low half of an argument; the kernel uses only that half of these."""
    return ARGUMENTS_AT + 8 * index


def refuse(code: int) -> Instruction:
    """Refuse a call with an errno."""
    return (RETURN, 0, 0, SECCOMP_RET_ERRNO | code)


def allow() -> Instruction:
    """Allow a call."""
    return (RETURN, 0, 0, SECCOMP_RET_ALLOW)
