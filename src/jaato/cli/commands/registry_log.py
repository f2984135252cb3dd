"""`jaato registry log`: the calls of the registry that is served here."""

from __future__ import annotations

import datetime
import sys
import time
from argparse import Namespace

import msgspec

from jaato.agent.event_redaction import redact_struct
from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.commands.registry_keys import seconds_of
from jaato.cli.ending import say
from jaato.cli.output.tables import print_rows
from jaato.runtime.secrets import collect_secrets
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.server.registry.audit import Audit, AuditEntry, AuditFilter
from jaato.tools.redaction.redactor import Redactor

LOOK_S = 0.2
NONE = (
    "There is no such call. A request that was refused before a tool was called is in the server's own log, "
    "by its request id."
)


def main(args: Namespace) -> int:
    """Show the calls that are asked for; with `--follow` until Ctrl-C, which is no failure."""
    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    if not args.follow and not (settings.state_dir / "jaato.db").exists():
        say("No registry has served anything yet.")
        return 0
    store = open_store(settings)
    secrets = collect_secrets(settings, workspace=workspace)
    try:
        audit = Audit(store, wanted(args))
        found = audit.newest(args.limit)
        if not found and not args.follow:
            say(NONE)
        put(found, secrets, as_json=args.json)
        audit.skip()
        while args.follow:
            time.sleep(LOOK_S)
            put(audit.more(), secrets, as_json=args.json)
    except KeyboardInterrupt:
        return 0
    finally:
        store.close()
    return 0


def wanted(args: Namespace) -> AuditFilter:
    """Which calls are meant. Raises `ConfigError`."""
    since = None
    if args.since is not None:
        ago = datetime.timedelta(seconds=seconds_of(args.since))
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


def put(entries: list[AuditEntry], secrets: Redactor, *, as_json: bool) -> None:
    """Calls on stdout, now."""
    shown = [redact_struct(one, secrets) if secrets.active else one for one in entries]
    if as_json:
        sys.stdout.writelines(msgspec.json.encode(one).decode() + "\n" for one in shown)
    else:
        print_rows([cells(one) for one in shown])
    sys.stdout.flush()


def cells(entry: AuditEntry) -> tuple[str, ...]:
    """A call as a row."""
    ids = [
        f"trace {entry.trace_id}" if entry.trace_id else "",
        f"flow {entry.flow_id}" if entry.flow_id else "",
    ]
    ids.append(f"step {entry.step_id}" if entry.step_id else "")
    return (
        entry.time[:19].replace("T", " "),
        entry.who,
        " ".join(one for one in (entry.action, entry.tool, entry.version) if one),
        entry.outcome,
        "" if entry.ms is None else f"{entry.ms:.1f} ms",
        entry.request_id or "",
        "  ".join([one for one in (*ids, entry.handler or "", entry.message or "") if one]),
    )
