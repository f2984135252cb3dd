"""`jaato usage`: what the stored sessions have used."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from jaato.abc.store import UsageQuery
from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.commands.sessions import session_of
from jaato.cli.exit_codes import print_message
from jaato.cli.output.console import print_json, print_rows
from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern
from jaato.settings import load
from jaato.storage.sqlite import SqliteStore
from jaato.tools.usage import UsageReport, parse_groups

AGO = lazy_pattern(r"(\d{1,6})\s*(h|d|w)")
HOURS = {"h": 1, "d": 24, "w": 168}


def main(args: Namespace) -> int:
    """Print the table, or one JSON object."""
    now = datetime.now(UTC)
    report = UsageReport(
        parse_groups(clean_text(args.by) or ""),
        since=parse_time(args.since, now, "--since"),
        until=parse_time(args.until, now, "--until"),
    )
    path = load().state_dir / "jaato.db"
    if path.exists():
        read_report(args, report, SqliteStore(path, read_only=True))
    if args.output == "json":
        print_json(report.document)
        return 0
    if not report.rows:
        print_message("No session has used anything in this time.")
    print_rows(report.table)
    for note in report.notes:
        print_message(note)
    return 0


def read_report(args: Namespace, report: UsageReport, store: SqliteStore) -> None:
    """Fill the report from the store. Raises `SessionNotFound`."""
    try:
        session_id = None
        if args.session is not None:
            session_id = session_of(store, args.session, workspace_of(args))
        workspace = str(workspace_of(args)) if args.workspace and session_id is None else None
        query = UsageQuery(since=report.since, session_id=session_id, workspace=workspace)
        report.add_all(store.usage.read(query))
    finally:
        store.close()


def parse_time(text: str | None, now: datetime, option: str) -> str:
    """A time as the log has it, ISO 8601 in UTC; empty for None. Raises `ConfigError`."""
    if text is None:
        return ""
    word = text.strip().lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "yesterday"):
        return format_time(midnight - timedelta(days=word == "yesterday"))
    try:
        if (found := AGO.fullmatch(word)) is not None:
            return format_time(now - timedelta(hours=int(found[1]) * HOURS[found[2]]))
        moment = datetime.fromisoformat(text.strip())
        return format_time(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{option} {clean_text(text)!r:.80} is no time; give a date (2026-11-27), a time (2026-11-27T14:00), today, "
            "yesterday, or how long ago: 12h, 7d, 2w."
        ) from None


def format_time(moment: datetime) -> str:
    """A time as the log writes it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
