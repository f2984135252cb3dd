"""A protected MCP endpoint and an OAuth 2.1 authorization server on loopback, and a browser that logs in."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from tests.mcp.oauth_web import Reply, Request, Web, as_json

from jaato.plugins.mcp.oauth.callback import Ask, Prompt
from jaato.plugins.mcp.oauth.login import Bearer, auth_for
from jaato.plugins.mcp.oauth.token_store import TokenStore

DOCUMENT = "https://client.example/jaato.json"


class Authority(Web):
    """An authorization server that consents to everything: codes once, PKCE, resource, rotation with reuse detection."""

    def __init__(self) -> None:
        super().__init__()
        self.issuer = self.origin
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, dict[str, str]] = {}
        self.refreshes: dict[str, dict[str, str]] = {}
        self.spent: set[str] = set()
        self.burnt = 0
        self.refreshed = 0
        self.life: Any = 3600
        self.extra: dict[str, Any] = {}
        self.answer_extra: dict[str, Any] = {}
        self.callback: Callable[[dict[str, str]], dict[str, str]] = dict
        self.lock = threading.Lock()
        self.routes = {
            "/.well-known/oauth-authorization-server": lambda _: as_json(self.metadata()),
            "/authorize": self.authorize,
            "/token": self.token,
            "/register": self.register,
            "/revoke": self.revoke,
        }

    def metadata(self) -> dict[str, Any]:
        """The server's description."""
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
            **self.extra,
        }
        return {name: value for name, value in document.items() if value is not None}

    def register(self, request: Request) -> Reply:
        """Dynamic registration."""
        document = json.loads(request.body)
        client = {**document, "client_id": f"client-{len(self.clients)}"}
        if document["token_endpoint_auth_method"] != "none":
            client["client_secret"] = "registered-secret"
        self.clients[client["client_id"]] = client
        return as_json(client, 201)

    def authorize(self, request: Request) -> Reply:
        """Consent, at once; a client that is not known is shown a page and sent nowhere."""
        asked = request.query
        client = self.clients.get(asked.get("client_id", ""))
        redirect = asked.get("redirect_uri", "")
        fits = (
            redirect.startswith(("http://127.0.0.1:", "http://localhost:"))
            if client and "any_port" in client
            else False
        )
        if client is None or not (fits or redirect in client.get("redirect_uris", [])):
            return Reply(400, {}, b"unknown client")
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        given = self.callback({"code": code, "state": asked.get("state", ""), "iss": self.issuer})
        return Reply(302, {"Location": f"{redirect}?{urlencode(given)}"})

    def token(self, request: Request) -> Reply:
        """The token endpoint."""
        with self.lock:
            client = self.known(request)
            if client is None:
                return as_json({"error": "invalid_client"}, 401)
            match request.form.get("grant_type"):
                case "authorization_code":
                    asked = self.codes.pop(request.form["code"], None)
                    digest = hashlib.sha256(request.form["code_verifier"].encode()).digest()
                    proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                    same = asked and all(
                        asked[key] == request.form[key] for key in ("redirect_uri", "resource")
                    )
                    if (
                        not same
                        or not asked
                        or asked["code_challenge"] != proof
                        or asked["client_id"] != client
                    ):
                        return as_json({"error": "invalid_grant"}, 400)
                    return self.grant(client, asked.get("scope", ""), asked["resource"])
                case "refresh_token":
                    old = self.refreshes.pop(request.form["refresh_token"], None)
                    if request.form["refresh_token"] in self.spent:
                        self.burnt += 1
                        self.refreshes.clear()
                    if old is None:
                        return as_json({"error": "invalid_grant"}, 400)
                    self.refreshed += 1
                    self.spent.add(request.form["refresh_token"])
                    return self.grant(client, old["scope"], old["resource"])
                case "client_credentials":
                    return self.grant(client, request.form.get("scope", ""), request.form["resource"])
            return as_json({"error": "unsupported_grant_type"}, 400)

    def known(self, request: Request) -> str | None:
        """The client that shows itself rightly."""
        name, secret = request.form.get("client_id", ""), request.form.get("client_secret", "")
        header = request.headers.get("authorization", "")
        if header.startswith("Basic "):
            name, _, secret = base64.b64decode(header[6:]).decode().partition(":")
        client = self.clients.get(name)
        return name if client is not None and client.get("client_secret", "") == secret else None

    def grant(self, client: str, scope: str, resource: str) -> Reply:
        """New tokens."""
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        kept = {"client": client, "scope": scope, "resource": resource}
        self.tokens[access] = self.refreshes[refresh] = kept
        document = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self.life,
            "refresh_token": refresh,
            "scope": scope,
            **self.answer_extra,
        }
        return as_json({name: value for name, value in document.items() if value is not None})

    def revoke(self, request: Request) -> Reply:
        """Make a refresh token void, and all access with it."""
        kept = self.refreshes.pop(request.form["token"], None)
        self.tokens = {name: one for name, one in self.tokens.items() if one is not kept}
        return Reply(200)


class Protected(Web):
    """An MCP endpoint that wants a token of one authority for itself, with the scopes in `needs`."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self.authority = authority
        self.url = f"{self.origin}/mcp"
        self.needs: tuple[str, ...] = ()
        self.scopes: list[str] | None = None
        self.metadata: dict[str, Any] = {}
        self.challenge: str | None = None
        self.place = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
        self.routes = {
            "/mcp": self.answer,
            "/.well-known/oauth-protected-resource/mcp": lambda _: as_json(self.document()),
        }

    def document(self) -> dict[str, Any]:
        """What it says of itself."""
        document = {
            "resource": self.url,
            "authorization_servers": [self.authority.issuer],
            "scopes_supported": self.scopes,
            **self.metadata,
        }
        return {name: value for name, value in document.items() if value is not None}

    def answer(self, request: Request) -> Reply:
        """200 for a token that is good here."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        kept = self.authority.tokens.get(token)
        scope = f', scope="{" ".join(self.needs)}"' if self.needs else ""
        if kept is None or kept["resource"] != self.document()["resource"]:
            said = (
                f'Bearer resource_metadata="{self.place}"{scope}'
                if self.challenge is None
                else self.challenge
            )
            return Reply(401, {"WWW-Authenticate": said}, b"who are you?")
        if not {*self.needs} <= {*kept["scope"].split()}:
            said = f'Bearer error="insufficient_scope"{scope}, resource_metadata="{self.place}"'
            return Reply(403, {"WWW-Authenticate": said}, b"not with this")
        return as_json({"scope": kept["scope"]})


@dataclass
class Config:
    """A server's configuration as far as logging in reads it."""

    name: str
    url: str
    oauth: Any = None


@dataclass
class Desk:
    """Both servers, a store, and a person with a browser."""

    authority: Authority
    server: Protected
    store: TokenStore
    oauth: dict[str, Any] = field(default_factory=dict)
    prompts: list[Prompt] = field(default_factory=list)
    pages: list[httpx2.Response] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """The configuration of the protected server."""
        return Config("desk", self.server.url, self.oauth)

    async def browse(self, prompt: Prompt) -> None:
        """Follow the address, as a browser does, to the page at the end."""
        self.prompts.append(prompt)
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as browser:
            self.pages.append(await browser.get(prompt.url))

    def auth(self, ask: Ask | None, within_s: float = 60.0) -> Bearer:
        """An auth object as the host makes it."""
        auth = auth_for(self.config, self.store, ask, environ={})
        auth.login.within_s = within_s
        return auth

    async def call(self, auth: Bearer | None = None) -> httpx2.Response:
        """One request to the server, with a login by browser unless told otherwise."""
        async with httpx2.AsyncClient(trust_env=False, auth=auth or self.auth(self.browse)) as client:
            return await client.post(self.server.url, json={})


@contextmanager
def desk(path: Path, **oauth: Any) -> Iterator[Desk]:
    """A desk at work."""
    authority = Authority()
    server = Protected(authority)
    with authority.at_work(), server.at_work():
        yield Desk(authority, server, TokenStore(path / "state"), oauth)
