"""`jaato trace`: what a session spent its time and tokens on."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from jaato.abc.store import Damaged, Store
from jaato.agent.masking import masked_log
from jaato.cli.ending import say
from jaato.cli.options import workspace_of
from jaato.cli.sessions import session_of
from jaato.cli.trace_lines import lines_of, symbols
from jaato.cli.trace_tree import Trace, traces_of
from jaato.errors import ConfigError, SessionNotFound
from jaato.runtime.assemble import open_store, settings_for
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.secret_values import secrets_of
from jaato.runtime.tracing.fold import Fold
from jaato.runtime.tracing.otlp import document, spans_in
from jaato.runtime.tracing.spans import Span, Value
from jaato.runtime.tracing.targets import resource_of
from jaato.settings import Settings
from jaato.tools.secrets import Secrets

MAX_LINE_BYTES = 64_000_000
MAX_SPANS = 100_000


def main(args: Namespace) -> int:
    """Show the spans of a session, or of a file."""
    workspace = workspace_of(args)
    settings = settings_for(Blueprint(workspace=workspace), workspace)
    if args.file is not None:
        if args.session is not None:
            raise ConfigError("A session and --from name two things to show; give one of them.")
        title, traces, more = args.file, *shown(read(Path(args.file)), args.last)
    else:
        title, spans = stored_spans(settings, args, workspace)
        traces, more = shown(spans, args.last)
    if not traces:
        say("There are no spans: nothing was said in this session yet." if args.file is None else "No spans.")
    if args.json:
        put(traces, resource_of(settings.environ, []))
    elif args.html:
        from jaato.cli.trace_page import page
        from jaato.tools.atomic import write_private

        write_private(Path(args.html), page(title, traces).encode("utf-8", "replace"))
        say(f"The page is {args.html}.")
    else:
        if more:
            say(f"{more} turns before these; --last {more + len(traces)} shows all.")
        width = terminal_width()
        for trace in traces:
            for line in lines_of(trace, width, symbols(sys.stdout.encoding)):
                sys.stdout.write(line + "\n")
    return 0


def stored_spans(settings: Settings, args: Namespace, workspace: Path) -> tuple[str, Iterator[Span]]:
    """A session's id and its spans, those that go on as well. Raises `SessionNotFound`."""
    if not (settings.state_dir / "jaato.db").exists():
        raise SessionNotFound("No session is stored yet; `jaato run` and `jaato chat` begin one.")
    store = open_store(settings)
    try:
        if args.session is not None:
            session_id = session_of(store, args.session, workspace)
        else:
            newest = store.sessions(str(workspace), limit=1)
            if not newest:
                raise SessionNotFound(f"No session has worked in {workspace} yet; name one.")
            session_id = newest[0].id
        content = bool(args.content or settings["trace_content"]) and args.json
        secrets = secrets_of(settings, workspace=workspace)
        return session_id, iter(list(folded(store, session_id, secrets, content=content)))
    finally:
        store.close()


def folded(store: Store, session_id: str, secrets: Secrets, *, content: bool) -> Iterator[Span]:
    """The spans of a stored log; one that is damaged gives those of the rest."""
    fold = Fold(content=content)
    damaged = 0
    for event in masked_log(store.read(session_id), secrets):
        if isinstance(event, Damaged):
            damaged += 1
        else:
            yield from fold.take(event)
    yield from fold.open_spans()
    if damaged:
        say(f"{damaged} records of this session cannot be read; their spans are missing.")


def read(path: Path) -> Iterator[Span]:
    """The spans of a trace file, after those of the one before it. Raises `ConfigError`; a line that is none is passed
    over, and said."""
    bad = 0
    older = path.with_name(f"{path.name}.1")
    try:
        for one in (older, path) if older.is_file() else (path,):
            with one.open("rb") as file:
                while line := file.readline(MAX_LINE_BYTES):
                    try:
                        yield from spans_in(line) if line.strip() else ()
                    except ValueError:
                        bad += 1
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if bad:
        say(f"{bad} lines of {path} are no OTLP documents of spans and were passed over.")


def shown(spans: Iterator[Span], last: int) -> tuple[list[Trace], int]:
    """The last traces and how many there are before them, of the newest spans there are."""
    traces = traces_of(deque(spans, MAX_SPANS))
    return traces[-last:], max(0, len(traces) - last)


def put(traces: list[Trace], resource: dict[str, Value]) -> None:
    """Every trace as one OTLP document on a line."""
    sys.stdout.flush()
    for trace in traces:
        ended = [span for span in trace.spans if span.end_ns is not None]
        if ended:
            sys.stdout.buffer.write(document(ended, resource) + b"\n")
    sys.stdout.buffer.flush()


def terminal_width() -> int:
    """How wide a line may be."""
    from jaato.cli.table import columns

    return columns() or 120
