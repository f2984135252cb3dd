"""Attacks that read what is hidden, or another process's memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess

from tests.sandbox.attacks.table import LIBC, World, attack, call, libc, read

PTRACE_SEIZE = 0x4206


class Vector(ctypes.Structure):
    """A piece of memory."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@attack()
def key_of_ssh(w: World) -> object:
    return read(f"{w.home}/.ssh/id_ed25519")


@attack()
def key_through_own_root(w: World) -> object:
    return read(f"/proc/self/root{w.home}/.ssh/id_ed25519")


@attack()
def key_through_any_process(w: World) -> object:
    found = ""
    for process in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            found += read(f"/proc/{process}/root{w.home}/.ssh/id_ed25519")
    return found


@attack()
def token_in_a_file(w: World) -> object:
    return read(f"{w.home}/.netrc")


@attack()
def state_of_jaato(w: World) -> object:
    return read(f"{w.state}/keys.json")


@attack()
def file_in_tmp(w: World) -> object:
    return read(w.in_tmp)


@attack()
def key_by_another_link(w: World) -> object:
    link = f"/tmp/keys-{os.getpid()}"
    os.symlink(f"{w.home}/.ssh", link)
    try:
        return read(f"{link}/id_ed25519")
    finally:
        os.unlink(link)


@attack()
def variables_of_process(w: World) -> object:
    return read(f"/proc/{w.witness}/environ")


@attack()
def arguments_of_process(w: World) -> object:
    return read(f"/proc/{w.witness}/cmdline")


@attack()
def variables_of_any_process(w: World) -> object:
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            found += [one for one in read(f"/proc/{entry}/environ").split("\0") if one.startswith("SECRET=")]
    return " ".join(found)


@attack()
def memory_of_process(w: World) -> object:
    with open(f"/proc/{w.witness}/mem", "rb", 0) as memory:
        memory.seek(w.witness_address)
        return memory.read(64).decode("utf-8", "replace")


@attack()
def memory_by_vector(w: World) -> object:
    mine = ctypes.create_string_buffer(64)
    ours = Vector(ctypes.addressof(mine), 64)
    theirs = Vector(w.witness_address, 64)
    call(310, 270, w.witness, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    return mine.raw.decode("utf-8", "replace")


@attack(victim=True)
def write_memory(w: World) -> object:
    with open(f"/proc/{w.victim}/mem", "r+b", 0) as memory:
        memory.seek(w.victim_address)
        memory.write(b"harmed")
    return None


@attack(victim=True)
def write_memory_by_vector(w: World) -> object:
    mine = ctypes.create_string_buffer(b"harmed")
    ours, theirs = Vector(ctypes.addressof(mine), 6), Vector(w.victim_address, 6)
    call(311, 271, w.victim, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    return None


@attack(victim=True)
def trace(w: World) -> object:
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc("ptrace", PTRACE_SEIZE, w.victim, None, None)
    return True


@attack()
def descriptor_of_process(w: World) -> object:
    handle = call(434, 434, w.witness, 0)
    fd = call(438, 438, handle, w.witness_fd, 0)
    return os.pread(fd, 4096, 0).decode()


@attack("user")
def setuid_program(w: World) -> object:
    done = subprocess.run([f"{w.privileged}/setuid", "-u"], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "0"


@attack("user")
def program_with_capabilities(w: World) -> object:
    done = subprocess.run(
        [f"{w.privileged}/capable", f"{w.privileged}/secret"], capture_output=True, text=True, check=False
    )
    return "for root alone" in done.stdout


@attack("root")
def disk(w: World) -> object:
    os.close(os.open(w.disk, os.O_RDONLY))
    return True


@attack("root", weak=False)
def disk_by_a_node_of_ours(w: World) -> object:
    number = w.disk_number
    path = f"{w.inside}/disk"
    os.mknod(path, 0o60600, number)
    os.close(os.open(path, os.O_RDONLY))
    return True


@attack("root")
def messages_of_kernel(w: World) -> object:
    os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    return True


@attack("root")
def messages_by_call(w: World) -> object:
    buffer = ctypes.create_string_buffer(4096)
    return call(103, 116, 3, buffer, 4096) >= 0


@attack()
def shared_memory(w: World) -> object:
    LIBC.shmat.restype = ctypes.c_void_p
    segment = libc("shmget", w.key, 0, 0)
    address = LIBC.shmat(segment, None, 0o10000)
    return ctypes.string_at(address, 64).decode("utf-8", "replace")


@attack()
def shared_memory_by_name(w: World) -> object:
    return read(w.posix_memory)


@attack()
def message_queue(w: World) -> object:
    buffer = ctypes.create_string_buffer(128)
    queue = libc("msgget", w.key, 0)
    libc("msgrcv", queue, buffer, ctypes.c_size_t(100), ctypes.c_long(0), 0)
    return buffer.raw[8:].decode("utf-8", "replace")


@attack()
def message_queue_by_name(w: World) -> object:
    queue = call(240, 180, w.queue.encode(), os.O_RDONLY | os.O_NONBLOCK, 0, None)
    buffer = ctypes.create_string_buffer(8192)
    call(243, 183, queue, buffer, ctypes.c_size_t(8192), None, None)
    return buffer.value.decode()


@attack()
def keyring(w: World) -> object:
    buffer = ctypes.create_string_buffer(256)
    found = call(250, 219, 10, -4, b"user", b"jaato-test", 0)  # KEYCTL_SEARCH in the user's keyring
    call(250, 219, 11, found, buffer, ctypes.c_size_t(256))  # KEYCTL_READ
    return buffer.value.decode()


@attack()
def key_that_is_asked_for(w: World) -> object:
    found = call(249, 218, b"user", b"jaato-test", None, -4)
    return found > 0


@attack()
def new_key(w: World) -> object:
    key = call(248, 217, b"user", b"jaato-test-new", b"x", ctypes.c_size_t(1), -4)
    call(250, 219, 9, key, -4)  # KEYCTL_UNLINK
    return key > 0


@attack()
def numbers(w: World) -> object:
    """Whether processes outside can be seen at all."""
    with open(f"/proc/{w.witness}/stat", "rb") as file:
        return b"python" in file.read()
