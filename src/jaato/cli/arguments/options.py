"""The declarations of commands and options, and the options that several commands share."""

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


def repeated(metavar: str, text: str) -> dict[str, Any]:
    """An option that may be repeated."""
    return {"metavar": metavar, "help": text, "action": "append", "default": []}


def choice(choices: Sequence[str], text: str, default: str | None = None, **settings: Any) -> dict[str, Any]:
    """An option with a fixed set of values."""
    return {"choices": choices, "default": default, "help": text, **settings}


GROUPS = {
    "model": "--provider --model --base-url --interface --temperature --effort --system-prompt --max-turns",
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
    "--session": value("ID", "resume a session: its id, a prefix of it, or its name", short="-s"),
    "--continue": flag("resume the most recent session of this workspace", short="-c", dest="resume"),
    "--yes": flag("allow everything that no rule denies, including downloads"),
    "--allow": repeated("PATTERN", "allow a tool or command: writeNewFile, 'run(git *)'"),
    "--deny": repeated("PATTERN", "deny a tool or command; takes precedence over every allow"),
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
    "--allow-domain": repeated(
        "HOST",
        "allow commands with write access to reach a host: pypi.org, '*.npmjs.org', host:8443 (repeatable)",
    ),
    "--add-dir": repeated(
        "DIR", "also allow them to write to a directory outside the workspace (repeatable)"
    ),
    "--connect": value("PATH|URL", "connect to a server: a socket, or ws://HOST:PORT"),
    "--token-file": value("FILE", "file with the access token of a remote server"),
    "--no-daemon": flag("run in this process even when a server is running"),
    "--allow-host": repeated("HOST[:PORT]", "additional host name that clients may use"),
    "--allow-origin": repeated("ORIGIN", "allow a web origin, such as http://localhost:3000"),
}
"""The options that several commands have; `--name:variant` is the option `--name` with another meaning."""
