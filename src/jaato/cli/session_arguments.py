"""The arguments of `jaato sessions`; nothing but argparse is imported."""

from __future__ import annotations

from jaato.cli.arguments import Parser, positive

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Callable

    Commands = _SubParsersAction[Parser]

SESSIONS = """examples:
  jaato sessions list --all
  jaato sessions show s01k
  jaato sessions export s01k > session.jsonl
  jaato sessions export s01k --bundle --to trip.jaato
  jaato sessions import trip.jaato
  jaato sessions search slow test
  jaato sessions fork s01k --at 40 --name "another way"
  jaato sessions delete s01k
  jaato sessions vacuum --keep-days 90 --dry-run"""
KINDS = "list|search|show|rename|fork|export|import|delete|vacuum"


def add_sessions(
    commands: Commands, command: Callable[..., Parser], action: Callable[[Commands, str, str, str], Parser]
) -> None:
    """`jaato sessions`."""
    text = "list, search, show, fork, export, import and delete stored sessions"
    sessions = command(commands, "sessions", "sessions", text, SESSIONS)
    kinds = sessions.add_subparsers(dest="action", metavar=KINDS, required=True)
    listing = action(kinds, "list", "the sessions, newest first", "sessions list --all")
    search = action(
        kinds, "search", "the sessions that have all these words", "sessions search parser timeout"
    )
    search.add_argument("words", nargs="+", metavar="WORD", help='a word, or "several in this order"')
    for one in (listing, search):
        one.add_argument("--all", action="store_true", help="of every workspace, not only of this one")
        one.add_argument(
            "--limit", type=positive, default=50, metavar="N", help="at most so many (default 50)"
        )
    show = action(kinds, "show", "the conversation, to be read", "sessions show s01k --full")
    show.add_argument("--full", action="store_true", help="with whole tool results and thinking")
    rename = action(kinds, "rename", "give a session a name", 'sessions rename s01k "the slow test"')
    fork = action(
        kinds, "fork", "a new session with what this one has up to an event", "sessions fork s01k --at 40"
    )
    fork.add_argument("--at", type=positive, metavar="SEQ", help="the last event it has (default: all)")
    fork.add_argument("--name", metavar="NAME", help="the name of the new session")
    export = action(
        kinds, "export", "every event of it, as JSON lines", "sessions export s01k --to session.jsonl"
    )
    export.add_argument("--to", metavar="FILE", help="into a file instead of stdout")
    export.add_argument(
        "--bundle", action="store_true", help="as a .jaato file with its large results, without secrets"
    )
    take = action(kinds, "import", "a new session here from a bundle", "sessions import trip.jaato")
    take.add_argument("file", metavar="FILE", help="a bundle")
    take.add_argument("--name", metavar="NAME", help="the name of the new session")
    delete = action(kinds, "delete", "remove sessions for good", "sessions delete s01k")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    for one in (show, rename, fork, export):
        one.add_argument("session", metavar="ID", help="its id, the beginning of it, or its name")
    delete.add_argument("sessions", nargs="+", metavar="ID", help="an id, the beginning of one, or a name")
    rename.add_argument("name", metavar="NAME")
    vacuum = add_vacuum(kinds, action)
    for one in (listing, search, show, fork, export, take, vacuum):
        one.add_argument("--json", action="store_true", help="as one JSON document")
    for one in (listing, search, show, rename, fork, export, take, delete, vacuum):
        one.add_argument("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")


TRACE = """Without SESSION the newest of this workspace. A bar says when a piece of work went on within its turn; what waits for a
person is dotted. A session that is at work can be looked at, too.

examples:
  jaato trace
  jaato trace s_01k --last 3
  jaato trace notes --html trace.html
  jaato trace notes --json > spans.jsonl
  jaato trace --from ~/spans.jsonl"""


def add_trace(commands: Commands, command: Callable[..., Parser]) -> None:
    """`jaato trace`."""
    text = "show what a session spent its time and tokens on, as spans of turns, model calls and tool calls"
    trace = command(commands, "trace", "trace", text, TRACE)
    trace.add_argument(
        "session", nargs="?", metavar="SESSION", help="its id, the beginning of it, or its name"
    )
    trace.add_argument("--from", dest="file", metavar="FILE", help="spans of a trace file instead")
    trace.add_argument("--last", type=positive, default=10, metavar="N", help="the last N turns (default 10)")
    kinds = trace.add_mutually_exclusive_group()
    kinds.add_argument("--json", action="store_true", help="as OTLP, a document for each turn on a line")
    kinds.add_argument("--html", metavar="FILE", help="as a page that any browser shows")
    trace.add_argument(
        "--content", action="store_true", help="with --json, also what was said, arguments and results"
    )
    trace.add_argument("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")


def add_vacuum(kinds: Commands, action: Callable[[Commands, str, str, str], Parser]) -> Parser:
    """`jaato sessions vacuum`."""
    text = "remove the sessions beyond what is kept, of every workspace, and make the files small again"
    vacuum = action(kinds, "vacuum", text, "sessions vacuum --keep-days 90 --dry-run")
    vacuum.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    vacuum.add_argument("--keep-days", type=float, metavar="N", help="keep those used in the last N days")
    vacuum.add_argument("--keep-sessions", type=int, metavar="N", help="keep the newest N")
    vacuum.add_argument("--keep-mb", type=float, metavar="N", help="keep the newest, up to N megabytes")
    return vacuum
