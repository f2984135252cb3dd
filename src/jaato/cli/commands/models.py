"""`jaato models`: what can answer."""

from __future__ import annotations

from argparse import Namespace

import anyio

from jaato.cli.arguments.values import clean_text
from jaato.cli.ending import say
from jaato.cli.output.tables import print_line, print_records
from jaato.errors import ConfigError, JaatoError, ProviderError
from jaato.protocol.specs import ModelInfo
from jaato.runtime.known_providers import NAMES
from jaato.runtime.provider_selection import make_provider, usable_providers
from jaato.settings import Settings, load

PATIENCE_S = 20.0


def main(args: Namespace) -> int:
    """List the models of one provider, or of all that can be used; one that fails hides no other."""
    flags = {"model": clean_text(args.model), "base_url": clean_text(args.base_url)}
    settings = load(flags)
    wanted = clean_text(args.provider)
    if wanted is not None and wanted not in NAMES:
        raise ConfigError(f"There is no provider {wanted!r}; choose one of {', '.join(NAMES)}.")
    if wanted == "scripted":
        raise ConfigError(
            "The provider scripted plays a recording and lists no models: name it with --model PATH."
        )
    names = [wanted] if wanted is not None else anyio.run(usable_providers, settings)
    if not names:
        raise ConfigError(
            "No provider can be used: set a key (jaato login PROVIDER), start Ollama, or pass --provider local."
        )
    found, errors = anyio.run(list_models, names, settings)
    print_records(found, row_of, as_json=args.json)
    if not args.json and not found and not errors:
        print_line("The provider lists no models.")
    if errors and (wanted is not None or not found):
        raise errors[0][1]
    for name, error in errors:
        say(f"{name}: {error}")
    return 0


async def list_models(
    names: list[str], settings: Settings
) -> tuple[list[ModelInfo], list[tuple[str, JaatoError]]]:
    """The models of these providers, and what went wrong with which."""
    found: list[ModelInfo] = []
    errors: list[tuple[str, JaatoError]] = []
    for name in names:
        try:
            unnamed = (
                None if name in ("local", "scripted") else "?"
            )  # a list needs no model, these look for its file
            provider, _ = make_provider(name, settings, model=settings["model"] or unnamed)
            try:
                with anyio.fail_after(PATIENCE_S):
                    found += await provider.models()
            finally:
                await provider.aclose()
        except TimeoutError:
            errors.append(
                (name, ProviderError(f"{name} did not list its models in {PATIENCE_S:g} s.", provider=name))
            )
        except JaatoError as error:
            errors.append((name, error))
    return found, errors


def row_of(model: ModelInfo) -> tuple[str, ...]:
    """A model in a list."""
    context = f"{model.context_limit:,}" if model.context_limit else "-"
    price = "-"
    if model.price_input is not None and model.price_output is not None:
        price = f"${model.price_input:g}/${model.price_output:g}"
    able = [word for word, has in (("vision", model.vision), ("thinking", model.thinking)) if has]
    return (model.provider, model.id, context, price, " ".join(able))
