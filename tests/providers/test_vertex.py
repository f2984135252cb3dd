"""Tokens for Vertex AI, from google-auth's own credentials and a token server on loopback."""

from __future__ import annotations

import anyio
import pytest
from google.oauth2.credentials import Credentials
from tests.providers.server import answer, events, serve, stream

from jaato.abc.provider import ModelRequest, Reply
from jaato.errors import AuthenticationError
from jaato.protocol.messages import Message, Text
from jaato.providers.google_genai.dialect import VertexDialect, VertexTokens
from jaato.providers.google_genai.models import describe
from jaato.providers.http import HttpProvider

SAID = {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}


def credentials(url: str) -> Credentials:
    """Credentials that have no token yet and get one from this server."""
    return Credentials(  # type: ignore[no-untyped-call]
        None, refresh_token="r", token_uri=f"{url}/token", client_id="i", client_secret="s"
    )


def test_a_token_is_fetched_once_and_sent_as_a_bearer() -> None:
    """The first request fetches a token off the loop; the next uses it while it is valid."""

    async def main() -> None:
        token = {"access_token": "tok-1", "expires_in": 3600, "token_type": "Bearer"}
        async with serve(answer(token), stream(*events(SAID)), stream(*events(SAID))) as server:
            provider = HttpProvider(
                "google_genai",
                VertexDialect("my-project", "us-central1"),
                base_url=server.url,
                describe=describe,
                key=VertexTokens(credentials(server.url)),
            )
            try:
                for _ in range(2):
                    request = ModelRequest("gemini-2.5-flash", [Message("user", [Text("hi")])])
                    chunks = [chunk async for chunk in provider.stream(request)]
                    assert isinstance(chunks[-1], Reply)
            finally:
                await provider.aclose()
            paths = [seen.path.partition("?")[0].rpartition("/")[2] for seen in server.requests]
            assert paths == ["token"] + ["gemini-2.5-flash:streamGenerateContent"] * 2
            assert [seen.headers.get("authorization") for seen in server.requests[1:]] == ["Bearer tok-1"] * 2

    anyio.run(main)


def test_a_refused_token_is_an_authentication_error() -> None:
    """When Google gives no token, the error says what to run."""

    async def main() -> None:
        async with serve(answer({"error": "invalid_grant"}, 400)) as server:
            with pytest.raises(AuthenticationError, match="application-default login"):
                await VertexTokens(credentials(server.url))()

    anyio.run(main)
