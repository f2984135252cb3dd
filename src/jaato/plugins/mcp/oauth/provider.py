"""A login by the SDK's OAuth client; where each of its requests goes, and what is answered, is checked by us."""

from __future__ import annotations

import json
import logging
import time
from typing import Any
from urllib.parse import parse_qsl, urlencode

import anyio
import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import handle_protected_resource_response
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from mcp_types.version import LATEST_MODERN_VERSION

from jaato.errors import JaatoError
from jaato.plugins.mcp.oauth.callback import PATH, Ask, CallbackServer, Prompt, check_url, receiver
from jaato.plugins.mcp.oauth.credentials import LOCK_WITHIN_S, Challenge, Login
from jaato.plugins.mcp.oauth.options import (
    REDIRECT,
    Client,
    Entry,
    OAuthFault,
    Refused,
    Tokens,
    Unreachable,
    plain,
    scopes_of,
)
from jaato.plugins.mcp.oauth.requests import (
    CREDENTIAL,
    FORM,
    METHODS,
    Reply,
    client_authentication,
    method_for,
    refusal_error,
    secure_url,
    send,
)

LOGIN_PARAMETERS = frozenset(
    "response_type client_id redirect_uri state code_challenge code_challenge_method resource scope prompt "
    "request_uri".split()
)
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)
"""The SDK logs responses, which may hold secrets."""


class LoginProvider(OAuthClientProvider):
    """One login: the SDK's provider, driven by `run`, and its storage. `inbox` receives the person's answer, None where
    there is no person; what is granted is in `tokens`, to whom in `client`."""

    def __init__(
        self, login: Login, scope: list[str], metadata_url: str, inbox: CallbackServer | None
    ) -> None:
        self.login = login
        self.inbox = inbox
        self.tokens: Tokens | None = None
        self.client: Client | None = None
        self._scope = scope
        self._metadata_url = metadata_url
        self._received: dict[str, str] = {}
        options = login.options
        redirect: Any = "http://127.0.0.1/callback" if inbox is None else inbox.redirect_uri
        super().__init__(
            str(login.server),
            OAuthClientMetadata(client_name="jaato", redirect_uris=[redirect]),
            self,
            self._ask_user,
            self._check_answer,
            None if options.client_id else options.client_metadata_url,
        )

    async def run(self) -> Tokens:
        """Log in and keep what is granted. Raises `OAuthFault`, `LoginRequired`."""
        version = {"mcp-protocol-version": LATEST_MODERN_VERSION}
        request = httpx2.Request("POST", str(self.login.server), headers=version)
        wanted = [f'scope="{" ".join(self._scope)}"'] if self._scope else []
        if self._metadata_url:
            secure_url(self._metadata_url, "The metadata of the protected server")
            wanted.append(f'resource_metadata="{self._metadata_url}"')
        challenge = {"www-authenticate": f"Bearer {', '.join(wanted)}"}
        flow = self.async_auth_flow(request)
        try:
            await anext(flow)
            asked = await flow.asend(httpx2.Response(401, headers=challenge, request=request))
            while asked is not request:
                asked = await flow.asend(await self._send(asked))
        except (OAuthFlowError, ValueError, httpx2.InvalidURL) as error:
            # Those with a cause repeat what was answered.
            shown = isinstance(error, OAuthFlowError) and error.__cause__ is None
            why = plain(str(error)) if shown else "an answer is not as the protocol has it"
            raise OAuthFault(f"The login failed: {why}.") from None
        finally:
            await flow.aclose()
        assert self.tokens is not None
        return self.tokens

    # --- the SDK's storage: nothing is loaded but a client that can be used again ------------------------------------

    async def get_tokens(self) -> OAuthToken | None:
        """None: stored tokens were refused."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Do nothing: `run` stores the tokens as they were answered."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The configured client, or the registered one if its redirect URI is that of now; bound to its issuer."""
        login, entry = self.login, self.login.record.entry if self.login.record else None
        if login.options.client_id:
            secret = login.options.client_secret
            issuer = login.options.issuer or (entry.issuer if entry else None)
            self.client = Client(client_id=login.options.client_id, kind="configured", secret=secret or "")
        else:
            known = entry.client if entry is not None and not login.registers_anew else None
            if entry is None or known is None or self.inbox is None or known.kind != "registered":
                return None
            if known.redirect_uri != self.inbox.redirect_uri or not known.is_valid(time.time()):
                return None
            self.client, issuer = known, entry.issuer
        return OAuthClientInformationFull(
            client_id=self.client.client_id,
            client_secret=self.client.secret or None,
            token_endpoint_auth_method=self.client.method,
            issuer=issuer,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """A client that was registered now, or is its own document."""
        secret = client_info.client_secret or ""
        method = client_info.token_endpoint_auth_method or ("client_secret_basic" if secret else "none")
        client_info.token_endpoint_auth_method = method
        document = client_info.client_id == self.context.client_metadata_url
        self.client = Client(
            client_id=client_info.client_id,
            kind="document" if document else "registered",
            method=next(one for one in METHODS if one == method),
            secret=secret if method != "none" else "",
            secret_expires_at=client_info.client_secret_expires_at or 0,
            redirect_uri="" if self.inbox is None or document else self.inbox.redirect_uri,
        )

    # --- what the SDK asks ---------------------------------------------------------------------------------------------

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """The answer to a request of the SDK's, checked. Raises `OAuthFault`."""
        wire, url = self.login.wire, str(request.url)
        if request.method == "GET":
            protected = url == self._metadata_url or "oauth-protected-resource" in request.url.path
            what = f"The metadata of the {'protected' if protected else 'authorization'} server"
            reply = await wire.get(secure_url(url, what), what)
            if reply.status == 429 or reply.status >= 500:
                raise Unreachable(f"{what}: {request.url.host} answered with status {reply.status}.")
            content = reply.body if protected else self._adapt_metadata(reply)
            answer = httpx2.Response(reply.status, content=content, request=request)
            if url == self._metadata_url and await handle_protected_resource_response(answer) is None:
                raise OAuthFault(f"{what}, which it names itself, cannot be used (status {reply.status}).")
            return answer
        headers = {
            name: request.headers[name]
            for name in ("content-type", "authorization")
            if name in request.headers
        }
        if request.headers["content-type"] == "application/json":
            reply = await self._check_registration(request.content)
        else:
            # The grant is awaited and stored even when the request is cancelled.
            with anyio.CancelScope(shield=True):
                scope = self.context.client_metadata.scope or ""
                try:
                    self.tokens = await send(wire, url, request.content, headers, scope)
                except Refused as error:
                    if error.error == "invalid_client" and self.client and self.client.kind == "registered":
                        await self.login.store.delete(self.login.name)
                    raise
                await self.login.save(self._make_entry())
            reply = Reply(200, {}, b'{"access_token": "kept", "token_type": "Bearer"}')
        return httpx2.Response(reply.status, content=reply.body, request=request)

    def _adapt_metadata(self, reply: Reply) -> bytes:
        """The metadata of an authorization server as the SDK should read them: it would ask for every scope there is,
        refuse a server that has only tokens to give, and mend the places that are named. Raises `OAuthFault`."""
        try:
            document = reply.document("")
        except OAuthFault:
            return reply.body
        for name in ENDPOINTS:
            if document.get(name) is not None:
                secure_url(document[name], f"The {name}")
        scopes = document.get("scopes_supported")
        offline = isinstance(scopes, list) and "offline_access" in scopes
        document["scopes_supported"] = ["offline_access"] if offline else None
        if self.login.options.grant == "client_credentials":
            document.setdefault("authorization_endpoint", document.get("token_endpoint"))
        return json.dumps(document).encode()

    async def _check_registration(self, content: bytes) -> Reply:
        """The answer to a registration. Raises `OAuthFault`."""
        metadata = self._get_metadata()
        issuer = plain(str(metadata.issuer))
        if self.login.options.client_id:
            raise self.login.issuer_error(issuer)
        await self.login.require_user(self._get_requested_scope())
        if metadata.registration_endpoint is None:
            raise OAuthFault(
                f"{issuer} does not register clients; register jaato there, with the redirect URI "
                "http://127.0.0.1/callback, and configure oauth.clientId."
            )
        offered = metadata.token_endpoint_auth_methods_supported or []
        method = next((one for one in METHODS if one in offered), "none")
        body = json.dumps({**json.loads(content), "token_endpoint_auth_method": method}).encode()
        place = secure_url(str(metadata.registration_endpoint), "The registration_endpoint")
        what = "The registration"
        reply = await self.login.wire.post(place, body, {"Content-Type": "application/json"}, what)
        if reply.status not in (200, 201):
            raise refusal_error(reply, what)
        client_id = reply.document("The answer to the registration").get("client_id")
        if not isinstance(client_id, str) or not CREDENTIAL.fullmatch(client_id):
            raise OAuthFault("The registration gave no client_id that can be used.")
        return reply

    def _get_metadata(self) -> OAuthMetadata:
        """The metadata of the authorization server. Raises `OAuthFault` where there are none."""
        if self.context.oauth_metadata is not None:
            return self.context.oauth_metadata
        if self.context.auth_server_url:
            raise OAuthFault(
                f"The metadata of {plain(self.context.auth_server_url)} are nowhere to be found, or cannot be used."
            )
        raise OAuthFault(
            f"{plain(self.login.server_name)} wants to know who asks, and does not say where to log in. If it takes a "
            "key, put it into its headers, as Authorization."
        )

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return self.login.choose_issuer(advertised)

    async def _perform_authorization(self) -> httpx2.Request:
        """The request that asks for tokens. Raises `OAuthFault`, `LoginRequired`."""
        metadata, options, info = self._get_metadata(), self.login.options, self.context.client_info
        assert self.client is not None
        assert info is not None
        endpoint = secure_url(str(metadata.token_endpoint), "The token_endpoint")
        issuer = str(metadata.issuer)
        if self.client.kind == "configured":
            if options.client_id != info.client_id:
                raise self.login.issuer_error(plain(issuer))
            method = method_for(options, metadata.token_endpoint_auth_methods_supported or [])
            self.client = Client(
                client_id=info.client_id, kind="configured", method=method, secret=self.client.secret
            )
            info.token_endpoint_auth_method = method
        if options.grant == "client_credentials":
            form = {"grant_type": "client_credentials", "resource": self.context.get_resource_url()}
            if self.context.client_metadata.scope:
                form["scope"] = self.context.client_metadata.scope
        else:
            if "S256" not in (metadata.code_challenge_methods_supported or []):
                raise OAuthFault(f"{plain(issuer)} does not offer PKCE with S256; a login there is not safe.")
            await self.login.require_user(self._get_requested_scope())
            request = await super()._perform_authorization()
            if self.client.method != "private_key_jwt":
                return request
            form = dict(parse_qsl(request.content.decode()))
        headers, more = client_authentication(self.client, options, issuer)
        body = urlencode({**form, **more}).encode()
        return httpx2.Request("POST", str(endpoint), content=body, headers={**FORM, **headers})

    # --- the user ----------------------------------------------------------------------------------------------------

    async def _ask_user(self, url: str) -> None:
        """Show a person where to log in, and wait for the answer. Raises `OAuthFault`, `Refused`."""
        metadata = self._get_metadata()
        assert self.inbox is not None
        assert self.login.ask is not None
        endpoint = secure_url(str(metadata.authorization_endpoint), "The authorization_endpoint")
        own = endpoint.target.partition("?")[2]
        if any(part.partition("=")[0].lower() in LOGIN_PARAMETERS for part in own.split("&")):
            raise OAuthFault(
                "The authorization_endpoint sets parameters of the login itself; it is not trusted."
            )
        await self.login.wire.check(endpoint, "The address to log in at")
        asked = url.removeprefix(f"{metadata.authorization_endpoint}?")
        url = f"{endpoint}{'&' if own else '' if '?' in endpoint.target else '?'}{asked}"
        self.inbox.state = dict(parse_qsl(asked))["state"]
        prompt = Prompt(self.login.server_name, check_url(url), endpoint.authority, str(metadata.issuer))
        self._received = await self._wait_for_answer(self.login.ask, self.inbox, prompt)

    async def _check_answer(self) -> AuthorizationCodeResult:
        """The answer, if it is truly from this authorization server (RFC 9207); nothing of another's is shown."""
        answer, metadata = self._received, self._get_metadata()
        named = metadata.authorization_response_iss_parameter_supported
        if answer.get("iss", None if named else str(metadata.issuer)) != str(metadata.issuer):
            raise OAuthFault(
                "The answer to the login is not from the authorization server that was asked; it is not used."
            )
        if "error" in answer:
            why, error = plain(answer.get("error_description")), plain(answer["error"])[:60]
            raise Refused(f"The login was refused: {error}{f' ({why})' if why else ''}.", error)
        code = answer.get("code", "")
        if not CREDENTIAL.fullmatch(code):
            raise OAuthFault("The answer to the login has no code.")
        return AuthorizationCodeResult(code=code, state=answer["state"], iss=answer.get("iss"))

    async def _wait_for_answer(self, ask: Ask, inbox: CallbackServer, prompt: Prompt) -> dict[str, str]:
        failure: JaatoError = OAuthFault(f"There was no login within {self.login.within_s:g} s.")
        answer: dict[str, str] | None = None
        with anyio.move_on_after(self.login.within_s):
            async with anyio.create_task_group() as group:

                async def show() -> None:
                    nonlocal failure
                    try:
                        pasted = await ask(prompt)
                        if pasted is not None and not inbox.paste(pasted):
                            raise OAuthFault("That is not the address the login ends at.")
                    except JaatoError as error:
                        failure = error
                        group.cancel_scope.cancel()

                group.start_soon(show)
                answer = await inbox.answer()
                if answer is None:
                    failure = OAuthFault(
                        "Something on this machine keeps sending wrong answers to the login."
                    )
                group.cancel_scope.cancel()
        if answer is None:
            raise failure
        return answer

    # --- the result ------------------------------------------------------------------------------------------------

    def _get_requested_scope(self) -> list[str]:
        return (self.context.client_metadata.scope or "").split()

    def _make_entry(self) -> Entry:
        """The login to store."""
        metadata = self._get_metadata()
        assert self.client is not None
        assert self.tokens is not None
        scope = self._get_requested_scope()
        self.tokens = msgspec.structs.replace(self.tokens, scope=self.tokens.scope or scope)
        return Entry(
            issuer=str(metadata.issuer),
            resource=self.context.get_resource_url(),
            token_endpoint=str(metadata.token_endpoint),
            client=self.client,
            revocation_endpoint=str(metadata.revocation_endpoint or ""),
            asked_scope=scope,
            tokens=self.tokens,
        )


def port_of(client: Client | None) -> int:
    """The port a client was registered with, 0 for none."""
    found = REDIRECT.fullmatch(client.redirect_uri) if client else None
    port = int(found[2] or 0) if found else 0
    return port if port < 65_536 else 0


async def obtain(login: Login, challenge: Challenge, asked: tuple[str, ...] = ()) -> Tokens:
    """A new grant. Raises `LoginRequired` where a person is needed and there is none, `OAuthFault`."""
    wanted = (*challenge.scope, *asked)
    if login.ask is None or login.options.grant == "client_credentials":
        return await run_flow(login, challenge, wanted, None)
    entry = login.record.entry if login.record else None
    seen = entry.tokens.access if entry and entry.tokens else ""
    async with login.store.lock(login.name, "login", login.within_s + LOCK_WITHIN_S):
        login.record = await login.store.read(login.name)
        entry = login.record.entry if login.record else None
        tokens = entry.tokens if entry else None
        if tokens and tokens.access != seen and tokens.is_valid(time.time()) and {*wanted} <= {*tokens.scope}:
            return tokens  # another process has logged in meanwhile
        found = REDIRECT.fullmatch(login.options.redirect_uri)
        fixed = (int(found[2] or 0) if found else 0) or login.options.redirect_port
        host, path = (found[1], found[3]) if found else ("127.0.0.1", PATH)
        port = fixed or port_of(entry.client if entry else None)
        try:
            async with receiver(port, only=fixed > 0, host=host, path=path) as inbox:
                return await run_flow(login, challenge, wanted, inbox)
        except OSError as error:
            raise OAuthFault(
                f"No port of this machine can take the answer of the login: {error.strerror}."
            ) from None


async def run_flow(
    login: Login, challenge: Challenge, wanted: tuple[str, ...], inbox: CallbackServer | None
) -> Tokens:
    """Run a login for the scopes of the earlier login and the requested ones; gives its tokens."""
    entry = login.record.entry if login.record else None
    if entry is not None:
        granted = entry.tokens.scope if entry.tokens else []
        scope = scopes_of([*entry.asked_scope, *granted, *wanted])
    else:
        scope = scopes_of([*login.options.scopes, *wanted])
    return await LoginProvider(login, scope, challenge.metadata, inbox).run()
