"""`jaato tui`: choose between the full-screen client and plain lines, and start it."""

from __future__ import annotations

from argparse import Namespace

from jaato.cli.clients import chat
from jaato.cli.exit_codes import print_message
from jaato.cli.full_screen import can_draw, is_accessible, is_installed, run_full_screen
from jaato.errors import ConfigError
from jaato.settings import environment

MISSING = "The full-screen client needs textual: pip install 'jaato[tui]'. `jaato chat` works without it."
PLAIN = (
    "Plain lines are used, as the full-screen client needs a terminal with UTF-8 and a TERM other than dumb."
)


def main(args: Namespace) -> int:
    """Run the full-screen client, or `jaato chat` where plain lines are wanted. Raises `ConfigError`."""
    environ = environment()
    if is_accessible(args, environ):
        return chat.main(args)
    if not can_draw(environ):
        print_message(PLAIN)
        return chat.main(args)
    if not is_installed():
        raise ConfigError(MISSING)
    return run_full_screen(args)
