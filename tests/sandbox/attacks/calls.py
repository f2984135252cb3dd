"""Attacks by system calls that hold no file and no process, and reach the kernel where it is widest."""

from __future__ import annotations

import ctypes
import mmap
import os

from tests.sandbox.attacks.table import ARM, World, attack, call, libc

MFD_CLOEXEC = 1
AT_EMPTY_PATH = 0x1000


@attack(weak=True)
def rings(w: World) -> object:
    """io_uring does file and network operations that no filter sees."""
    return call(425, 425, 4, ctypes.create_string_buffer(120)) >= 0


@attack("root")
def programs_in_kernel(w: World) -> object:
    attributes = (ctypes.c_uint32 * 20)(2, 4, 4, 1)  # an array of one
    return call(321, 280, 0, attributes, 80) >= 0


@attack("root")
def performance_events(w: World) -> object:
    attributes = (ctypes.c_uint32 * 32)(1, 128)
    return call(298, 241, attributes, 0, -1, -1, 0) >= 0


@attack(weak=True)
def faults_of_memory(w: World) -> object:
    return call(323, 282, os.O_CLOEXEC | 1) >= 0


@attack(weak=True)
def memory_that_executes(w: World) -> object:
    return libc("personality", ctypes.c_ulong(0x0400000)) >= 0  # READ_IMPLIES_EXEC


@attack("root")
def accounting(w: World) -> object:
    """A file that is not there is looked for by who may switch accounting; nothing is switched."""
    try:
        return call(163, 89, b"/nonexistent/file") == 0
    except FileNotFoundError:
        return True


@attack(weak=True)
def older_calls(w: World) -> object:
    """A call of the 32-bit interface, whose numbers are others: the process id, from `int 0x80`."""
    if ARM:
        raise OSError("there are none")
    code = b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3"  # push rbx; mov eax, 20; int 0x80; pop rbx; ret
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid()


@attack()
def program_in_memory(w: World) -> object:
    """A program that is no file, started by its descriptor: still in the sandbox."""
    fd = os.memfd_create("program")
    with open("/bin/sh", "rb") as file:
        os.write(fd, file.read())
    child = os.fork()
    if child == 0:
        words = [b"sh", b"-c", f"echo harmed >{w.canary}".encode(), None]
        vector = (ctypes.c_char_p * 4)(*words)
        none = (ctypes.c_char_p * 1)(None)
        try:
            call(322, 281, fd, b"", vector, none, AT_EMPTY_PATH)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    return None


@attack()
def system_of_filters(w: World) -> object:
    """A filter of one's own that allows all changes nothing: the strictest answer counts."""
    code = ctypes.create_string_buffer(b"\x06\x00\x00\x00\x00\x00\xff\x7f", 8)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    libc("prctl", 38, 1, 0, 0, 0)
    libc("prctl", 22, 2, ctypes.byref(Program(1, ctypes.addressof(code))), 0, 0)
    with open(w.canary, "w") as file:
        file.write("harmed")
    return None


@attack("root")
def own_capabilities(w: World) -> object:
    with open("/proc/self/status") as file:
        found = [line for line in file if line.startswith("CapEff")]
    return int(found[0].split()[1], 16) != 0


@attack("root")
def clock(w: World) -> object:
    """The call that sets the clock, asked to set nothing: the right to it is looked at first."""
    return call(164, 170, None, None) == 0
