"""The declarations of commands and options, the options that several commands share, and the parser built from them."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from importlib import import_module

from jaato.version import __version__

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

    Options = Mapping[str, dict[str, Any]]

MAX_DIGITS = 9
PROVIDERS = ("anthropic", "openai", "google_genai", "github_models", "ollama", "local", "scripted")
MODES = ("ask", "accept-edits", "auto", "plan", "read-only")


class Command:
    """A command, or one of its subcommands (`actions`).

    `text` is its line of help. `usage` lists its arguments as keys of the option table: `[name]` is optional, `name...` repeatable,
    `--one|--other` mutually exclusive. `epilog` follows the help; an action without one shows its examples from its command's.
    `module` (within `jaato.cli`) has the `main` to call; the default is the module of its name in `commands`. `action` is the default
    action; without it one is required. `unused` are options that `main` reads and this command does not accept: they get defaults.
    """

    def __init__(
        self,
        name: str,
        text: str,
        usage: str = "",
        epilog: str = "",
        *,
        module: str = "",
        action: str = "",
        actions: Sequence[Command] = (),
        unused: str = "",
        help_usage: str | None = None,
    ) -> None:
        self.name = name
        self.text = text
        self.usage = usage
        self.epilog = epilog
        self.module = module
        self.action = action
        self.actions = actions
        self.unused = unused
        self.help_usage = help_usage


def positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or len(text) > MAX_DIGITS or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def natural(text: str) -> int:
    """Parse a non-negative integer."""
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise ArgumentTypeError(f"{text!r} is not a non-negative integer")
    return int(text)


def temperature(text: str) -> float:
    """Parse a finite, non-negative number."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a non-negative number")
    return number


def flag(text: str, **settings: Any) -> dict[str, Any]:
    """An option without a value."""
    return {"action": "store_true", "help": text, **settings}


def value(metavar: str, text: str | None = None, **settings: Any) -> dict[str, Any]:
    """An option with a value, or a positional argument."""
    return {"metavar": metavar, "help": text, **settings}


def make_repeatable(metavar: str, text: str) -> dict[str, Any]:
    """An option that may be repeated."""
    return {"metavar": metavar, "help": text, "action": "append", "default": []}


def choice(choices: Sequence[str], text: str, default: str | None = None, **settings: Any) -> dict[str, Any]:
    """An option with a fixed set of values."""
    return {"choices": choices, "default": default, "help": text, **settings}


GROUPS = {
    "model": "--provider --model --base-url --interface --temperature --effort --system-prompt",
    "limits": "--max-turns --budget",
    "session": "--session --continue --name",
    "permissions": "--yes --allow --deny --mode --read-only --read-only:serve --sandbox --allow-domain --add-dir",
    "server": "--connect --token-file --no-daemon",
    "over the network": "--http --host --port --allow-host --allow-origin --tls-cert --tls-key",
}
"""The option groups of the help, by title."""
MODEL = "--provider --model --base-url --interface --temperature --effort"
OPENING = "--mode --read-only --sandbox --allow-domain --add-dir"
PERMISSIONS = f"--yes --allow --deny {OPENING}"
OPTIONS: Options = {
    "--json": flag("print JSON"),
    "--workspace": value("DIR", "workspace directory (default: the current directory)"),
    "--yes:no-question": flag("do not ask for confirmation"),
    "--full": flag("show complete arguments and results"),
    "--verbose": flag("also show thinking, tool output and results"),
    "session": value("SESSION", "session id, a prefix of it, or its name"),
    "--name": value("NAME", "name of the session"),
    "--provider": value("NAME", f"one of {', '.join(PROVIDERS)}"),
    "--model": value("NAME", "model to use (see jaato models)", short="-m"),
    "--base-url": value("URL", "base URL of the provider's API"),
    "--interface": choice(
        ("chat", "responses"),
        "API of openai and ollama to use (default: responses for api.openai.com, else chat)",
    ),
    "--temperature": value("T", "sampling temperature", type=temperature),
    "--effort": choice(("minimal", "low", "medium", "high"), "reasoning effort"),
    "--system-prompt": value("TEXT", "replace the system prompt of a new session"),
    "--max-turns": value("N", "maximum model calls per prompt (default 200)", type=positive),
    "--budget": make_repeatable(
        "TEXT",
        "pause and ask when this is used up: '50k tokens, $2, 10m per turn', '$5 per session', '2h per day'; without a scope per "
        "session; more: continue after a budget was used up; off (repeatable)",
    ),
    "--session": value("ID", "resume a session: its id, a prefix of it, or its name", short="-s"),
    "--continue": flag("resume the most recent session of this workspace", short="-c", dest="resume"),
    "--yes": flag("allow everything that no rule denies, including downloads"),
    "--allow": make_repeatable("PATTERN", "allow a tool or command: writeNewFile, 'run(git *)'"),
    "--deny": make_repeatable("PATTERN", "deny a tool or command; takes precedence over every allow"),
    "--mode": choice(
        MODES,
        "what runs without asking: ask (default) reads only; accept-edits also edits files in the workspace; auto also "
        "runs commands in it; plan reads only until a plan is approved; read-only denies everything else",
    ),
    "--read-only": flag("same as --mode read-only; grants cannot extend it"),
    "--read-only:serve": flag("deny every call that is not read-only"),
    "--sandbox": choice(
        ("workspace-write", "full"),
        "sandbox of commands that a rule allows (default: workspace-write); full disables the sandbox",
    ),
    "--allow-domain": make_repeatable(
        "HOST",
        "allow commands with write access to reach a host: pypi.org, '*.npmjs.org', host:8443 (repeatable)",
    ),
    "--add-dir": make_repeatable(
        "DIR", "also allow them to write to a directory outside the workspace (repeatable)"
    ),
    "--connect": value("PATH|URL", "connect to a server: a socket, or ws://HOST:PORT"),
    "--token-file": value("FILE", "file with the access token of a remote server"),
    "--no-daemon": flag("run in this process even when a server is running"),
    "--allow-host": make_repeatable("HOST[:PORT]", "additional host name that clients may use"),
    "--allow-origin": make_repeatable("ORIGIN", "allow a web origin, such as http://localhost:3000"),
}
"""The options that several commands have; `--name:variant` is the option `--name` with another meaning."""


TYPE_CHECKING = False  # as in typing, which is slow to import

MAX_COMPLAINT_CHARS = 500
TABLES = {
    "sessions": "run chat tui attach events context sessions usage",
    "settings": "tools models permissions sandbox plugins config login logout doctor completion",
    "servers": "serve web tokens mcp acp registry flow",
}
"""The modules of this package that declare commands, and their commands in the order of `jaato --help`."""
TOP = """examples:
  jaato                                  the full-screen client (plain lines without the extra tui)
  jaato "why does this test fail?"       the same, with a first message
  jaato run "what does this project do?"
  git diff | jaato run --read-only "review this change"
  jaato run --continue --allow 'run(pytest *)' "now make the tests pass"
  jaato login anthropic
  jaato doctor

exit codes: 0 ok, 1 error, 2 usage or configuration, 3 provider, 4 denied, 5 limit, 130 interrupted"""


class HelpFormatter(RawDescriptionHelpFormatter):
    """Formats help; argparse makes one for each argument that is added, where the width does not matter."""

    def __init__(self, prog: str, width: int = 80) -> None:
        super().__init__(prog, width=width)


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

    def format_help(self) -> str:
        """The help of a command, as wide as the terminal."""
        self.use_terminal_width()
        return super().format_help()

    def format_usage(self) -> str:
        """The usage of a command, as wide as the terminal."""
        self.use_terminal_width()
        return super().format_usage()

    def use_terminal_width(self) -> None:
        """Format help as wide as the terminal is now."""
        from shutil import get_terminal_size  # with every kind of archive

        width = get_terminal_size().columns - 2
        self.formatter_class = lambda prog: HelpFormatter(prog, width)

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
        formatter_class=HelpFormatter,
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


NAMES_ELSEWHERE = {
    "-p": "jaato run PROMPT runs one prompt",
    "--print": "jaato run PROMPT runs one prompt",
    "exec": "jaato run PROMPT runs one prompt",
    "--resume": "jaato -c resumes the newest session of this directory, jaato -s ID any other",
    "resume": "jaato -c resumes the newest session of this directory, jaato -s ID any other",
    "--dangerously-skip-permissions": "--yes allows everything that no rule denies",
    "--yolo": "--yes allows everything that no rule denies",
    "auth": "jaato login PROVIDER saves an API key",
    "help": "jaato --help lists the commands",
    "stop": "jaato serve --stop stops the server",
    "undo": "jaato -c /undo takes back the newest changes",
}
"""What stands for the commands and options of other agents."""


def explain_unknown_command(word: str) -> str:
    """What to tell about the first word of a command line if it is no command; empty where it is one, or an option."""
    if instead := NAMES_ELSEWHERE.get(word):
        return f"there is no {'option' if word.startswith('-') else 'command'} {word!r}; {instead}"
    names = " ".join(TABLES.values()).split()
    if word in names or word.startswith("-"):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(word, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"there is no command {word!r}; {meant}jaato --help lists them, and jaato run PROMPT runs a prompt"


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
        formatter_class=HelpFormatter,
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
