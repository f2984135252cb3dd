"""`jaato mcp login` and `logout`."""

from __future__ import annotations

import time
from argparse import Namespace
from importlib.util import find_spec

import anyio

from jaato.cli.ending import INTERRUPTED, OK, USAGE, say
from jaato.cli.mcp import Desk, asker
from jaato.cli.signals import interruptible
from jaato.cli.table import print_line
from jaato.errors import ConfigError, PermissionDenied
from jaato.plugins.mcp.config import ServerConfig


def main(desk: Desk, args: Namespace) -> int:
    """Log in to a server, or forget that. Raises `ConfigError`, `PermissionDenied`, `OAuthFault`."""
    config = desk.named(args.server)
    if find_spec("mcp") is None:
        raise ConfigError("MCP servers need the extra mcp: pip install 'jaato[mcp]'.")
    if config.kind == "stdio":
        raise ConfigError(
            f"{config.name} is started on this machine and knows no login; give it a key as a variable: "
            f"`jaato mcp add {config.name} --replace --env NAME='${{NAME}}' -- …`."
        )
    if not desk.directory.trusts(config):
        raise PermissionDenied(
            f"The MCP server {config.name!r} is named by {config.origin} and not trusted as it is now; look at it "
            f"and trust it with `jaato mcp trust {config.name}`."
        )
    return anyio.run(carried, desk, config, args.action == "logout")


async def carried(desk: Desk, config: ServerConfig, leave: bool) -> int:
    """Log in or out, until it is done or Ctrl-C ends it."""
    from jaato.plugins.mcp.http import allowed_for
    from jaato.plugins.mcp.oauth import login, logout
    from jaato.plugins.mcp.oauth_store import open_store

    filled = desk.directory.setting(config.name).config
    if any(name.lower() == "authorization" for name in filled.headers):
        say(f"{config.name} is sent the Authorization that its configuration has; a login would not be used.")
        return USAGE
    store = open_store(desk.settings.state_dir)
    environ = desk.settings.environ
    allowed = allowed_for(filled, desk.places.allow_hosts)
    with interruptible():
        try:
            if leave:
                print_line(await logout(filled, store, environ=environ, allowed=allowed))
                return OK
            state = await login(filled, store, asker(environ), environ=environ, allowed=allowed)
        except anyio.get_cancelled_exc_class():
            say("Interrupted.")
            return INTERRUPTED
    scope = f" for {', '.join(state.scope)}" if state.scope else ""
    until = ""
    if state.expires_at is not None and not state.renews:
        until = f" until {time.strftime('%Y-%m-%d %H:%M', time.localtime(state.expires_at))}"
    print_line(f"logged in to {config.name} at {state.issuer}{scope}{until}")
    return OK
