"""How sessions are opened: their directory, the editor's MCP servers, and the command of the server."""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from acp import schema
from jaato.acp.errors import invalid_params, request_error
from jaato.cli.output.console import one_line, visible
from jaato.client.connection import Client, word
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError, ServerGone, SessionBusy, SessionNotFound
from jaato.protocol.commands import SessionCreate
from jaato.protocol.frames import Opened
from jaato.tools.call import replace_surrogates

Server = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


async def open_session(client: Client, creation: SessionCreate) -> tuple[Opened, str]:
    """Create or open a session without those of the editor's MCP servers that fail; and a notice for the user, which names
    them. Raises `JaatoError`s."""
    notices: list[str] = []
    while True:
        try:
            opened = await client.ask(creation)
        except (SessionBusy, ServerGone):
            raise
        except JaatoError as error:
            servers = creation.mcp_servers
            if not servers:
                raise
            failed = [name for name in servers if is_about(error, name)] or list(servers)
            named = ", ".join(visible(name) for name in failed)
            notices.append(f"{error} The session is without this MCP server of the editor: {named}.")
            kept = {name: entry for name, entry in servers.items() if name not in failed}
            creation = replace(creation, mcp_servers=kept, once=word() if creation.once else "")
        else:
            assert isinstance(opened, Opened)
            return opened, "\n".join(filter(None, [*notices, opened.notice]))


def is_about(error: JaatoError, server: str) -> bool:
    """Whether an error names an MCP server."""
    return any(f"server {name} " in str(error) for name in (server, repr(server)))


def read_cwd(cwd: str) -> str:
    """A directory that the editor names. Raises `RequestError` for what is no absolute path."""
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise invalid_params(f"cwd is an absolute path, not {one_line(cwd, 100)!r}.")
    return replace_surrogates(cwd)


def check_stored(session: RemoteSession, creation: SessionCreate) -> None:
    """Check that a stored session is the one that the editor means. Raises `RequestError`."""
    if session.id != creation.session_id:
        text = f"No session has the id {one_line(creation.session_id, 60)}; session/list has the ids."
        raise request_error(SessionNotFound(text))
    own, named = session.state.workspace, creation.workspace
    if os.path.normpath(own) != os.path.normpath(named) and os.path.realpath(own) != os.path.realpath(named):
        raise invalid_params(f"The session works in {visible(own)}: open it with this directory as its cwd.")


def server_entries(servers: list[Server]) -> dict[str, Any]:
    """The MCP servers of the editor by name, as in `.mcp.json`. Raises `RequestError` for one of another kind."""
    entries: dict[str, Any] = {}
    for server in servers:
        match server:
            case schema.McpServerStdio():
                env = {variable.name: variable.value for variable in server.env}
                entry: dict[str, Any] = {"command": server.command, "args": list(server.args), "env": env}
            case schema.HttpMcpServer() | schema.SseMcpServer():
                headers = {header.name: header.value for header in server.headers}
                entry = {"type": server.type, "url": server.url, "headers": headers}
            case _:
                raise invalid_params("MCP servers are reached by stdio, http or sse.")
        entries[" ".join(server.name.split())] = entry
    return entries
