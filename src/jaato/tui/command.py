"""`jaato tui`: run the full-screen client."""

from __future__ import annotations

import os
from argparse import Namespace
from functools import partial

from jaato.cli.arguments.values import clean_text
from jaato.cli.exit_codes import ERROR, INTERRUPTED, OK, print_message
from jaato.settings import environment, user_dir
from jaato.tui.app import FullScreenClient
from jaato.tui.preferences import Preferences
from jaato.tui.server_choice import find_server, open_connection


def main(args: Namespace) -> int:
    """Run the client until the user leaves. Raises what has ended it."""
    app = make_app(args)
    code = app.run()
    if app.failure is not None:
        raise app.failure
    link = app.link
    if link.is_open:
        joins = f"`jaato tui --session {link.session.id}`"
        print_message(
            f"the turn continues; {joins} joins it" if link.was_busy else f"{joins} resumes the session"
        )
    if app.return_code:
        return ERROR
    return INTERRUPTED if code is None else OK


def make_app(args: Namespace) -> FullScreenClient:
    """The client for a command line."""
    environ = environment()
    state_dir = user_dir(environ, "XDG_STATE_HOME", ".local/state")
    preferences = Preferences(user_dir(environ, "XDG_CONFIG_HOME", ".config") / "tui.json", environ)
    preferences.mouse = preferences.mouse and not getattr(args, "no_mouse", False)
    first = (clean_text(" ".join(getattr(args, "prompt", None) or [])) or "").strip()
    apps: list[FullScreenClient] = []

    async def confirm(text: str) -> bool:
        return await apps[0].confirm(text)

    apps.append(
        FullScreenClient(
            open_connection(args, confirm),
            state_dir,
            preferences,
            first=first,
            draft_key=choose_draft_key(args),
        )
    )
    if args.command == "tui" and not args.connect and not args.no_daemon:
        apps[0].link.start_server = partial(find_server, args)
    return apps[0]


def choose_draft_key(args: Namespace) -> str:
    """Which draft is kept: that of the session that is named, else of the directory."""
    if args.session:
        return f"session {args.session}"
    try:
        return f"directory {os.path.abspath(args.workspace or os.curdir)}"
    except OSError:
        return ""  # the current directory was removed, which is reported when the session is made
