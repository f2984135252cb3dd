"""Who grants tokens for a server: the challenge it answers with, its metadata, and those of its authorization server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from jaato.plugins.mcp.oauth_data import OAuthFault, Unreachable, plain, scopes_of
from jaato.plugins.mcp.oauth_wire import Wire, secure_url
from jaato.tools.address import Url

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r'[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([!#$%&\'*+.^_`|~0-9A-Za-z:/?-]+))(?=[ \t]*(?:,|$))')
CREDENTIALS = re.compile(r"[ \t]+[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
GAP = re.compile(r"[ \t,]*")
MAX_HEADER_CHARS = 8_192
MAX_ISSUERS = 16
PROTECTED = "/.well-known/oauth-protected-resource"
AUTHORITY = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


class NoMetadata(OAuthFault):
    """There is no authorization server where one should be."""


class Challenge(NamedTuple):
    """What a server asks for with a 401 or 403."""

    error: str = ""
    scope: tuple[str, ...] = ()
    metadata: str = ""


class Resource(NamedTuple):
    """The server as something protected: its identifier, and who grants tokens for it; all of it a guess unless
    `is_published`."""

    identifier: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    is_published: bool = True


class Authority(NamedTuple):
    """An authorization server by its own, checked description."""

    issuer: str
    token_endpoint: Url
    authorization_endpoint: Url | None
    registration_endpoint: Url | None
    revocation_endpoint: Url | None
    scopes: tuple[str, ...]
    methods: tuple[str, ...]
    has_pkce: bool
    reads_documents: bool
    names_itself: bool


def challenge_of(values: Iterable[str]) -> Challenge | None:
    """The first Bearer challenge of the WWW-Authenticate headers; what is malformed ends the reading of its line."""
    for value in values:
        for scheme, given in challenges(value[:MAX_HEADER_CHARS]):
            if scheme == "bearer":
                scope = tuple(scopes_of(given.get("scope", "")))
                return Challenge(given.get("error", "")[:100], scope, given.get("resource_metadata", ""))
    return None


def challenges(text: str) -> list[tuple[str, dict[str, str]]]:
    """The challenges of one header line: scheme in lower case, parameters, of which the first of a name counts."""
    found: list[tuple[str, dict[str, str]]] = []
    at = 0
    while (word := TOKEN.match(text, gap(text, at))) is not None:
        value = VALUE.match(text, word.end())
        if value is not None and found:
            quoted = value[1]
            plainly = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else value[2]
            found[-1][1].setdefault(word[0].lower(), plainly)
            at = value.end()
            continue
        if text[word.end() : word.end() + 1] not in ("", " ", "\t", ","):
            break
        found.append((word[0].lower(), {}))
        at = word.end()
        blob = CREDENTIALS.match(text, at)
        if blob is not None:
            at = blob.end()
    return found


def gap(text: str, at: int) -> int:
    """Where the next word may begin."""
    match = GAP.match(text, at)
    return at if match is None else match.end()


async def resource_of(wire: Wire, server: Url, metadata: str = "") -> Resource | None:
    """What the server says of itself: at the URL its challenge names, else at the well-known places.

    None where it publishes nothing; then, as servers of 2025-03-26 had it, its own origin may grant tokens. Raises
    `OAuthFault` when it names a resource that is not this server.
    """
    what = "The metadata of the protected server"
    if metadata:
        reply = await wire.get(secure_url(metadata, what), what)
        if reply.status != 200:
            raise OAuthFault(f"{what} answered with status {reply.status}.")
        return resource_from(reply.document(what), server)
    path = server.target.partition("?")[0].rstrip("/")
    for target in dict.fromkeys((PROTECTED + path, PROTECTED)):
        document = await found_at(wire, server._replace(target=target), what)
        if document is not None:
            return resource_from(document, server)
    return None


async def found_at(wire: Wire, url: Url, what: str) -> dict[str, Any] | None:
    """The document at a well-known place, None where there is none; a page that is no JSON object is none."""
    reply = await wire.get(url, what)
    if reply.status == 429 or reply.status >= 500:
        raise Unreachable(f"{what}: {url.authority} answered with status {reply.status}.")
    if reply.status != 200:
        return None
    try:
        return reply.document(what)
    except OAuthFault:
        return None


def resource_from(document: dict[str, Any], server: Url) -> Resource:
    """The checked description of a protected server. Raises `OAuthFault`."""
    what = "The resource of the server's metadata"
    text = document.get("resource")
    named = secure_url(text, what)
    if not covers(named, server):
        raise OAuthFault(
            f"{what} is {plain(text)}, not {server}; a token for another server is not asked for."
        )
    issuers = document.get("authorization_servers")
    if not isinstance(issuers, list) or not issuers or not all(isinstance(one, str) for one in issuers):
        raise OAuthFault("The metadata of the protected server name no authorization server.")
    return Resource(
        str(text), tuple(issuers[:MAX_ISSUERS]), tuple(scopes_of(document.get("scopes_supported")))
    )


def covers(named: Url, server: Url) -> bool:
    """Whether a resource is this server: the same origin, and its path or one above it."""
    if "?" in named.target and named.target != server.target:
        return False
    above = named.target.rstrip("/") + "/"
    below = server.target.partition("?")[0].rstrip("/") + "/"
    return named.origin == server.origin and (below.startswith(above) or named.target == server.target)


async def authority_of(wire: Wire, issuer: str, *, guessed: bool = False) -> Authority:
    """The authorization server's own description, by OAuth or OpenID discovery. An issuer that is only `guessed`, from
    the server's origin, may be any on that origin. Raises `OAuthFault`."""
    what = "The metadata of the authorization server"
    url = secure_url(issuer, "The issuer")
    if "?" in url.target:
        raise OAuthFault("The issuer has a query; it must have none.")
    path = url.target.rstrip("/")
    places = dict.fromkeys((AUTHORITY + path, OPENID + path, path + OPENID))
    for target in places:
        document = await found_at(wire, url._replace(target=target), what)
        if document is not None:
            named = document.get("issuer")
            if guessed and secure_url(named, "The issuer").origin == url.origin:
                issuer = str(named)
            return authority_from(document, issuer)
    raise NoMetadata(f"{what} are nowhere to be found at {url.authority}.")


def authority_from(document: dict[str, Any], issuer: str) -> Authority:
    """The checked description of an authorization server; the issuer must be the one that was asked for, but for
    the slash of a bare origin. Raises `OAuthFault`."""
    named = document.get("issuer")
    if not isinstance(named, str) or not same_issuer(named, issuer):
        raise OAuthFault(
            f"The authorization server {plain(issuer)} says that it is {plain(named) or 'nobody'}; it is not trusted."
        )

    def place(name: str) -> Url | None:
        value = document.get(name)
        return None if value is None else secure_url(value, f"The {name} of {plain(issuer)}")

    token_endpoint = place("token_endpoint")
    if token_endpoint is None:
        raise OAuthFault(f"{plain(issuer)} names no token_endpoint.")
    return Authority(
        issuer=named,
        token_endpoint=token_endpoint,
        authorization_endpoint=place("authorization_endpoint"),
        registration_endpoint=place("registration_endpoint"),
        revocation_endpoint=place("revocation_endpoint"),
        scopes=tuple(scopes_of(document.get("scopes_supported"))),
        methods=words(document.get("token_endpoint_auth_methods_supported")),
        has_pkce="S256" in words(document.get("code_challenge_methods_supported")),
        reads_documents=document.get("client_id_metadata_document_supported") is True,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def same_issuer(one: str, other: str) -> bool:
    """Whether two issuers are the same text, or the same bare origin with and without its slash."""
    bare = re.compile(r"https?://[^/?#]+")
    return one == other or (
        one.rstrip("/") == other.rstrip("/") and bare.fullmatch(one.rstrip("/")) is not None
    )


def words(value: Any) -> tuple[str, ...]:
    """The texts of a list."""
    return tuple(one for one in value[:100] if isinstance(one, str)) if isinstance(value, list) else ()
