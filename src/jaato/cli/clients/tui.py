"""`jaato tui`: choose between the full-screen client and plain lines, and start it."""

from __future__ import annotations

from argparse import Namespace

from jaato.cli.clients import chat
from jaato.cli.exit_codes import print_message
from jaato.cli.full_screen import can_draw, is_accessible, is_installed, run_full_screen
from jaato.cli.local_download import offer_download
from jaato.cli.output.console import Console
from jaato.settings import environment

MISSING = "Plain lines are used, as the full-screen client is an extra: pip install 'jaato[tui]'."
PLAIN = (
    "Plain lines are used, as the full-screen client needs a terminal with UTF-8 and a TERM other than dumb."
)


def main(args: Namespace) -> int:
    """Run the full-screen client, or `jaato chat` where plain lines are wanted or nothing else can be had."""
    environ = environment()
    if is_accessible(args, environ):
        return chat.main(args)
    if not can_draw(environ):
        print_message(PLAIN)
        return chat.main(args)
    if not is_installed():
        print_message(MISSING)
        return chat.main(args)
    offer_download(args, Console(environ))
    return run_full_screen(args)
