"""`jaato models`, `jaato login` and `jaato logout`: the models of the providers, and their API keys."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress

import anyio

from jaato.cli.arguments.settings import KEYED
from jaato.cli.arguments.values import clean_text
from jaato.cli.exit_codes import print_message
from jaato.cli.output.console import print_line, print_records
from jaato.errors import ConfigError, JaatoError, ProviderError
from jaato.protocol.specs import ModelInfo
from jaato.runtime.known_providers import NAMES
from jaato.runtime.provider_keys import close_to_others, forget_key, keys_file, save_key
from jaato.runtime.provider_selection import NO_MODEL, make_provider, usable_providers
from jaato.settings import Settings, load
from jaato.tools.prices import add_prices

LIST_TIMEOUT_S = 20.0
MAX_KEY_CHARS = 10_000


def main(args: Namespace) -> int:
    """List models, or save or remove a key."""
    if args.command == "models":
        return list_models(args)
    provider = clean_text(args.provider) or ask_provider(args.command)
    if provider not in KEYED:
        raise ConfigError(f"{provider!r} has no API key; choose one of {', '.join(KEYED)}.")
    return (login if args.command == "login" else logout)(args, load(), provider)


def list_models(args: Namespace) -> int:
    """List the models of one provider, or of all usable ones; a failing provider does not prevent the others."""
    settings = load({"model": clean_text(args.model), "base_url": clean_text(args.base_url)})
    provider = clean_text(args.provider)
    if provider is not None and provider not in NAMES:
        raise ConfigError(f"There is no provider {provider!r}; choose one of {', '.join(NAMES)}.")
    if provider == "scripted":
        raise ConfigError("The provider scripted plays a recording and has no models: pass --model PATH.")
    names = [provider] if provider is not None else anyio.run(usable_providers, settings)
    if not names:
        raise ConfigError(NO_MODEL)
    found, errors = anyio.run(fetch_models, names, settings)
    print_records([add_prices(model) for model in found], model_row, as_json=args.json)
    if not args.json and not found and not errors:
        print_line("The provider lists no models.")
    if errors and (provider is not None or not found):
        raise errors[0][1]
    for name, error in errors:
        print_message(f"{name}: {error}")
    return 0


async def fetch_models(
    names: list[str], settings: Settings
) -> tuple[list[ModelInfo], list[tuple[str, JaatoError]]]:
    """The models of these providers, and the errors by provider."""
    found: list[ModelInfo] = []
    errors: list[tuple[str, JaatoError]] = []
    for name in names:
        try:
            # listing needs no model, except where it is a local file
            placeholder = None if name in ("local", "scripted") else "?"
            provider, _ = make_provider(name, settings, model=settings["model"] or placeholder)
            try:
                with anyio.fail_after(LIST_TIMEOUT_S):
                    found += await provider.models()
            finally:
                await provider.aclose()
        except TimeoutError:
            text = f"{name} did not list its models within {LIST_TIMEOUT_S:g} s."
            errors.append((name, ProviderError(text, provider=name)))
        except JaatoError as error:
            errors.append((name, error))
    return found, errors


def model_row(model: ModelInfo) -> tuple[str, ...]:
    """A model as a table row."""
    context = f"{model.context_limit:,}" if model.context_limit else "-"
    price = "-"
    if model.price_input is not None and model.price_output is not None:
        price = f"${model.price_input:g}/${model.price_output:g}"
    features = [word for word, has in (("vision", model.vision), ("thinking", model.thinking)) if has]
    return (model.provider, model.id, context, price, " ".join(features))


def login(args: Namespace, settings: Settings, provider: str) -> int:
    """Save the key of a provider."""
    key = read_key(provider, from_stdin=args.key_stdin)
    path = keys_file(settings)
    if close_to_others(path):
        print_message(f"{path} was readable by other users until now: renew the keys in it.")
    print_line(f"saved the key of {provider} in {save_key(settings, provider, key)}")
    return 0


def logout(_args: Namespace, settings: Settings, provider: str) -> int:
    """Remove the saved key of a provider."""
    if not forget_key(settings, provider):
        raise ConfigError(f"No key of {provider} is saved.")
    print_line(f"removed the key of {provider}")
    return 0


def ask_provider(command: str) -> str:
    """The provider that the user names at the terminal. Raises `ConfigError` without a terminal, or an answer."""
    if sys.stdin.isatty():
        with suppress(EOFError):
            if found := input(f"Provider of the key ({', '.join(KEYED)}): ").strip():
                return found
    raise ConfigError(f"Name the provider of the key: jaato {command} {' | '.join(KEYED)}.")


def read_key(provider: str, *, from_stdin: bool) -> str:
    """Read a key without echo. Raises `ConfigError` for text that cannot be a key."""
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
            f"The key cannot be prompted for without a terminal: jaato login {provider} --key-stdin < FILE"
        )
    key = text.strip()
    if not key:
        raise ConfigError("The key is empty; nothing was saved.")
    if len(key) > MAX_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("Not a valid key: a key is one line of ASCII without spaces. Nothing was saved.")
    return key
