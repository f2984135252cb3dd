"""The way to a server by its kind: a process, streamable HTTP, or the older server-sent events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jaato.plugins.mcp.config import access_of, warn_unconfined
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.server import Setting
from jaato.settings import home_of
from jaato.tools.processes.launcher import WardenClient

if TYPE_CHECKING:
    from jaato.plugins.mcp.client import Transport


def way_to(setting: Setting, launcher: WardenClient, log: ServerLog, older: bool) -> Transport:
    """A transport to the server, not opened yet; `older` for one that does not know streamable HTTP."""
    config = setting.config
    if config.kind == "stdio":
        if told := warn_unconfined(config, setting.state_dir):
            log.note(told)
        from jaato.plugins.mcp.transports.stdio import StdioTransport, environment_for

        place = Path(config.cwd).expanduser() if config.cwd else Path()
        return StdioTransport(
            [config.command, *config.args],
            setting.workspace / place,
            environment_for(setting.environ, config.env),
            launcher,
            log,
            access_of(config, home_of(setting.environ)),
            setting.sandbox.beside(
                setting.cache_dir / "mcp-sandbox" / config.identity if setting.cache_dir else None
            ),
        )
    from jaato.plugins.mcp.transports.http import HttpTransport

    return HttpTransport(setting, older=older or config.kind == "sse")
