"""`jaato flow`: instructions carried out with the tools of registries; their traces shown and played again."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from jaato.cli.ending import ERROR, OK, say
from jaato.cli.options import clean_text
from jaato.errors import CancelledException, ConfigError, JaatoError

LIVE_ALONE = ("registry", "token", "yes", "allow", "deny", "name")


def main(args: Namespace) -> int:
    """Carry out one of them; with `--json` every ending is one document."""
    try:
        match args.action:
            case "run":
                from jaato.cli.flow_run import run

                return run(args)
            case "replay" if args.live:
                from jaato.cli.flow_run import again

                return again(args)
            case "replay":
                refuse_for_live(args)
                return replay(args)
        return show(args)
    except KeyboardInterrupt:
        error: JaatoError = CancelledException("Interrupted.")
    except JaatoError as problem:
        error = problem
    if args.json:
        from jaato.cli.table import print_json

        print_json(
            {
                "status": "cancelled" if isinstance(error, CancelledException) else "failed",
                "exit_code": error.exit_code,
                "error": {"code": error.code, "message": str(error)},
            }
        )
    raise error


def replay(args: Namespace) -> int:
    """Play a trace again: told as the run was, and held against what was recorded."""
    from jaato.cli.flow_lines import Teller, screen_of, shown_run
    from jaato.runtime.flow.replay import replay
    from jaato.runtime.flow.trace import read_trace

    trace = read_trace(file_of(args))
    played = replay(trace)
    screen = screen_of()
    teller = Teller(screen)
    for record in trace.records:
        teller(record)
    shown_run(played.run, screen, as_json=args.json)
    error = played.run.error
    if error is not None and error.message not in teller.told:
        say(error.message)
    if not played.whole:
        say("The trace was cut off here; what is there plays as it was recorded.")
        return ERROR
    screen.note("plays as it was recorded", "dim")
    return OK


def refuse_for_live(args: Namespace) -> None:
    """Raise `ConfigError` for what would count where tools are called again, and is not asked for."""
    for name in LIVE_ALONE:
        if getattr(args, name):
            raise ConfigError(f"--{name} is for --live, which calls the tools again; give both, or neither.")


def show(args: Namespace) -> int:
    """What a trace tells."""
    from jaato.cli.flow_lines import page_of
    from jaato.cli.table import print_json, print_line
    from jaato.runtime.flow.result import fold
    from jaato.runtime.flow.trace import read_trace

    trace = read_trace(file_of(args))
    run = fold(trace.records)
    if args.json:
        print_json(run.document())
        return OK
    for line in page_of(run, full=args.full):
        print_line(line)
    if trace.ended is None:
        say("The trace was cut off here.")
    return OK


def file_of(args: Namespace) -> Path:
    """The trace that is named. Raises `ConfigError` for a name that is empty, as that of an unset variable."""
    name = clean_text(args.file)
    if not name:
        raise ConfigError("No file is named; name a trace that `jaato flow run --trace FILE` has written.")
    return Path(name)
