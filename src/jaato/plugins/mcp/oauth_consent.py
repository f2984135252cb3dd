"""A person's consent to a login: the address shown, the answer received, and checked to come from who was asked."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from jaato.errors import JaatoError
from jaato.plugins.mcp.oauth_browser import Ask, Prompt, checked_url
from jaato.plugins.mcp.oauth_data import REDIRECT, Client, OAuthFault, Options, Refused, plain
from jaato.plugins.mcp.oauth_discovery import Authority
from jaato.plugins.mcp.oauth_grants import CREDENTIAL, authorization_url, challenge_pair, configured, register
from jaato.plugins.mcp.oauth_receiver import PATH, Receiver, receiver
from jaato.plugins.mcp.oauth_wire import Wire
from jaato.tools.address import Url


@dataclass(frozen=True, slots=True)
class Consent:
    """How one authorization server is asked for one server's tokens, through a person; each use is a new login."""

    server_name: str
    wire: Wire
    options: Options
    authority: Authority
    ask: Ask
    within_s: float
    now: Callable[[], float]

    async def given(
        self, resource: str, scope: list[str], known: Client | None
    ) -> tuple[Client, dict[str, str]]:
        """The client that was shown and the form that asks for its tokens. Raises `OAuthFault`, `Refused` when the
        person or the server said no."""
        endpoint = await self._endpoint()
        state = secrets.token_urlsafe(32)
        verifier, challenge = challenge_pair()
        host, fixed, path = self._place()
        port = fixed or port_of(known)
        try:
            async with receiver(state, port, only=fixed > 0, host=host, path=path) as inbox:
                client = await self._client(known, inbox.redirect_uri, scope)
                url = authorization_url(
                    endpoint, client, inbox.redirect_uri, resource, scope, state, challenge
                )
                prompt = Prompt(self.server_name, checked_url(url), endpoint.authority, self.authority.issuer)
                answer = await self._answer(inbox, prompt)
        except OSError as error:
            raise OAuthFault(
                f"No port of this machine can take the answer of the login: {error.strerror}."
            ) from None
        return client, {
            "grant_type": "authorization_code",
            "code": code_of(answer, self.authority),
            "redirect_uri": inbox.redirect_uri,
            "code_verifier": verifier,
            "resource": resource,
        }

    def _place(self) -> tuple[str, int, str]:
        """Host, port and path of the configured redirect URI; port 0 for any."""
        found = REDIRECT.fullmatch(self.options.redirect_uri)
        if found is None:
            return "127.0.0.1", self.options.redirect_port, PATH
        return found[1], int(found[2] or self.options.redirect_port), found[3]

    async def _endpoint(self) -> Url:
        who = plain(self.authority.issuer)
        if not self.authority.has_pkce:
            raise OAuthFault(f"{who} does not offer PKCE with S256; a login there is not safe.")
        if self.authority.authorization_endpoint is None:
            raise OAuthFault(f"{who} names no authorization_endpoint.")
        await self.wire.check(self.authority.authorization_endpoint, "The address to log in at")
        return self.authority.authorization_endpoint

    async def _client(self, known: Client | None, redirect_uri: str, scope: list[str]) -> Client:
        """Configured beforehand, else a document at a URL, else registered before or now."""
        if self.options.client_id:
            return configured(self.options, self.authority)
        if self.options.client_metadata_url and self.authority.reads_documents:
            return Client(client_id=self.options.client_metadata_url, kind="document")
        same = known is not None and known.kind == "registered" and known.redirect_uri == redirect_uri
        if known is not None and same and known.lasts(self.now()):
            return known
        if self.authority.registration_endpoint is None:
            raise OAuthFault(
                f"{plain(self.authority.issuer)} registers nobody by itself; register jaato there, with the redirect "
                f"URI http://127.0.0.1{PATH}, and configure oauth.clientId."
            )
        return await register(self.wire, self.authority, redirect_uri, scope)

    async def _answer(self, inbox: Receiver, prompt: Prompt) -> dict[str, str]:
        failure: JaatoError = OAuthFault(f"Nobody logged in within {self.within_s:g} s.")
        answer: dict[str, str] | None = None
        with anyio.move_on_after(self.within_s):
            async with anyio.create_task_group() as group:

                async def show() -> None:
                    nonlocal failure
                    try:
                        pasted = await self.ask(prompt)
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


def port_of(client: Client | None) -> int:
    """The port a client was registered with, 0 for none."""
    found = REDIRECT.fullmatch(client.redirect_uri) if client else None
    port = int(found[2] or 0) if found else 0
    return port if port < 65_536 else 0


def code_of(answer: dict[str, str], authority: Authority) -> str:
    """The code of an answer that is truly from this authorization server (RFC 9207); nothing of another's answer
    is shown. Raises `OAuthFault`, `Refused`."""
    said = answer.get("iss")
    if said != authority.issuer and (said is not None or authority.names_itself):
        raise OAuthFault(
            "The answer to the login is not from the authorization server that was asked; it is not used."
        )
    if "error" in answer:
        why = plain(answer.get("error_description"))
        error = plain(answer["error"])[:60]
        raise Refused(f"The login was refused: {error}{f' ({why})' if why else ''}.", error)
    code = answer.get("code", "")
    if not CREDENTIAL.fullmatch(code):
        raise OAuthFault("The answer to the login has no code.")
    return code
