"""Attacks on files outside: links, names, metadata, descriptors."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import socket
import stat
import struct

from tests.sandbox.attacks.table import AT_FDCWD, RENAME_EXCHANGE, World, attack, call, libc, read, write

FS_IOC_SETFLAGS, FS_NODUMP_FL = 0x40086602, 0x40


@attack()
def write_outside(w: World) -> object:
    write(w.canary)
    return None


@attack()
def symbolic_link(w: World) -> object:
    os.symlink(w.canary, f"{w.inside}/link")
    write(f"{w.inside}/link")
    return None


@attack()
def linked_directory(w: World) -> object:
    os.symlink(w.outside, f"{w.inside}/link")
    os.close(os.open(f"{w.inside}/link/new", os.O_CREAT | os.O_WRONLY))
    return None


@attack()
def new_hard_link(w: World) -> object:
    os.link(w.canary, f"{w.inside}/link")
    write(f"{w.inside}/link")
    return None


@attack(held=("read-only",))
def existing_hard_link(w: World) -> object:
    """Known and documented: a file of the workspace that has a second name outside is one file."""
    write(f"{w.inside}/existing")
    return None


@attack()
def through_own_root(w: World) -> object:
    write(f"/proc/self/root{w.canary}")
    return None


@attack()
def through_root_of_any_process(w: World) -> object:
    for process in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            write(f"/proc/{process}/root{w.canary}")
    return None


@attack()
def through_own_cwd(w: World) -> object:
    os.chdir(w.inside)
    up = "/.." * w.inside.count("/")
    write(f"/proc/self/cwd{up}{w.canary}")
    return None


@attack()
def through_root_of_outside_process(w: World) -> object:
    write(f"/proc/{w.witness}/root{w.canary}")
    return None


@attack()
def through_cwd_of_outside_process(w: World) -> object:
    write(f"/proc/{w.witness}/cwd/{w.name}/canary")
    return None


@attack()
def through_descriptor_of_outside_process(w: World) -> object:
    return read(f"/proc/{w.witness}/fd/{w.witness_fd}")


@attack()
def remove(w: World) -> object:
    os.unlink(w.canary)
    return None


@attack()
def rename_away(w: World) -> object:
    os.rename(w.canary, f"{w.outside}/other")
    return None


@attack()
def move_out(w: World) -> object:
    with open(f"{w.inside}/mine", "w") as file:
        file.write("harmed")
    os.rename(f"{w.inside}/mine", w.canary)
    return None


@attack()
def exchange(w: World) -> object:
    os.close(os.open(f"{w.inside}/mine", os.O_CREAT | os.O_WRONLY))
    call(316, 276, AT_FDCWD, f"{w.inside}/mine".encode(), AT_FDCWD, w.canary.encode(), RENAME_EXCHANGE)
    return None


@attack()
def truncate(w: World) -> object:
    os.truncate(w.canary, 0)
    return None


@attack()
def allocate(w: World) -> object:
    os.posix_fallocate(os.open(w.canary, os.O_RDWR), 0, 1 << 16)
    return None


@attack()
def mapped_memory(w: World) -> object:
    with mmap.mmap(os.open(w.canary, os.O_RDWR), 0) as mapped:
        mapped[0:6] = b"harmed"
    return None


@attack()
def change_mode(w: World) -> object:
    os.chmod(w.canary, 0o777)
    return None


@attack()
def change_mode_by_descriptor(w: World) -> object:
    os.fchmod(os.open(w.canary, os.O_RDONLY), 0o777)
    return None


@attack("root")
def change_owner(w: World) -> object:
    os.chown(w.canary, 1, 1)
    return None


@attack()
def change_times(w: World) -> object:
    os.utime(w.canary, (1, 1))
    return None


@attack()
def extended_attribute(w: World) -> object:
    os.setxattr(w.canary, "user.harmed", b"1")
    return None


@attack()
def flags_of_inode(w: World) -> object:
    fcntl.ioctl(os.open(w.canary, os.O_RDONLY), FS_IOC_SETFLAGS, struct.pack("l", FS_NODUMP_FL))
    return True


@attack()
def new_directory(w: World) -> object:
    os.mkdir(f"{w.outside}/new")
    return None


@attack()
def new_pipe(w: World) -> object:
    os.mkfifo(f"{w.outside}/new")
    return None


@attack()
def new_socket(w: World) -> object:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"{w.outside}/new")
    return None


@attack()
def unnamed_file(w: World) -> object:
    fd = os.open(w.outside, os.O_TMPFILE | os.O_WRONLY)
    libc("linkat", AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, f"{w.outside}/new".encode(), 0x400)
    return None


@attack()
def rename_parent_of_workspace(w: World) -> object:
    parent = os.path.dirname(w.workspace)
    os.rename(parent, f"{parent}-away")
    os.rename(f"{parent}-away", parent)
    return True


@attack()
def rename_workspace(w: World) -> object:
    os.rename(w.workspace, f"{w.workspace}-away")
    os.rename(f"{w.workspace}-away", w.workspace)
    return True


@attack()
def inherited_descriptors(w: World) -> object:
    """What was open in the process that started this one: a file, a directory, a listening socket."""
    found = False
    for fd in range(3, 512):
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                continue  # this attack's own answer goes there
            os.write(fd, b"harmed")
            found = True
        except OSError:
            pass
        try:
            os.close(os.open("canary", os.O_RDONLY, dir_fd=fd))
            found = True
        except OSError:
            pass
        try:
            socket.socket(fileno=os.dup(fd)).getsockname()
            found = True
        except OSError:
            pass
    return found


@attack("root")
def file_handle(w: World) -> object:
    """A handle that was made outside opens a file whatever covers its name."""
    handle = ctypes.create_string_buffer(bytes.fromhex(w.handle))
    fd = call(304, 265, os.open(w.outside, os.O_RDONLY), handle, os.O_RDONLY)
    return os.read(fd, 4096).decode()


@attack()
def directory_above_descriptor(w: World) -> object:
    """Out of a directory that is renamed while it is open."""
    os.makedirs(f"{w.inside}/a/b", exist_ok=True)
    fd = os.open(f"{w.inside}/a/b", os.O_RDONLY)
    os.rename(f"{w.inside}/a/b", f"{w.inside}/b")
    up = "../" * (w.inside.count("/") + 2)
    os.close(os.open(f"{up}{w.canary}", os.O_WRONLY | os.O_TRUNC, dir_fd=fd))
    return None
