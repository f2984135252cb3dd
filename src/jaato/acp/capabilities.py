"""What an editor can do, by what it declares and what is known of it."""

from __future__ import annotations

from acp.schema import Implementation
from msgspec import Struct

from acp import schema
from jaato.acp.terminals import follow_command
from jaato.client.connection import Client
from jaato.protocol.commands import ServedFiles

NAMELESS = ("CodeCompanion.nvim",)
"""Editors that show the kinds of options in place of their names."""
DISK_READERS = ("CodeCompanion.nvim",)
"""Editors that answer with the text on the disk, and replace the text of a buffer, unsaved or not, when they write."""


class Capabilities(Struct, frozen=True):
    """What an editor can do."""

    has_forms: bool = False
    shows_names: bool = True
    """Whether the options of a permission request are shown by their names."""
    serves_files: ServedFiles | None = None
    display_terminals: bool = False
    """Whether it shows output that is sent in `_meta` in a terminal without a program."""
    runs_login: bool = False
    """Whether it runs its command with other arguments in a terminal, to log in at this machine."""
    follow: tuple[str, ...] = ()
    """The program for its terminals that follows a call; empty where none is used."""


def capabilities_of(
    declared: schema.ClientCapabilities | None, editor: Implementation | None, client: Client
) -> Capabilities:
    """What an editor can do for sessions of the server of this client. What is declared in another form than the protocol's is not
    there: the library passes some of it on as it is."""
    name = "" if editor is None else editor.name
    if declared is None:
        return Capabilities(shows_names=name not in NAMELESS)
    forms, meta, socket = declared.elicitation, declared.field_meta, client.socket
    is_local = client.in_process or bool(client.welcome.state_dir)
    display_terminals = isinstance(meta, dict) and meta.get("terminal_output") is True
    follows = declared.terminal and socket is not None and not display_terminals
    return Capabilities(
        has_forms=isinstance(forms, schema.ElicitationCapabilities) and forms.form is not None,
        shows_names=name not in NAMELESS,
        serves_files=served_files(declared.fs, name) if is_local else None,
        display_terminals=display_terminals,
        runs_login=is_local
        and isinstance(declared.auth, schema.AuthCapabilities)
        and bool(declared.auth.terminal),
        follow=follow_command(socket) if follows and socket is not None else (),
    )


def served_files(declared: schema.FileSystemCapabilities | None, name: str) -> ServedFiles | None:
    """What an editor of this name serves; one that could only write, or that reads the disk, serves nothing, as unsaved text
    would be lost unseen."""
    if (
        not isinstance(declared, schema.FileSystemCapabilities)
        or name in DISK_READERS
        or not declared.read_text_file
    ):
        return None
    return "write" if declared.write_text_file else "read"
