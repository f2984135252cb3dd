"""Logging in to a server made with the official SDK, its authorization server included, through the SDK's own client."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

import httpx2
import uvicorn
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from tests.mcp.oauth_servers import Config

from jaato.plugins.mcp.oauth.callback import Prompt
from jaato.plugins.mcp.oauth.login import Bearer, auth_for, login, logout
from jaato.plugins.mcp.oauth.options import LoginRequired
from jaato.plugins.mcp.oauth.token_store import TokenStore


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Consents to everything, keeps it in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.given: list[str] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._grant(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._grant(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.clear()
        self.refresh.clear()

    def _grant(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        one, two = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.given += [one, two]
        ends = int(time.time()) + 600
        self.access[one] = AccessToken(
            token=one, client_id=client_id, scopes=scopes, expires_at=ends, resource=resource
        )
        self.refresh[two] = RefreshToken(token=two, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=one, expires_in=600, scope=" ".join(scopes), refresh_token=two)


@contextmanager
def served(provider: Provider) -> Iterator[str]:
    """The URL of a server with one tool, at work."""
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    made = MCPServer(
        "notes",
        auth_server_provider=provider,
        auth=AuthSettings(
            issuer_url=origin,  # type: ignore[arg-type] # pydantic reads the text
            resource_server_url=f"{origin}/mcp",  # type: ignore[arg-type] # the same
            required_scopes=["notes"],
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["notes"]),
            revocation_options=RevocationOptions(enabled=True),
        ),
    )

    @made.tool()
    def add(one: int, two: int) -> int:
        """Add two numbers."""
        return one + two

    config = uvicorn.Config(made.streamable_http_app(), log_level="critical", lifespan="on", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"{origin}/mcp"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


async def browse(prompt: Prompt) -> None:
    """A person's browser."""
    async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as browser:
        assert (await browser.get(prompt.url)).status_code == 200


async def add(url: str, auth: Bearer) -> Any:
    """Call the tool by the SDK's client."""
    async with (
        httpx2.AsyncClient(trust_env=False, auth=auth) as http,
        streamable_http_client(url, http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        return (await session.call_tool("add", {"one": 2, "two": 3})).structured_content


def test_a_tool_of_a_protected_server_is_called(tmp_path: Path) -> None:
    """The first call logs in, the next process uses and refreshes what is kept, and logging out makes it void."""
    provider = Provider()
    with served(provider) as url:
        config, store = Config("notes", url), TokenStore(tmp_path)

        async def main() -> None:
            assert await add(url, auth_for(config, store, browse, environ={})) == {"result": 5}
            provider.access.clear()
            assert await add(url, auth_for(config, store, environ={})) == {"result": 5}
            assert len(provider.clients) == 1
            assert "revoked" in await logout(config, store, environ={})
            assert provider.access == {}
            await login(config, store, browse, environ={})
            assert await add(url, auth_for(config, store, environ={})) == {"result": 5}

        anyio.run(main)


def test_the_reason_survives_the_sdk(tmp_path: Path) -> None:
    """Whatever the SDK makes of a login that needs a person, the auth object says which command to run."""
    with served(Provider()) as url:
        auth = auth_for(Config("notes", url), TokenStore(tmp_path), environ={})

        async def main() -> None:
            with anyio.move_on_after(60):
                await add(url, auth)

        with pytest.raises(BaseException, match=r".") as caught:
            anyio.run(main)
        assert not isinstance(caught.value, AssertionError)
        assert isinstance(auth.failure, LoginRequired)
