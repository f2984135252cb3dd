"""`jaato run`: one task, its answer on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.cli.ending import DENIED, ERROR, INTERRUPTED, OK, mute
from jaato.cli.options import clean_text, schema_of_argument
from jaato.cli.screen import Screen
from jaato.errors import CancelledException, ConfigError, JaatoError, LimitReached, from_code
from jaato.protocol.events import TurnCompleted
from jaato.settings import environment

if TYPE_CHECKING:
    from jaato.cli.telling import Telling

MAX_STDIN_BYTES = 4_000_000
STDIN_NOTICE_S = 1.0


def main(args: Namespace) -> int:
    """Run one prompt to its end; the exit code says how it ended. With `--output json` every ending is one object."""
    tellings: list[Telling] = []
    try:
        return carried(args, tellings)
    except KeyboardInterrupt:
        error: JaatoError = CancelledException("Interrupted.")
    except JaatoError as problem:
        error = problem
    if args.output == "json":
        from jaato.cli.report import failure_of, print_json

        try:
            print_json(failure_of(tellings[0].outcome.session_id if tellings else "", error))
        except BrokenPipeError:
            mute()
    raise error


def carried(args: Namespace, tellings: list[Telling]) -> int:
    """The run itself, in the server or in this process; its telling is put into `tellings` as soon as there is any."""
    from jaato.cli.telling import Telling

    schema = schema_of_argument(args.schema)
    screen = Screen(environment())
    telling = Telling(args, screen, schema)
    for image in args.image:
        if not is_file(image):
            raise ConfigError(f"The image {image} is no file that can be read.")
    prompt = prompt_of(args)
    tellings.append(telling)
    from jaato.cli.reach import reached

    client = reached(args, screen)
    if client is not None:
        from jaato.cli.served_run import ServedRun

        return ServedRun(args, screen, prompt, telling, client).run()
    import anyio

    from jaato.cli.work import Work

    code: int = anyio.run(Work(args, screen, prompt, telling).run)
    return code


def is_file(name: str) -> bool:
    """Whether there is a file of this name; one no file can have is none."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def prompt_of(args: Namespace) -> str:
    """The prompt with what was piped in. Raises `ConfigError` when there is neither."""
    words = clean_text(" ".join(word for word in args.prompt if word != "-")) or ""
    piped = read_piped()
    prompt = "\n\n".join(part for part in (words.strip(), piped.strip("\n")) if part.strip())
    if not prompt:
        raise ConfigError('Say what the agent should do: jaato run "PROMPT", or pipe text into it.')
    return prompt


def read_piped() -> str:
    """What was piped into the command; nothing when stdin is a terminal or closed."""
    try:
        if sys.stdin.isatty():
            return ""
        data = read_announced(sys.stdin.fileno())
    except (OSError, ValueError):
        return ""
    if len(data) > MAX_STDIN_BYTES:
        raise ConfigError(
            f"More than {MAX_STDIN_BYTES:,} bytes were piped in. Save them to a file and name it in the prompt."
        )
    return data.decode("utf-8", "replace")


def read_announced(descriptor: int) -> bytes:
    """Everything up to the end of stdin; if it is slow in coming, says for what the program waits."""
    import os
    import select

    try:
        if not select.select([descriptor], [], [], STDIN_NOTICE_S)[0]:
            print(
                "jaato: waiting for the end of stdin (</dev/null says there is none)",
                file=sys.stderr,
                flush=True,
            )
    except OSError:
        pass  # a file is always ready
    parts: list[bytes] = []
    left = MAX_STDIN_BYTES + 1
    while left > 0 and (data := os.read(descriptor, min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def ending_of(turn: TurnCompleted, *, denied_last: bool) -> int:
    """The exit code of a turn that has ended. Raises what ended it badly."""
    match turn.reason:
        case "error" | "limit":
            if turn.error is not None:
                raise from_code(turn.error.code, turn.error.message)
            raise LimitReached("The turn reached its limit.")
        case "cancelled" | "interrupted":
            return INTERRUPTED
        case "refusal":
            return ERROR
        case "length":
            return LimitReached.exit_code
    return DENIED if denied_last else OK
