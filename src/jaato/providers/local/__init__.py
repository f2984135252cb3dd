"""The embedded model: fetched once, run inside the process, held to valid tool calls by its grammar."""

from jaato.providers.local.fetch import fetch_model, is_fetched, model_file, own_model
from jaato.providers.local.models import DEFAULT_MODEL, MODELS, LocalModel
from jaato.providers.local.prompt import CORE, SYSTEM
from jaato.providers.local.provider import LocalProvider

__all__ = [
    "CORE",
    "DEFAULT_MODEL",
    "MODELS",
    "SYSTEM",
    "LocalModel",
    "LocalProvider",
    "fetch_model",
    "is_fetched",
    "model_file",
    "own_model",
]
