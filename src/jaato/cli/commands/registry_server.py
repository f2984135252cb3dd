"""`jaato registry serve`, `key` and `log`: serve tools over HTTP, manage the access keys, show the call log."""

from __future__ import annotations

import asyncio
import datetime
import re
import sys
import time
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.cli.arguments.values import clean_text, session_options, split_list, workspace_of
from jaato.cli.exit_codes import print_message
from jaato.cli.output.console import format_date, print_line, print_records, print_rows
from jaato.cli.signals import cancel_on_signal
from jaato.errors import ConfigError
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.server.registry.limits import UNITS_S
from jaato.settings import Settings, load
from jaato.settings.budgets import format_count

if TYPE_CHECKING:
    from jaato.server.auth.gate import AllowedHosts
    from jaato.server.registry.audit import AuditEntry, AuditFilter
    from jaato.server.registry.keys import Guard, KeyEntry
    from jaato.server.registry.routes import ToolRegistry
    from jaato.tools.redaction.redactor import Redactor

TOKEN = "registry-token"  # noqa: S105 the name of a file
POLL_S = 0.2
DURATION = re.compile(r"([1-9][0-9]{0,5})(min|h|d)")
NO_CALLS = "No matching calls. Requests that were refused before a tool was called are in the server's log, by request id."


def main(args: Namespace) -> int:
    """Serve, manage the keys, or show the log."""
    match args.action:
        case "key":
            return manage_keys(args)
        case "log":
            return show_log(args)
    import anyio

    from jaato.server.daemon import configure_logging

    if args.log is None:
        configure_logging(None)
    return anyio.run(serve, args)


# --- serve -----------------------------------------------------------------------------------------------------------


async def serve(args: Namespace) -> int:
    """Serve until a signal."""
    with cancel_on_signal():
        try:
            await serve_at(args)
        except asyncio.CancelledError:
            return 0
    return 0


async def serve_at(args: Namespace) -> None:
    """Serve at the configured address until cancelled. Raises `JaatoError`s when it cannot start."""
    import anyio

    from jaato.server.auth.gate import allow_hosts
    from jaato.server.daemon import configure_logging, freeze_objects
    from jaato.server.registry.application import (
        address_of,
        bind_listener,
        open_registry,
        serving,
    )
    from jaato.server.registry.keys import AllowUntilKeys
    from jaato.tools.network.proxy_settings import is_loopback

    options = session_options(args, split_list(args.plugins))
    settings = serve_settings(args, options)
    host = settings["tool_registry_host"].removeprefix("[").removesuffix("]")
    listener = bind_listener(host, settings["tool_registry_port"])
    try:
        registry = open_registry(options, settings["tool_registry_domains"], args.allow_entry_point)
        try:
            names = allow_hosts(
                host, listener.getsockname()[1], args.allow_host, args.allow_origin, any_port=True
            )
            closed = bool(args.token or options.plugins or not is_loopback(host, strict=True))
            guard, note = make_guard(names, registry, settings, closed=closed)
            if not registry.tools.tools and isinstance(guard, AllowUntilKeys):
                raise ConfigError(
                    "There is nothing to serve: name domains (--domains core) or plugins, or let clients register tools (--token)."
                )
            freeze_objects()
            async with serving(registry, guard, listener):
                await (
                    registry.remote_sources.begin()
                )  # a registry asked for tools may in turn ask this one, or be this one
                count = format_count(len(registry.callers.offered()), "tool")
                print_message(f"serving {count} at {address_of(listener)}{note}")
                if args.log is not None:
                    configure_logging(absolute_path(args.log))
                await anyio.sleep_forever()
        finally:
            await registry.callers.close()
    finally:
        listener.close()


def make_guard(
    names: AllowedHosts, registry: ToolRegistry, settings: Settings, *, closed: bool
) -> tuple[Guard, str]:
    """What authenticates clients, and a note for the user about it. Raises `ConfigError`.

    A key or the owner's token is required when `closed`, and as soon as there are keys or registered tools.
    """
    from jaato.server.auth.tokens import SingleToken, load_or_create_token
    from jaato.server.registry.keys import AllowAnyone, AllowUntilKeys, Keys, RequireKey, default_rate

    rate = default_rate(settings)
    state_dir = registry.callers.state_dir
    keys = Keys(state_dir, rate)

    def has_registered() -> bool:
        return registry.registered.any

    @cache
    def make_keyed() -> RequireKey:
        return RequireKey(names, SingleToken(load_or_create_token(state_dir, TOKEN)[0]), keys)

    if closed or keys.is_required or has_registered():
        return make_keyed(), f"; the token is in {state_dir / TOKEN}"
    return AllowUntilKeys(AllowAnyone(names, rate), keys, make_keyed, has_registered), ""


def absolute_path(text: str) -> Path:
    """The absolute path of a file."""
    return Path(clean_text(text) or "").absolute()


def serve_settings(args: Namespace, options: SessionOptions) -> Settings:
    """The settings with the flags applied. Raises `ConfigError`."""
    assert options.workspace is not None
    flags = {
        "tool_registry_host": clean_text(args.host),
        "tool_registry_port": args.port,
        "tool_registry_domains": None if args.domains is None else list(split_list(args.domains)),
    }
    return settings_for(options, options.workspace).with_flags(flags)


# --- keys ------------------------------------------------------------------------------------------------------------


def manage_keys(args: Namespace) -> int:
    """Add, list or remove keys."""
    from jaato.server.registry.keys import add_key, keys_in

    state_dir = load().state_dir
    file = keys_in(state_dir)
    match args.key_action:
        case "add":
            tools = split_list(args.tools)
            if args.tools is not None and not tools:
                raise ConfigError("--tools is empty; omit it for a key to all tools.")
            is_first = not file.path.exists()
            expires = None if args.expires is None else time.time() + parse_duration(args.expires)
            name, scopes, rate = clean_text(args.name) or "", split_list(args.scope), clean_text(args.rate)
            print_line(add_key(state_dir, name, scopes, tools, expires, rate))
            print_message(f"This is the key of {args.name}. It is not shown again.")
            if is_first:
                print_message(
                    f"From now on every client needs a key; your own token is in {state_dir / TOKEN}."
                )
        case "remove":
            if not file.remove(clean_text(args.name) or ""):
                raise ConfigError(
                    f"There is no key {args.name[:80]!r}; `jaato registry key list` shows them."
                )
            print_message(f"removed the key {args.name}; it is no longer accepted")
            if not file.read():
                print_message(f"It was the last one. Clients still need a key until {file.path} is removed.")
        case _:
            records = [record_of(entry) for entry in file.read()]
            heading = ("NAME", "SCOPES", "TOOLS", "RATE", "CREATED", "EXPIRES")
            print_records(records, key_row, as_json=args.json, heading=heading)
            if not records and not args.json:
                print_message(
                    "There are no keys; `jaato registry key add NAME --scope tools:read,tools:invoke` creates one."
                )
    return 0


def record_of(entry: KeyEntry) -> dict[str, Any]:
    """A key without its hash."""
    fields = ("name", "scopes", "tools", "rate", "created", "expires", "expired")
    return {name: getattr(entry, name) for name in fields}


def key_row(record: dict[str, Any]) -> tuple[str, ...]:
    """A key as a table row."""
    return (
        record["name"],
        ",".join(scope.removeprefix("tools:") for scope in record["scopes"]),
        ",".join(record["tools"]) or "all",
        record["rate"] or "",
        format_date(record["created"]),
        "expired" if record["expired"] else format_date(record["expires"]),
    )


def parse_duration(text: str) -> float:
    """`30d`, `12h`, `90min` in seconds. Raises `ConfigError`."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text[:40]!r} is not a duration: write 30d, 12h or 90min.")
    return float(int(match[1]) * UNITS_S[match[2]])


# --- log -------------------------------------------------------------------------------------------------------------


def show_log(args: Namespace) -> int:
    """Print the matching calls; with `--follow` until Ctrl-C, which is no failure."""
    from jaato.runtime.secrets import collect_secrets
    from jaato.runtime.session_store import open_store
    from jaato.server.registry.audit import Audit

    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    if not args.follow and not (settings.state_dir / "jaato.db").exists():
        print_message("There are no calls yet.")
        return 0
    store = open_store(settings)
    secrets = collect_secrets(settings, workspace=workspace)
    try:
        audit = Audit(store, log_filter(args))
        found = audit.newest(args.limit)
        if not found and not args.follow:
            print_message(NO_CALLS)
        print_calls(found, secrets, as_json=args.json)
        audit.skip()
        while args.follow:
            time.sleep(POLL_S)
            print_calls(audit.more(), secrets, as_json=args.json)
    except KeyboardInterrupt:
        return 0
    finally:
        store.close()
    return 0


def log_filter(args: Namespace) -> AuditFilter:
    """The filter for the calls to show. Raises `ConfigError`."""
    from jaato.server.registry.audit import AuditFilter

    since = None
    if args.since is not None:
        ago = datetime.timedelta(seconds=parse_duration(args.since))
        since = (datetime.datetime.now(datetime.UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S")
    return AuditFilter(
        clean_text(args.request),
        clean_text(args.trace),
        clean_text(args.flow),
        clean_text(args.tool),
        clean_text(args.key),
        since,
        args.failed,
    )


def print_calls(entries: list[AuditEntry], secrets: Redactor, *, as_json: bool) -> None:
    """Print calls and flush."""
    from jaato.agent.event_redaction import redact_struct

    shown = [redact_struct(one, secrets) if secrets.active else one for one in entries]
    if as_json:
        sys.stdout.writelines(msgspec.json.encode(one).decode() + "\n" for one in shown)
    else:
        print_rows([call_row(one) for one in shown])
    sys.stdout.flush()


def call_row(entry: AuditEntry) -> tuple[str, ...]:
    """A call as a table row."""
    ids = (("trace", entry.trace_id), ("flow", entry.flow_id), ("step", entry.step_id))
    details = [*(f"{name} {one}" for name, one in ids if one), entry.handler, entry.message]
    return (
        entry.time[:19].replace("T", " "),
        entry.who,
        " ".join(one for one in (entry.action, entry.tool, entry.version) if one),
        entry.outcome,
        "" if entry.ms is None else f"{entry.ms:.1f} ms",
        entry.request_id or "",
        "  ".join(one for one in details if one),
    )
