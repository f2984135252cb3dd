"""Attacks by mounting, and by namespaces in which one may mount."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator

from tests.sandbox.attacks.table import World, attack, call, libc, read, write

MS_REMOUNT, MS_BIND, MS_MOVE, MNT_DETACH = 32, 4096, 8192, 2
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000


@contextlib.contextmanager
def place(w: World) -> Iterator[str]:
    """A directory to mount on, gone at the end with whatever is mounted there."""
    path = f"/tmp/{w.name}-{os.getpid()}"
    os.makedirs(path)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            while True:
                libc("umount2", path.encode(), MNT_DETACH)
        os.rmdir(path)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2)."""
    libc("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())


@attack("root", weak=True)
def bind(w: World) -> object:
    with place(w) as target:
        mount(w.outside, target, "", MS_BIND)
        return os.path.exists(f"{target}/canary")


@attack("root", weak=True)
def new_file_system(w: World) -> object:
    with place(w) as target:
        mount("tmpfs", target, "tmpfs", 0)
        return True


@attack("root", weak=True)
def overlay(w: World) -> object:
    with place(w) as target:
        mount("tmpfs", target, "tmpfs", 0)
        for name in ("up", "work", "on"):
            os.makedirs(f"{target}/{name}")
        options = f"lowerdir={w.outside},upperdir={target}/up,workdir={target}/work"
        mount("overlay", f"{target}/on", "overlay", 0, options)
        libc("umount2", f"{target}/on".encode(), MNT_DETACH)
        return True


@attack("any", weak=True)
def remount_root(w: World) -> object:
    """Make what is read-only writable, then write; without a sandbox it is writable at once."""
    try:
        write(w.canary)
    except OSError:
        mount("", "/", "", MS_REMOUNT | MS_BIND)
        write(w.canary)
    return None


@attack("any", weak=True)
def take_mask_away(w: World) -> object:
    path = f"{w.home}/.ssh/id_ed25519"
    if not os.path.exists(path):
        libc("umount2", f"{w.home}/.ssh".encode(), MNT_DETACH)
    return read(path)


@attack("any", weak=True)
def attributes_of_mount(w: World) -> object:
    try:
        write(w.canary)
    except OSError:
        given = struct.pack("=QQQQ", 0, 1, 0, 0)  # clear MOUNT_ATTR_RDONLY
        call(442, 442, AT_FDCWD, b"/", 0, given, ctypes.c_size_t(32))
        write(w.canary)
    return None


@attack("root", weak=True)
def tree_of_mounts(w: World) -> object:
    tree = call(428, 428, AT_FDCWD, w.outside.encode(), 1)
    with place(w) as target:
        call(429, 429, tree, b"", AT_FDCWD, target.encode(), 4)
        return True


@attack("root", weak=True)
def new_interface_of_mounts(w: World) -> object:
    context = call(430, 430, b"tmpfs", 0)
    call(431, 431, context, 6, None, None, 0)
    return call(432, 432, context, 0, 0) >= 0


@attack("root", weak=True)
def another_root(w: World) -> object:
    os.chroot(w.outside)
    return os.path.exists("/canary")


@attack("any")
def nested_user_namespace(w: World) -> object:
    """A user namespace of one's own has all capabilities over the mounts in it."""
    libc("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    return True


@attack("any")
def nested_by_clone(w: World) -> object:
    child = call(56, 220, ctypes.c_ulong(CLONE_NEWUSER | 17), None, None, None, None)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


@attack("any")
def nested_by_clone3(w: World) -> object:
    arguments = struct.pack("=8Q", CLONE_NEWUSER, 0, 0, 0, 17, 0, 0, 0)
    child = call(435, 435, arguments, ctypes.c_size_t(64))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


@attack("root", weak=False)
def settings_of_kernel(w: World) -> object:
    """Whether they can be opened for writing is enough: these are the machine's."""
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return True


@attack("root")
def settings_of_memory(w: World) -> object:
    os.close(os.open("/proc/sys/vm/stat_interval", os.O_WRONLY))
    return True


@attack("root")
def settings_of_interrupts(w: World) -> object:
    path = next(
        one for one in ("/proc/sysrq-trigger", "/proc/irq/default_smp_affinity") if os.path.exists(one)
    )
    os.close(os.open(path, os.O_WRONLY))
    return True


@attack("root")
def devices_of_kernel(w: World) -> object:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    os.close(os.open(path, os.O_WRONLY))
    return True


@attack("root")
def user_file_system(w: World) -> object:
    os.close(os.open("/dev/fuse", os.O_RDWR))
    return True


@attack("root")
def loop_device(w: World) -> object:
    os.close(os.open("/dev/loop-control", os.O_RDWR))
    return True
