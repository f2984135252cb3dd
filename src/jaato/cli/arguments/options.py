"""The forms in which options and commands are declared, and the options that several commands share."""

from __future__ import annotations

from argparse import ArgumentTypeError

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Options = Mapping[str, dict[str, Any]]

MAX_DIGITS = 9
PROVIDERS = ("anthropic", "openai", "google_genai", "github_models", "ollama", "local", "scripted")
MODES = ("ask", "accept-edits", "auto", "plan", "read-only")


class Command:
    """A command, or one of its actions.

    `text` is its line of help, `usage` its arguments by their names in the table of options: `[name]` may be left out, `name...`
    can be several, of `--one|--other` at most one is given. `epilog` stands below the help; an action without one has the examples
    that its command has of it. `module` of `jaato.cli` has its `main` (default: that in `commands` of its name). Without `action`, one of
    `actions` must be given. `unused` are options that the code behind it reads and that it does not take: they have their defaults.
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
    """A whole number above zero."""
    if not text.isdecimal() or len(text) > MAX_DIGITS or not int(text):
        raise ArgumentTypeError(f"{text!r} is no whole number above zero")
    return int(text)


def natural(text: str) -> int:
    """A whole number from zero up."""
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def temperature(text: str) -> float:
    """A finite number from zero up."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number from zero up")
    return number


def flag(text: str, **settings: Any) -> dict[str, Any]:
    """An option without a value."""
    return {"action": "store_true", "help": text, **settings}


def value(metavar: str, text: str | None = None, **settings: Any) -> dict[str, Any]:
    """An option with a value, or a positional argument."""
    return {"metavar": metavar, "help": text, **settings}


def repeated(metavar: str, text: str) -> dict[str, Any]:
    """An option that may be given again, for more values."""
    return {"metavar": metavar, "help": text, "action": "append", "default": []}


def choice(choices: Sequence[str], text: str, default: str | None = None, **settings: Any) -> dict[str, Any]:
    """An option whose value is one of a few words."""
    return {"choices": choices, "default": default, "help": text, **settings}


GROUPS = {
    "model": "--provider --model --base-url --interface --temperature --effort --system-prompt --max-turns",
    "session": "--session --continue --name",
    "permissions": "--yes --allow --deny --mode --read-only --read-only:serve --sandbox --allow-domain --add-dir",
    "server": "--connect --token-file --no-daemon",
    "over the network": "--http --host --port --allow-host --allow-origin --tls-cert --tls-key",
}
"""The options that stand under a title of their own."""
MODEL = "--provider --model --base-url --interface --temperature --effort"
OPENING = "--mode --read-only --sandbox --allow-domain --add-dir"
PERMISSIONS = f"--yes --allow --deny {OPENING}"
OPTIONS: Options = {
    "--json": flag("as JSON"),
    "--workspace": value("DIR", "the workspace (default: this directory)"),
    "--yes:no-question": flag("do not ask"),
    "--full": flag("with whole arguments and results"),
    "--verbose": flag("show thinking, tool output and results too"),
    "session": value("SESSION", "its id, the beginning of it, or its name"),
    "--name": value("NAME", "name the session"),
    "--provider": value("NAME", f"one of {', '.join(PROVIDERS)}"),
    "--model": value("NAME", "which model (jaato models lists them)", short="-m"),
    "--base-url": value("URL", "where the provider is, when not at its usual place"),
    "--interface": choice(
        ("chat", "responses"),
        "how openai and ollama are spoken to (default: responses at OpenAI's own host, else chat)",
    ),
    "--temperature": value("T", "sampling temperature", type=temperature),
    "--effort": choice(("minimal", "low", "medium", "high"), "how hard the model thinks"),
    "--system-prompt": value("TEXT", "replaces the system prompt of a new session"),
    "--max-turns": value("N", "model calls one prompt may take (default 200)", type=positive),
    "--session": value("ID", "go on with a session: its id, the beginning of it, or its name", short="-s"),
    "--continue": flag("go on with the newest session of this workspace", short="-c", dest="resume"),
    "--yes": flag("allow everything that no rule denies, downloads included"),
    "--allow": repeated("PATTERN", "allow a tool or command: writeNewFile, 'run(git *)'"),
    "--deny": repeated("PATTERN", "never allow it, whatever else is said"),
    "--mode": choice(
        MODES,
        "what runs without a question: ask (default) what only reads; accept-edits file tools in the workspace too; auto "
        "commands in it too; plan only what reads, until a plan is approved; read-only nothing more, ever",
    ),
    "--read-only": flag("as --mode read-only: nothing can be opened"),
    "--read-only:serve": flag("deny every call that does more than read"),
    "--sandbox": choice(
        ("workspace-write", "full"),
        "what a command that a rule allows may reach (default: workspace-write); full is no sandbox",
    ),
    "--allow-domain": repeated(
        "HOST",
        "a host that commands which may write reach, again for more: pypi.org, '*.npmjs.org', host:8443",
    ),
    "--add-dir": repeated("DIR", "a directory outside the workspace that they may change, again for more"),
    "--connect": value("PATH|URL", "the server to work in: a socket, or ws://HOST:PORT"),
    "--token-file": value("FILE", "the token of a server over the network"),
    "--no-daemon": flag("work in this process, whatever runs"),
    "--allow-host": repeated("HOST[:PORT]", "a name clients may use for it beside its address"),
    "--allow-origin": repeated("ORIGIN", "a web origin whose pages may come, such as http://localhost:3000"),
}
"""The options that commands of several tables have; `--name:variant` is the option `--name` in another meaning."""
