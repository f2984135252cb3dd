"""`jaato login` and `jaato logout`: provider keys, saved where only the user can read them."""

from __future__ import annotations

import sys
from argparse import Namespace

from jaato.cli.arguments.settings import KEYED
from jaato.cli.arguments.values import clean_text
from jaato.cli.ending import say
from jaato.cli.output.tables import print_line
from jaato.errors import ConfigError
from jaato.runtime.provider_keys import close_to_others, forget_key, keys_file, save_key
from jaato.settings import load

MAX_KEY_CHARS = 10_000


def main(args: Namespace) -> int:
    """Save or forget a key."""
    provider = clean_text(args.provider) or ""
    if provider not in KEYED:
        raise ConfigError(f"{provider!r} takes no key; choose one of {', '.join(KEYED)}.")
    settings = load()
    if args.command == "logout":
        if not forget_key(settings, provider):
            raise ConfigError(f"No key of {provider} is saved.")
        print_line(f"forgot the key of {provider}")
        return 0
    key = read_key(provider, from_stdin=args.key_stdin)
    path = keys_file(settings)
    if close_to_others(path):
        say(f"Others could read {path} until now: renew the keys that were in it.")
    where = save_key(settings, provider, key)
    print_line(f"the key of {provider} is in {where}")
    return 0


def read_key(provider: str, *, from_stdin: bool) -> str:
    """The key, never echoed. Raises `ConfigError` for one that cannot be a key."""
    if from_stdin:
        text = sys.stdin.buffer.read(MAX_KEY_CHARS + 1).decode("utf-8", "replace")
    elif sys.stdin.isatty():
        import getpass

        try:
            text = getpass.getpass(f"Key of {provider}: ")
        except EOFError:
            text = ""
    else:
        raise ConfigError(
            f"There is no terminal to ask for the key: jaato login {provider} --key-stdin < FILE"
        )
    key = text.strip()
    if not key:
        raise ConfigError("The key is empty; nothing was saved.")
    if len(key) > MAX_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("That is no key: a key is one line of ASCII without spaces. Nothing was saved.")
    return key
