"""Which model a compatible server answers with where none is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.providers.server import answer, serve

from jaato.errors import ConfigError
from jaato.runtime.provider_selection import choose_provider, find_only_model, usable_providers
from jaato.settings import load


def find(tmp_path: Path, provider: str, variable: str, *models: str, status: int = 200, **more: str) -> Any:
    """What is found at a server that lists these models, and how many requests it got."""

    async def main() -> tuple[str | None, int]:
        rows = {"data": [{"id": name} for name in models], "models": [{"name": name} for name in models]}
        async with serve(answer(rows, status)) as server:
            environ = {"HOME": str(tmp_path), variable: f"{server.url}/v1", **more}
            found = await find_only_model(provider, load(environ=environ), None)
            return found, len(server.requests)

    return anyio.run(main)


def test_the_only_model_is_used(tmp_path: Path) -> None:
    """A server with one model, models for embeddings aside, answers with that; one with several, with none or without a list
    leaves the default; nothing is asked where a model is named."""
    where = ("openai", "OPENAI_BASE_URL")
    assert find(tmp_path, *where, "qwen3", "text-embedding-nomic") == ("qwen3", 1)
    assert find(tmp_path, *where, "qwen3", "llama3.3") == (None, 1)
    assert find(tmp_path, *where) == (None, 1)
    assert find(tmp_path, *where, "qwen3", status=404) == (None, 1)
    assert find(tmp_path, *where, "qwen3", OPENAI_MODEL="llama3.3") == (None, 0)


def test_several_models_without_a_default(tmp_path: Path) -> None:
    """A provider without a default says which models there are."""
    with pytest.raises(ConfigError, match="--model NAME, such as qwen3, llama3"):
        find(tmp_path, "ollama", "OLLAMA_HOST", "qwen3", "llama3.3")


def test_a_base_url_names_a_server(tmp_path: Path) -> None:
    """Where only a base URL is given, the provider is the one for compatible servers; a key counts more."""

    async def main() -> None:
        environ = {"HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:9"}
        flags = {"base_url": "http://127.0.0.1:9/v1"}
        choice = await choose_provider(load(flags, environ=environ))
        assert (choice.name, choice.reason) == ("openai", "--base-url names a server")
        assert await usable_providers(load(flags, environ=environ)) == ["openai"]
        choice = await choose_provider(load(flags, environ={**environ, "ANTHROPIC_API_KEY": "k"}))
        assert choice.name == "anthropic"

    anyio.run(main)


def test_a_token_of_github_selects_nothing(tmp_path: Path) -> None:
    """`GITHUB_TOKEN` is set for other programs, too: its provider can be named, but is not chosen."""

    async def main() -> None:
        environ = {"HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:9", "GITHUB_TOKEN": "k"}
        assert (await choose_provider(load({}, environ=environ))).name == "local"
        assert "github_models" in await usable_providers(load({}, environ=environ))

    anyio.run(main)
