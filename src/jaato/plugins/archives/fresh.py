"""A new file that appears whole or not at all, and of which nothing is left when its writer is killed."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from jaato.errors import ToolError

O_TMPFILE = getattr(os, "O_TMPFILE", 0)
SUFFIX = ".jaato-part"


@dataclass(slots=True)
class Fresh:
    """A file being written in a directory; `hidden` is its name until it appears, if it has one."""

    fd: int
    dir_fd: int
    hidden: str

    def appear(self, name: str, *, over: bool) -> None:
        """Give it its name; raises OSError when something has it, unless `over` replaces that."""
        if not self.hidden and not over:
            self._link(name)
            return
        if not self.hidden:
            self.hidden = hidden_name()
            self._link(self.hidden)
        if over:
            os.rename(self.hidden, name, src_dir_fd=self.dir_fd, dst_dir_fd=self.dir_fd)
            self.hidden = ""
        else:
            os.link(self.hidden, name, src_dir_fd=self.dir_fd, dst_dir_fd=self.dir_fd, follow_symlinks=False)

    def _link(self, name: str) -> None:
        os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self.dir_fd, follow_symlinks=True)


@contextlib.contextmanager
def fresh(dir_fd: int, mode: int) -> Iterator[Fresh]:
    """A new file in a directory, gone again unless it appeared. Raises `ToolError` for what the system refuses."""
    try:
        made = opened(dir_fd, mode)
        try:
            yield made
        finally:
            os.close(made.fd)
            if made.hidden:
                with contextlib.suppress(OSError):
                    os.unlink(made.hidden, dir_fd=dir_fd)
    except FileExistsError:
        raise ToolError("it exists already; overwrite=true replaces files") from None
    except OSError as error:
        raise ToolError(f"the file system refuses: {error.strerror}") from None


def opened(dir_fd: int, mode: int) -> Fresh:
    """A file without a name where the file system has such, else under a hidden one."""
    if O_TMPFILE and os.path.exists("/proc/self/fd"):
        try:
            return Fresh(os.open(".", O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=dir_fd), dir_fd, "")
        except OSError:
            pass  # not on this file system
    hidden = hidden_name()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return Fresh(os.open(hidden, flags, mode, dir_fd=dir_fd), dir_fd, hidden)


def hidden_name() -> str:
    """A name nobody has."""
    return f".{secrets.token_hex(8)}{SUFFIX}"
