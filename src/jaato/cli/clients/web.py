"""`jaato web`: pair a browser with the server, which is started if it is not running, and open the page."""

from __future__ import annotations

import html
import os
from argparse import Namespace
from pathlib import Path
from urllib.parse import quote

from jaato.cli.connect import connect_or_start, connect_to
from jaato.cli.exit_codes import OK, print_message
from jaato.client.address import Address, socket_path
from jaato.protocol.commands import PairingCreate
from jaato.protocol.frames import Pairing
from jaato.settings import environment, user_dir
from jaato.tools.filesystem.atomic import write_private

OPENER = "open-page.html"
"""The file the browser is given: a link on its command line would be visible to other users of the machine."""


def main(args: Namespace) -> int:
    """Print or open a link to the page. Raises `ConfigError`, `ServerGone`."""
    if args.ipc_socket:
        connected = connect_to(Address(path=Path(args.ipc_socket).absolute()))
    else:
        connected = connect_or_start(socket_path(environment()))
    with connected as client:
        pairing = client.ask(PairingCreate(role=args.role))
    assert isinstance(pairing, Pairing)
    page = pairing.url.partition("#")[0]
    link = add_directory(pairing.url)
    if not args.no_open and open_browser(link):
        print_message(f"opened {page} in the browser")
        return OK
    print(link, flush=True)
    print_message(
        f"This link pairs one browser, once, within {pairing.valid_s / 60:.0f} minutes. A paired browser opens {page}"
    )
    return OK


def add_directory(url: str) -> str:
    """A link with the current directory, which new sessions suggest; as it is where the directory was removed."""
    try:
        directory = os.fsencode(os.getcwd())
    except OSError:
        return url
    return f"{url}&in={quote(directory)}"


def open_browser(url: str) -> bool:
    """Open a link in the user's browser; whether there is one. Its address is in a private file, not in its arguments."""
    import webbrowser

    file = user_dir(environment(), "XDG_STATE_HOME", ".local/state") / OPENER
    link = html.escape(url, quote=True)
    write_private(
        file,
        f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>jaato</title>'
        f'<meta http-equiv="refresh" content="0;url={link}"><a href="{link}">Open the page</a>\n'.encode(),
    )
    try:
        return webbrowser.open(file.as_uri())
    except webbrowser.Error as error:
        print_message(f"The browser did not open: {error}")
        return False
