"""Which provider a name and an environment make."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.providers.server import Answer, answer, serve

from jaato.abc.provider import Provider
from jaato.errors import AuthenticationError, ConfigError, ConnectionFault, MalformedReply, ProviderError
from jaato.protocol.specs import ModelInfo
from jaato.providers.http import HttpProvider, ModelListing
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.profiles import make_provider, ollama_url
from jaato.tools.prices import Rates, find_rates

KEY = {"OPENAI_API_KEY": "sk-1"}


def test_openai_itself_speaks_responses() -> None:
    """OpenAI's own host is spoken to by responses, every other server by chat; both can be chosen."""
    assert make_provider("openai", environ=KEY).dialect.name == "openai_responses"
    assert make_provider("openai", environ=KEY, interface="chat").dialect.name == "openai_chat"
    other = make_provider("openai", environ={"OPENAI_BASE_URL": "http://localhost:8000/v1"})
    assert (other.dialect.name, other.base_url) == ("openai_chat", "http://localhost:8000/v1")
    assert (
        make_provider("openai", environ={}, base_url="http://x/v1", interface="responses").dialect.name
        == "openai_responses"
    )
    assert isinstance(other, Provider)


@pytest.mark.parametrize(
    ("name", "variable"), [("openai", "OPENAI_API_KEY"), ("github_models", "GITHUB_TOKEN")]
)
def test_a_missing_key_names_its_variable(name: str, variable: str) -> None:
    """Without its key a provider is not made, and the message says which variable to set."""
    with pytest.raises(ConfigError, match=f"{variable}"):
        make_provider(name, environ={})
    assert make_provider(name, environ={variable: "x"}).name == name


def test_an_unknown_name() -> None:
    """A name nobody knows is an error that lists the known ones."""
    with pytest.raises(ConfigError, match="openai, github_models, ollama"):
        make_provider("opanai", environ={})


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("box.lan", "http://box.lan:11434"),
        ("box.lan:80/ollama/", "http://box.lan:80/ollama"),
        ("https://ollama.test/", "https://ollama.test"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:99", "http://[::1]:99"),
        (" 'http://127.0.0.1:1' ", "http://127.0.0.1:1"),
    ],
)
def test_ollama_host(host: str, url: str) -> None:
    """`OLLAMA_HOST` is understood in all forms Ollama itself takes."""
    assert ollama_url(host) == url
    assert make_provider("ollama", environ={"OLLAMA_HOST": host}).base_url == f"{url}/v1"


def test_what_is_known_of_models() -> None:
    """Limits and prices are known by name; prices of other sellers are not claimed; local use is free."""
    provider = make_provider("openai", environ=KEY)
    info = provider.model_info("gpt-5.2-2025-12-11")
    assert (info.context_limit, find_rates(info)) == (400_000, Rates(1.75, 14.0))
    assert find_rates(provider.model_info("gpt-5-mini")) == Rates(0.25, 2.0)
    assert provider.model_info("gpt-99") == ModelInfo("gpt-99", "openai", priced_by="openai")
    assert find_rates(provider.model_info("gpt-99")) is None
    other = make_provider("openai", environ={}, base_url="https://gateway.test/v1")
    assert other.model_info("openai/gpt-4o").context_limit == 128_000
    assert find_rates(other.model_info("openai/gpt-4o")) is None
    assert find_rates(make_provider("ollama", environ={}).model_info("qwen3")) == Rates(0.0, 0.0)
    away = make_provider("ollama", environ={"OLLAMA_HOST": "https://ollama.test"})
    assert find_rates(away.model_info("qwen3")) is None


def models(name: str, *answers: Answer, path: str = "/v1") -> tuple[list[ModelInfo], list[str]]:
    """The models a provider lists, and the paths it asked for."""

    async def main() -> tuple[list[ModelInfo], list[str]]:
        async with serve(*answers) as server:
            provider = make_provider(name, environ={}, base_url=f"{server.url}{path}", api_key="sk-1")
            try:
                return await provider.models(), [request.path for request in server.requests]
            finally:
                await provider.aclose()

    return anyio.run(main)


def test_models_are_listed() -> None:
    """Each provider lists its models in its own way; models that cannot talk are left out."""
    rows = {
        "data": [{"id": "gpt-4o"}, {"id": "text-embedding-3-small"}, {"id": "llama", "max_model_len": 8192}]
    }
    found, paths = models("openai", answer(rows))
    assert [(info.id, info.context_limit) for info in found] == [("gpt-4o", 128_000), ("llama", 8192)]
    assert paths == ["/v1/models"]
    tags = {"models": [{"name": "qwen3:8b", "size": 1}]}
    found, paths = models("ollama", answer(tags), path="")
    assert [info.id for info in found] == ["qwen3:8b"]
    assert paths == ["/api/tags"]
    catalog: list[Any] = [
        {
            "id": "openai/gpt-4.1",
            "limits": {"max_input_tokens": 1_048_576, "max_output_tokens": 32_768},
            "supported_input_modalities": ["text", "image"],
            "supported_output_modalities": ["text"],
        },
        {"id": "openai/text-embedding-3-small", "supported_output_modalities": ["embeddings"]},
    ]
    found, paths = models("github_models", answer(catalog), path="/inference")
    assert found == [ModelInfo("openai/gpt-4.1", "github_models", 1_048_576, 32_768, vision=True)]
    assert paths == ["/catalog/models"]


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (answer("no", 401), AuthenticationError),
        (answer({"data": 7}), MalformedReply),
        (answer(b'{"data": [{"id": "caf\xe9"}]}'), MalformedReply),
        (answer("<html>", content_type="text/html"), MalformedReply),
        (Answer(["close"]), ConnectionFault),
    ],
)
def test_a_list_that_fails(script: Answer, kind: type[ProviderError]) -> None:
    """A list of models that cannot be had is a typed error."""
    with pytest.raises(kind):
        models("openai", script)


def test_a_list_in_pages() -> None:
    """A list that comes in pages is read to its end, and an endless one only so far."""

    def read(body: bytes) -> tuple[list[ModelInfo], str | None]:
        return [ModelInfo(body.decode(), "paged")], f"/models?after={body.decode()}"

    async def main() -> int:
        async with serve(*[answer(str(number)) for number in range(60)]) as server:
            listing = ModelListing("/models", read)
            about = make_provider("ollama", environ={}).model_info
            provider = HttpProvider(
                "paged", OpenAIChat(), base_url=server.url, describe=about, listing=listing
            )
            found = await provider.models()
            await provider.aclose()
            assert server.requests[1].path == "/models?after=0"
        return len(found)

    assert anyio.run(main) == 50
