"""The arguments of the commands that work in sessions or on stored ones."""

from __future__ import annotations

from jaato.cli.arguments.parser import (
    MODEL,
    PERMISSIONS,
    Command,
    choice,
    flag,
    make_repeatable,
    natural,
    positive,
    value,
)

RUN = """Runs PROMPT to completion; piped input is appended to it. The answer is printed on stdout, everything else on stderr.
Calls that need permission are confirmed on the terminal. Without a terminal they are denied, with the reason: allow them
with --allow or --yes.

examples:
  jaato run "find the slowest test and explain why it is slow"
  jaato run --allow 'run(make *)' --allow writeNewFile "add a Makefile target for the linter"
  jaato run --schema '{"type":"object","properties":{"files":{"type":"array"}}}' "which files are unused?"
  jaato run --output events --yes "format the code" > events.jsonl
  cat error.log | jaato run "explain this"

exit codes: 0 success; 1 error; 2 usage or configuration; 3 provider failed; 4 a call in the last round of calls was denied;
5 limit reached; 130 interrupted"""
CHAT = """Ctrl-C interrupts the agent, Ctrl-D or /exit leaves the program. A message typed while the agent works is delivered at
its next pause. /help lists the commands.

examples:
  jaato chat
  jaato chat -c
  jaato chat "what changed since yesterday?"
  jaato chat --provider ollama --model qwen3"""
ATTACH = """examples:
  jaato attach                           of this directory: the busy session, else the most recent one
  jaato attach --new                     the same, else a new session
  jaato attach "the slow test"
  jaato attach s01k --connect ws://laptop:8391 --token-file ~/.config/jaato/laptop-token

Ctrl-C interrupts the turn, for all clients. Ctrl-D detaches; the turn continues."""
TUI = """Enter sends, Shift+Enter or Ctrl+J begins a line. Escape stops the agent; Ctrl+C twice leaves, and a turn that runs in the server
continues. F1 lists the keys, Ctrl+P the commands. `jaato` without a command does the same at a terminal.

examples:
  jaato tui
  jaato tui -c
  jaato tui "what changed since yesterday?"
  jaato tui --accessible                 plain lines, without drawing: for screen readers (also ACCESSIBLE=1)"""
EVENTS = """examples:
  jaato events s01k                      the stored events
  jaato events s01k --follow --after 120 | jq .type
  jaato events s01k --follow --no-deltas | grep -m1 turn.completed

--follow ends with Ctrl-C, or when the reader of the output exits."""
SESSIONS = """examples:
  jaato sessions list --all
  jaato sessions show s01k --full
  jaato sessions export s01k > session.jsonl
  jaato sessions export s01k --bundle --to trip.jaato
  jaato sessions import trip.jaato
  jaato sessions search slow test
  jaato sessions rename s01k "the slow test"
  jaato sessions fork s01k --at 40 --name "another way"
  jaato sessions delete s01k
  jaato sessions vacuum --keep-days 90 --dry-run"""

USAGE = """Reads the stored sessions of all workspaces; nothing is written, and sessions that are open are read as they are. Days are
those of UTC. Prices are those recorded when the calls were made. The tokens of tool results (~) are estimated from their length.

examples:
  jaato usage
  jaato usage --since today --by session
  jaato usage --since 7d --by day
  jaato usage --session s01k --by agent,model
  jaato usage --since 2026-11-01 --until 2026-12-01 --by tool --output json"""
CONTEXT = """examples:
  jaato context                          the most recent session of this directory
  jaato context s01k
  jaato context "the slow test" --json | jq '.blocks[] | .kind'

Token counts are the provider's, divided among the parts by their size. /context shows the same in a session."""

AGENT = (
    f"{MODEL} --system-prompt --max-turns --budget --workspace --session --continue --name {PERMISSIONS} "
    "--verbose --connect --token-file --no-daemon"
)
"""The options of `run` and `chat`."""
OPTIONS = {
    "prompt": value("PROMPT", "the prompt; piped input is appended; - reads only stdin"),
    "prompt:chat": value("PROMPT", "the first message"),
    "--image": make_repeatable("FILE", "attach an image (repeatable)"),
    "--schema": value("FILE|JSON", "JSON Schema of the answer, which is then one JSON value"),
    "--output": choice(
        ("text", "json", "events"), "text (default), one JSON object, or events as JSON lines", default="text"
    ),
    "session:attach": value(
        "SESSION",
        "session id, a prefix of it, or its name (default: of this directory, the busy session, else the most recent one)",
    ),
    "--by": value(
        "GROUP[,GROUP]",
        "day, session, agent, model, tool, or several of them (default: day,model)",
        default="day,model",
    ),
    "--since": value("TIME", "from this time on: a date, a time, today, yesterday, or 7d, 12h ago"),
    "--until": value("TIME", "before this time"),
    "--output:usage": choice(("text", "json"), "text (default) or one JSON object", default="text"),
    "--workspace:usage": value("DIR", "only sessions of this directory (default: of all)"),
    "--accessible": flag("plain lines without drawing, for screen readers"),
    "--no-mouse": flag("leave the mouse to the terminal"),
    "--full-screen": flag("show the session in the full-screen client"),
    "--new": flag("start a session if this directory has none"),
    "--follow": flag("keep printing new events until Ctrl-C"),
    "--after": value("SEQ", "only events after this sequence number", type=natural, default=0),
    "--no-deltas": flag("with --follow: whole messages only, no streamed text"),
    "--no-daemon:events": flag("read the store even when a server is running"),
    "--all": flag("of all workspaces"),
    "--limit": value("N", "maximum number of sessions (default 50)", type=positive, default=50),
    "--names": flag("print only names, or ids of sessions without one"),
    "words": value("WORD", 'a word, or a "quoted phrase"'),
    "--full": flag("show complete tool results and thinking"),
    "name": value("NAME", "new name"),
    "--at": value("SEQ", "last event to copy (default: all)", type=positive),
    "--name:new": value("NAME", "name of the new session"),
    "--to": value("FILE", "write to a file instead of stdout"),
    "--bundle": flag("write a .jaato file that includes large results, with secrets redacted"),
    "file": value("FILE", "a bundle"),
    "sessions": value("SESSION", "session id, a prefix of it, or its name"),
    "--dry-run": flag("only print what would be removed"),
    "session:context": value(
        "SESSION", "session id, a prefix of it, or its name (default: the most recent one of this directory)"
    ),
    "--keep-days": value("N", "keep sessions used in the last N days", type=float),
    "--keep-sessions": value("N", "keep the N most recent sessions", type=int),
    "--keep-mb": value("N", "keep the most recent sessions, up to N megabytes", type=float),
}
VACUUM = "remove sessions of all workspaces beyond the retention limits, and compact the database"
SESSION_ACTIONS = (
    Command("list", "list sessions, most recent first", "--all --limit --json|--names --workspace"),
    Command(
        "search", "find sessions that contain all these words", "words... --all --limit --json --workspace"
    ),
    Command("show", "print the conversation of a session", "session --full --json --workspace"),
    Command("rename", "rename a session", "session name --workspace"),
    Command(
        "fork",
        "copy a session, up to an event, into a new one",
        "session --at --name:new --json --workspace",
    ),
    Command("export", "print all events as JSON lines", "session --to --bundle --json --workspace"),
    Command("import", "create a session from a bundle", "file --name:new --json --workspace"),
    Command("delete", "permanently delete sessions", "sessions... --yes:no-question --workspace"),
    Command("vacuum", VACUUM, "--dry-run --keep-days --keep-sessions --keep-mb --json --workspace"),
)
COMMANDS = (
    Command(
        "run",
        "run one prompt and print the answer",
        f"[prompt...] {AGENT} --image --schema --output",
        RUN,
    ),
    Command(
        "chat",
        "start an interactive session",
        f"[prompt:chat...] {AGENT} --accessible",
        CHAT,
        module="clients.chat",
    ),
    Command(
        "attach",
        "attach this terminal to a session of the server",
        "[session:attach] --new --full-screen --accessible --workspace --verbose --connect --token-file",
        ATTACH,
        module="clients.chat",
        unused=f"{MODEL} --system-prompt --max-turns --budget --continue --name --no-daemon {PERMISSIONS}",
    ),
    Command(
        "tui",
        "start the full-screen client in a new or resumed session",
        f"[prompt:chat...] {AGENT} --accessible --no-mouse",
        TUI,
        module="clients.tui",
    ),
    Command(
        "events",
        "print the events of a session as JSON lines",
        "session --follow --after --no-deltas --workspace --no-daemon:events --connect --token-file",
        EVENTS,
    ),
    Command(
        "context",
        "show what the model's context of a session consists of",
        "[session:context] --json --workspace",
        CONTEXT,
    ),
    Command(
        "sessions",
        "list, search, show, fork, export, import and delete stored sessions",
        epilog=SESSIONS,
        actions=SESSION_ACTIONS,
    ),
    Command(
        "usage",
        "show the tokens, price and time of stored sessions, by day, session, agent, model or tool",
        "--by --since --until --session --output:usage --workspace:usage",
        USAGE,
    ),
)
