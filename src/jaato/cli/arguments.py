"""What an argument may be, and how it is said that it is not."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Callable
    from typing import Any, NoReturn

MAX_COMPLAINT_CHARS = 500
MAX_DIGITS = 9
PROVIDERS = ("anthropic", "openai", "google_genai", "github_models", "ollama", "local", "scripted")


class Parser(ArgumentParser):
    """A parser whose complaints are short and harm no terminal, whatever it was given."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; a key among them that has no place there is not repeated."""
        found, rest = self.parse_known_args(args, namespace)
        if rest and getattr(found, "command", None) == "login":
            self.error(
                "a key is not given as an argument, where others can see it: type it, or use --key-stdin"
            )
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found

    def add_subparsers(self, **options: Any) -> Any:
        """The commands below this one, which has no positional argument: no usage is formatted to learn their names."""
        return super().add_subparsers(**{"prog": self.prog, **options})

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, with the usage, and end with 2."""
        from jaato.cli.screen import visible

        if len(message) > MAX_COMPLAINT_CHARS:
            message = f"{message[:MAX_COMPLAINT_CHARS]}… ({len(message):,} characters)"
        super().error(visible(message))


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


def command(
    commands: _SubParsersAction[Parser], name: str, module: str, text: str, epilog: str = ""
) -> Parser:
    """A command, and the module whose `main(args)` carries it out."""
    made = commands.add_parser(
        name,
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.set_defaults(module=f"jaato.cli.{module}", command=name)
    return made


def action(kinds: _SubParsersAction[Parser], name: str, text: str, example: str) -> Parser:
    """One of the things a command does."""
    return kinds.add_parser(
        name,
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=f"examples:\n  jaato {example}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def provider_arguments(add: Callable[..., object]) -> None:
    """Which provider and model."""
    add("--provider", metavar="NAME", help=f"one of {', '.join(PROVIDERS)}")
    add("-m", "--model", metavar="NAME", help="which model (jaato models lists them)")
    add("--base-url", metavar="URL", help="where the provider is, when not at its usual place")
