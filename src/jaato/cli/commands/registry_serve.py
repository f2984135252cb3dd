"""`jaato registry serve`: tools of this machine for programs elsewhere, over HTTP."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.cli.arguments.values import clean_text, listed, serving_options
from jaato.cli.ending import say
from jaato.cli.output.tables import counted
from jaato.cli.signals import interruptible
from jaato.errors import ConfigError
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.settings import Settings

if TYPE_CHECKING:
    from jaato.server.auth.hosts import AllowedHosts
    from jaato.server.registry.keys import Guard
    from jaato.server.registry.routes import ToolRegistry

TOKEN = "registry-token"  # noqa: S105 the name of a file


def main(args: Namespace) -> int:
    """Serve until a signal comes."""
    import anyio

    from jaato.server import log_file as logs

    if args.log is None:
        logs.configure_logging(None)
    return anyio.run(serve, args)


async def serve(args: Namespace) -> int:
    """Serve at the address; a signal ends it."""
    with interruptible():
        try:
            await serve_at(args)
        except asyncio.CancelledError:
            return 0
    return 0


async def serve_at(args: Namespace) -> None:
    """Serve at the address that is given, or set, until cancelled. Raises `JaatoError`s when it cannot begin."""
    import anyio

    from jaato.server import log_file as logs
    from jaato.server.auth.hosts import allow_hosts
    from jaato.server.daemon import freeze_objects
    from jaato.server.registry.application import address_of, bound, is_loopback, open_registry, serving

    blueprint = serving_options(args, listed(args.plugins))
    settings = settings_of(args, blueprint)
    host, port = (
        settings["tool_registry_host"].removeprefix("[").removesuffix("]"),
        settings["tool_registry_port"],
    )
    listener = bound(host, port)
    try:
        door = open_registry(blueprint, settings["tool_registry_domains"], args.allow_entry_point)
        try:
            names = allow_hosts(
                host, listener.getsockname()[1], args.allow_host, args.allow_origin, any_port=True
            )
            where = address_of(listener)
            closed = bool(args.token or blueprint.plugins or not is_loopback(host))
            guard, told = guard_of(names, door, settings, closed=closed)
            refuse_empty(door, guard)
            freeze_objects()
            async with serving(door, guard, listener):
                await door.onward.begin()  # one of those who are asked may ask here, or be this registry
                say(f"serving {counted(len(door.callers.offered()), 'tool')} at {where}{told}")
                if args.log is not None:
                    logs.configure_logging(file_of(args.log))
                await anyio.sleep_forever()
        finally:
            await door.callers.close()
    finally:
        listener.close()


def guard_of(
    names: AllowedHosts, door: ToolRegistry, settings: Settings, *, closed: bool
) -> tuple[Guard, str]:
    """Who is let in, and what is said of it: where it is closed, there are keys, or tools that others have put there, whoever
    has a key or the owner's token. Raises `ConfigError`."""
    from jaato.server.auth.tokens import SingleToken, load_or_create_token
    from jaato.server.registry.keys import AllowAnyone, AllowUntilKeys, Keys, RequireKey, default_rate

    rate = default_rate(settings)
    state_dir = door.callers.state_dir
    keys = Keys(state_dir, rate)

    def grown() -> bool:
        return door.registered.any

    @cache
    def keyed() -> RequireKey:
        return RequireKey(names, SingleToken(load_or_create_token(state_dir, TOKEN)[0]), keys)

    if closed or keys.wanted or grown():
        keyed()
        return keyed(), f"; the token is in {state_dir / TOKEN}"
    return AllowUntilKeys(AllowAnyone(names, rate), keys, keyed, grown), ""


def file_of(text: str) -> Path:
    """A file by its path, wherever the process goes."""
    return Path(clean_text(text) or "").absolute()


def settings_of(args: Namespace, blueprint: SessionOptions) -> Settings:
    """The settings, with what the arguments say. Raises `ConfigError`."""
    assert blueprint.workspace is not None
    settings = settings_for(blueprint, blueprint.workspace)
    flags = {
        "tool_registry_host": clean_text(args.host),
        "tool_registry_port": args.port,
        "tool_registry_domains": None if args.domains is None else list(listed(args.domains)),
    }
    return settings.with_flags(flags)


def refuse_empty(door: ToolRegistry, guard: Guard) -> None:
    """Raise `ConfigError` where there is no tool, and nobody who comes may put one there."""
    from jaato.server.registry.keys import AllowUntilKeys

    if not door.tools.tools and isinstance(guard, AllowUntilKeys):
        raise ConfigError(
            "There is nothing to serve: name domains (--domains core) or plugins, or let tools be put here (--token)."
        )
