"""Whether the full-screen client can be used here, and how it is started: it is a layer above this one."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module


def run_full_screen(args: Namespace) -> int:
    """Run the full-screen client, a layer above this one."""
    code: int = import_module("jaato.tui.command").main(args)
    return code


def is_accessible(args: Namespace | None, environ: Mapping[str, str]) -> bool:
    """Whether plain lines are wanted, by option or by the variable ACCESSIBLE."""
    return bool(getattr(args, "accessible", False)) or environ.get("ACCESSIBLE", "0") not in ("", "0")


def can_draw(environ: Mapping[str, str]) -> bool:
    """Whether both ends are a terminal that can be drawn on, with the characters for it."""
    import sys

    if sys.stdin is None or sys.stdout is None:  # closed by the parent process
        return False
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and is_unicode and environ.get("TERM", "") not in ("", "dumb")


def is_installed() -> bool:
    """Whether textual is installed."""
    from importlib.util import find_spec

    return find_spec("textual") is not None
