"""The arguments of `jaato flow`; nothing but argparse is imported."""

from __future__ import annotations

from jaato.cli.arguments import Parser, action, command, positive, provider_arguments, temperature

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from jaato.cli.parser import Commands

FLOW = """A flow carries out one instruction with the tools of registries: the model plans which of them to call, knowing names
and descriptions alone; for each step the tool's definition is fetched, the model gives the arguments, and they are checked
before anything is sent (refused ones are asked for once more, with what is wrong); in the end the model answers from the
results. It works in this process, also where a server runs.

examples:
  jaato flow run "What is 6 times 7?" --registry http://127.0.0.1:8000 --yes
  jaato flow run "Will it rain in Bern tomorrow?" --registry weather --trace rain.jsonl
  jaato flow show rain.jsonl
  jaato flow replay rain.jsonl
  jaato flow replay rain.jsonl --live --yes"""

RUN = """The answer goes to stdout, everything else to stderr. Without --registry all that are configured and trusted are used.
A call asks for permission on the terminal; without one it is denied: allow it beforehand with --allow or --yes.

examples:
  jaato flow run "What is 6 times 7?" --registry http://127.0.0.1:8000 --allow calc
  jaato flow run "Will it rain in Bern tomorrow?" --registry weather --registry cities --json
  cat letter.txt | jaato flow run "What does this ask for?" --trace letter.jsonl --max-steps 3

exit codes: 0 ok; 1 a step failed; 2 wrong usage or configuration; 3 the provider failed; 4 a call was denied, or a registry is not
trusted; 5 a limit was reached; 130 interrupted"""

REPLAY = """Plays the trace without model and registries, and holds every prompt, check and ending against what was recorded. With
--live the model's replies stay as they are, the tools are called again, and what they give is compared.

examples:
  jaato flow replay rain.jsonl
  jaato flow replay rain.jsonl --live --registry http://127.0.0.1:8000 --allow forecast

exit codes: 0 it plays as it was recorded (with --live: every tool gives the same); 1 it does not, or was cut off; 2 no trace,
wrong usage or configuration; with --live also 4 a registry is not trusted, 130 interrupted"""


def add_flow(commands: Commands) -> None:
    """`jaato flow`."""
    text = "carry out an instruction with the tools of registries, step by step"
    flow = command(commands, "flow", "flow", text, FLOW)
    kinds = flow.add_subparsers(dest="action", metavar="run|replay|show", required=True)
    add_run(kinds)
    replay = action(kinds, "replay", "play a trace again, and say whether it plays as recorded", "")
    replay.epilog = REPLAY
    show = action(kinds, "show", "what a trace tells, to be read", "flow show rain.jsonl")
    show.add_argument("--full", action="store_true", help="with whole arguments and results")
    for one in (replay, show):
        one.add_argument("file", metavar="FILE", help="a trace that flow run --trace has written")
        one.add_argument("--json", action="store_true", help="as one JSON document")
    replay.add_argument("--live", action="store_true", help="call the tools again, and compare")
    registry_arguments(replay, "those of the trace")
    permission_arguments(replay)
    replay.add_argument("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
    replay.add_argument("--name", metavar="NAME", help="name the session of --live")
    session_defaults(replay)
    replay.set_defaults(
        provider=None, model=None, base_url=None, interface=None, temperature=None, effort=None
    )


def add_run(kinds: Commands) -> None:
    """`jaato flow run`."""
    run = action(kinds, "run", "carry out one instruction", "")
    run.epilog = RUN
    run.add_argument(
        "instruction",
        nargs="*",
        metavar="INSTRUCTION",
        help="what is to be done; piped text is appended; - is that text alone",
    )
    registry_arguments(run, "all that are configured and trusted")
    run.add_argument(
        "--max-steps", type=positive, default=8, metavar="N", help="tools that may be called (default 8)"
    )
    run.add_argument("--trace", metavar="FILE", help="write a trace, into a file that is not there yet")
    run.add_argument("--json", action="store_true", help="the run as one JSON document on stdout")
    add = run.add_argument_group("model").add_argument
    provider_arguments(add)
    add("--interface", choices=("chat", "responses"), help="how openai and ollama are spoken to")
    add("--temperature", type=temperature, metavar="T", help="sampling temperature")
    add("--effort", choices=("minimal", "low", "medium", "high"), help="how hard the model thinks")
    add = run.add_argument_group("session").add_argument
    add("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
    add("--name", metavar="NAME", help="name the session that keeps the flow's log")
    permission_arguments(run)
    session_defaults(run)


def registry_arguments(parser: Parser, default: str) -> None:
    """Whose tools."""
    parser.add_argument(
        "--registry",
        action="append",
        default=[],
        metavar="URL|NAME",
        help=f"a registry by its address or its configured name, again for more (default: {default})",
    )
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help="sent to the one --registry URL; ${VAR} and keyring:NAME are filled in",
    )


def permission_arguments(parser: Parser) -> None:
    """What may be called."""
    add = parser.add_argument_group("permissions").add_argument
    add("--yes", action="store_true", help="allow everything that no rule denies, downloads included")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="allow a tool, by its name in the plan",
    )
    add(
        "--deny", action="append", default=[], metavar="PATTERN", help="never allow it, whatever else is said"
    )


def session_defaults(parser: Parser) -> None:
    """What a flow's session is never told: each begins anew, and has its own words for the model."""
    from jaato.cli.sandbox_arguments import UNOPENED

    parser.set_defaults(session=None, resume=False, system_prompt=None, max_turns=None, read_only=False)
    parser.set_defaults(**UNOPENED)
