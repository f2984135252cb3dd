"""Build the argument parser from the tables of commands and options."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from importlib import import_module

from jaato.cli.arguments.options import GROUPS, OPTIONS
from jaato.version import __version__

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from typing import Any, NoReturn

    from jaato.cli.arguments.options import Command, Options

MAX_COMPLAINT_CHARS = 500
TABLES = {
    "sessions": "run chat attach events sessions",
    "settings": "tools models permissions sandbox plugins config login logout doctor",
    "servers": "serve tokens mcp registry flow",
}
"""The modules of this package that declare commands, and their commands in the order of `jaato --help`."""
TOP = """examples:
  jaato run "what does this project do?"
  git diff | jaato run --read-only "review this change"
  jaato run --continue --allow 'run(pytest *)' "now make the tests pass"
  jaato chat
  jaato doctor

exit codes: 0 ok, 1 error, 2 usage or configuration, 3 provider, 4 denied, 5 limit, 130 interrupted"""


class Parser(ArgumentParser):
    """Parses arguments; its error messages are short and free of terminal control characters."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; the error for a key given to `login` does not repeat the key."""
        found, rest = self.parse_known_args(args, namespace)
        if rest and getattr(found, "command", None) == "login":
            self.error(
                "do not pass a key as an argument, where other users can see it: type it, or use --key-stdin"
            )
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse known arguments; for a command with `program`, everything after `--` is that program's command line."""
        if self.get_default("program") is None:
            return super().parse_known_args(args, namespace)
        given = list(args or ())
        at = given.index("--") if "--" in given else len(given)
        found, rest = super().parse_known_args(given[:at], namespace)
        found.program = given[at + 1 :]
        return found, rest

    def add_subparsers(self, **options: Any) -> Any:
        """Add subcommands; `prog` is passed so that argparse need not format the usage to derive it."""
        return super().add_subparsers(**{"prog": self.prog, **options})

    def error(self, message: str) -> NoReturn:
        """Print the usage and an error message, and exit with 2."""
        from jaato.cli.output.console import visible

        if len(message) > MAX_COMPLAINT_CHARS:
            message = f"{message[:MAX_COMPLAINT_CHARS]}… ({len(message):,} characters)"
        super().error(visible(message))


def make_parser(wanted: str | None = None) -> ArgumentParser:
    """Build the parser of all commands, or of `wanted` only if it is a command."""
    parser = Parser(
        prog="jaato",
        description="An AI agent for the command line that works on your files.",
        epilog=TOP,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"jaato {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    found = [table for table, names in TABLES.items() if wanted in names.split()]
    for name in found or TABLES:
        table = import_module(f"jaato.cli.arguments.{name}")
        for command in table.COMMANDS:
            if not found or command.name == wanted:
                made = add_command(commands, command, {**OPTIONS, **table.OPTIONS})
                made.set_defaults(
                    command=command.name, module=f"jaato.cli.{command.module or f'commands.{command.name}'}"
                )
    return parser


def add_command(
    commands: _SubParsersAction[Parser],
    command: Command,
    options: Options,
    path: str = "jaato",
    examples: str = "",
) -> Parser:
    """Add a command, its arguments and its actions; `examples` is the text to select its own examples from."""
    path, dest = f"{path} {command.name}", "action" if path == "jaato" else f"{command.name}_action"
    own = [line for line in examples.splitlines() if f"{line} ".startswith(f"  {path} ")]
    epilog = command.epilog or "\n".join(["examples:", *own])
    made = commands.add_parser(
        command.name,
        help=command.text,
        description=f"{command.text[:1].upper()}{command.text[1:]}.",
        epilog=epilog,
        usage=command.help_usage,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if command.module:
        made.set_defaults(module=f"jaato.cli.{command.module}")
    add_arguments(made, command, options)
    if command.actions:
        names = "|".join(action.name for action in command.actions)
        kinds = made.add_subparsers(dest=dest, metavar=names, required=not command.action)
        made.set_defaults(**{dest: command.action or None})
        for action in command.actions:
            add_command(kinds, action, options, path, epilog)
    return made


def add_arguments(parser: Parser, command: Command, options: Options) -> None:
    """Add the arguments in a command's usage, and the defaults of its unused options."""
    for key in command.unused.split():
        settings = options[key]
        name = settings.get("dest", key.partition(":")[0].lstrip("-").replace("-", "_"))
        parser.set_defaults(**{name: settings.get("default", False if "action" in settings else None)})
    groups: dict[str, Any] = {}
    for one in command.usage.split():
        keys = one.strip("[].").split("|")
        target: Any = parser.add_mutually_exclusive_group() if len(keys) > 1 else parser
        for key in keys:
            title = next((title for title, names in GROUPS.items() if key in names.split()), "")
            if title and target is parser:
                groups[title] = target = groups.get(title) or parser.add_argument_group(title)
            settings = dict(options[key])
            names = [settings.pop("short")] if "short" in settings else []
            if not key.startswith("-") and one != key:
                settings["nargs"] = "?" if "..." not in one else "*" if one.startswith("[") else "+"
            target.add_argument(*names, key.partition(":")[0], **settings)
