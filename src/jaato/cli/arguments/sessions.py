"""The arguments of the commands that work in sessions or on stored ones."""

from __future__ import annotations

from jaato.cli.arguments.options import (
    MODEL,
    PERMISSIONS,
    Command,
    choice,
    flag,
    natural,
    positive,
    repeated,
    value,
)

RUN = """PROMPT is what the agent should do; text piped into the command is appended to it. The answer goes to stdout,
everything else to stderr. A call that needs permission is asked about on the terminal; without one it is denied with the
reason: allow it beforehand with --allow or --yes.

examples:
  jaato run "find the slowest test and say why"
  jaato run --allow 'run(make *)' --allow writeNewFile "add a Makefile target for the linter"
  jaato run --schema '{"type":"object","properties":{"files":{"type":"array"}}}' "which files are unused?"
  jaato run --output events --yes "format the code" > events.jsonl
  cat error.log | jaato run "explain this"

exit codes: 0 the agent finished; 1 error; 2 wrong usage or configuration; 3 the provider failed; 4 a call in the agent's last round of
calls was denied; 5 a limit was reached; 130 interrupted"""
CHAT = """Ctrl-C stops what the agent does, not the program; Ctrl-D or /exit leaves. What you type while the agent works reaches
it at its next pause. /help lists the commands.

examples:
  jaato chat
  jaato chat -c
  jaato chat "what changed since yesterday?"
  jaato chat --provider ollama --model qwen3"""
ATTACH = """examples:
  jaato attach                           the session at work, else the newest of this directory
  jaato attach "the slow test"
  jaato attach s01k --connect ws://laptop:8391 --token-file ~/.config/jaato/laptop-token

Ctrl-C stops the turn, for all who are there. Ctrl-D leaves, and the work goes on."""
EVENTS = """examples:
  jaato events s01k                      what is stored
  jaato events s01k --follow --after 120 | jq .type
  jaato events s01k --follow --no-deltas | grep -m1 turn.completed

--follow ends with Ctrl-C, and when nobody reads the output any more."""
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

AGENT = (
    f"{MODEL} --system-prompt --max-turns --workspace --session --continue --name {PERMISSIONS} "
    "--verbose --connect --token-file --no-daemon"
)
"""What `run` and `chat` may be told."""
OPTIONS = {
    "prompt": value("PROMPT", "what to do; piped text is appended; - is that text alone"),
    "prompt:chat": value("PROMPT", "the first message; then yours to go on"),
    "--image": repeated("FILE", "show the model an image, again for more"),
    "--schema": value("FILE|JSON", "a JSON Schema; the answer is one JSON value that fits it"),
    "--output": choice(
        ("text", "json", "events"), "text (default), one JSON object, or JSON lines", default="text"
    ),
    "session:attach": value(
        "SESSION",
        "its id, the beginning of it, or its name (default: the one at work, else the newest of this directory)",
    ),
    "--follow": flag("go on with what happens, until Ctrl-C"),
    "--after": value("SEQ", "only events after this one", type=natural, default=0),
    "--no-deltas": flag("with --follow: no text as it arrives, whole messages only"),
    "--no-daemon:events": flag("read the store, whatever runs"),
    "--all": flag("of every workspace, not only of this one"),
    "--limit": value("N", "at most so many (default 50)", type=positive, default=50),
    "words": value("WORD", 'a word, or "several in this order"'),
    "--full": flag("with whole tool results and thinking"),
    "name": value("NAME", "what to call it"),
    "--at": value("SEQ", "the last event it has (default: all)", type=positive),
    "--name:new": value("NAME", "the name of the new session"),
    "--to": value("FILE", "into a file instead of stdout"),
    "--bundle": flag("as a .jaato file with its large results, without secrets"),
    "file": value("FILE", "a bundle"),
    "sessions": value("SESSION", "its id, the beginning of it, or its name"),
    "--dry-run": flag("only say what would be removed"),
    "--keep-days": value("N", "keep those used in the last N days", type=float),
    "--keep-sessions": value("N", "keep the newest N", type=int),
    "--keep-mb": value("N", "keep the newest, up to N megabytes", type=float),
}
VACUUM = "remove the sessions beyond what is kept, of every workspace, and make the files small again"
SESSION_ACTIONS = (
    Command("list", "the sessions, newest first", "--all --limit --json --workspace"),
    Command("search", "the sessions that have all these words", "words... --all --limit --json --workspace"),
    Command("show", "the conversation, to be read", "session --full --json --workspace"),
    Command("rename", "give a session a name", "session name --workspace"),
    Command(
        "fork",
        "a new session with what this one has up to an event",
        "session --at --name:new --json --workspace",
    ),
    Command("export", "every event of it, as JSON lines", "session --to --bundle --json --workspace"),
    Command("import", "a new session here from a bundle", "file --name:new --json --workspace"),
    Command("delete", "remove sessions for good", "sessions... --yes:no-question --workspace"),
    Command("vacuum", VACUUM, "--dry-run --keep-days --keep-sessions --keep-mb --json --workspace"),
)
COMMANDS = (
    Command(
        "run",
        "give the agent one task and wait for its answer",
        f"[prompt...] {AGENT} --image --schema --output",
        RUN,
    ),
    Command("chat", "talk with the agent", f"[prompt:chat...] {AGENT}", CHAT),
    Command(
        "attach",
        "join a session of the server at this terminal",
        "[session:attach] --verbose --connect --token-file",
        ATTACH,
        module="commands.chat",
    ),
    Command(
        "events",
        "print what happens in a session, as JSON lines",
        "session --follow --after --no-deltas --workspace --no-daemon:events --connect --token-file",
        EVENTS,
    ),
    Command(
        "sessions",
        "list, search, show, fork, export, import and delete stored sessions",
        epilog=SESSIONS,
        actions=SESSION_ACTIONS,
    ),
)
