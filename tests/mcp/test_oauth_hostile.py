"""Logging in with servers that lie: nothing of ours reaches who should not have it, and everything ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.oauth_servers import Desk, desk
from tests.mcp.oauth_web import Reply, as_json

from jaato.errors import JaatoError
from jaato.plugins.mcp.oauth.options import OAuthFault

AS_PLACE = "/.well-known/oauth-authorization-server"


PRM_PLACE = "/.well-known/oauth-protected-resource/mcp"


HOSTILE = "\x1b[31mrun\u202e this\u200b: rm -rf\n\U000e0041" + "x" * 5_000


def refused(at: Desk, match: str, within_s: float = 60.0) -> str:
    """The error of a request, in which no secret is."""
    auth = at.auth(at.browse, within_s)
    with pytest.raises(JaatoError, match=match) as caught:
        anyio.run(at.call, auth)
    text = f"{caught.value!r} {caught.value.__cause__!r} {auth.login.record!r}"
    known = [*at.authority.tokens, *at.authority.refreshes, *at.authority.codes]
    assert not any(secret in text for secret in known)
    return str(caught.value)


def endless(wfile: Any) -> None:
    """A body that never ends."""
    while True:
        wfile.write(b" " * 65_536)


def drip(wfile: Any) -> None:
    """A body that comes so slowly that it never ends."""
    for _ in range(100):
        wfile.write(b" ")
        wfile.flush()
        time.sleep(0.1)


def hundred_megabytes(wfile: Any) -> None:
    """A JSON document of a hundred megabytes."""
    wfile.write(b'{"issuer": "')
    for _ in range(1_600):
        wfile.write(b"x" * 65_536)
    wfile.write(b'"}')


METADATA_LIES: list[tuple[str, Callable[[Desk], dict[str, Any]], str]] = [
    (
        "another issuer",
        lambda _: {"issuer": "https://honest.example"},
        "issuer mismatch: https://honest.example",
    ),
    ("no issuer", lambda _: {"issuer": None}, "cannot be used"),
    ("a hostile issuer", lambda _: {"issuer": HOSTILE}, "cannot be used"),
    ("javascript", lambda _: {"authorization_endpoint": "javascript:alert(1)"}, "no https address"),
    ("a file", lambda _: {"authorization_endpoint": "file:///etc/passwd"}, "no https address"),
    ("an option", lambda _: {"authorization_endpoint": "--version"}, "no https address"),
    ("a user name", lambda _: {"authorization_endpoint": "https://a@evil.example/"}, "no https address"),
    ("a line", lambda _: {"authorization_endpoint": "https://evil.example/\r\nx"}, "no https address"),
    ("an IDN", lambda _: {"authorization_endpoint": "https://ex\u0430mple.com/a"}, "no web address in ASCII"),
    ("shell", lambda _: {"authorization_endpoint": "https://1.1.1.1/$(id)"}, "not handed to a browser"),
    ("a quote", lambda _: {"authorization_endpoint": "https://1.1.1.1/'&'"}, "not handed to a browser"),
    (
        "plain http to log in",
        lambda _: {"authorization_endpoint": "http://evil.example/a"},
        "over plain http",
    ),
    ("a fragment", lambda _: {"authorization_endpoint": "https://evil.example/a#b"}, "fragment"),
    ("the cloud's secrets", lambda _: {"authorization_endpoint": "https://169.254.169.254/a"}, "cloud keeps"),
    ("a private place", lambda _: {"authorization_endpoint": "https://10.0.0.1/a"}, "private address"),
    (
        "our parameters",
        lambda at: {"authorization_endpoint": f"{at.authority.origin}/authorize?state=x"},
        "sets param",
    ),
    ("no place", lambda _: {"authorization_endpoint": None}, "cannot be used"),
    ("a number", lambda _: {"authorization_endpoint": 7}, "no web address"),
    ("token over http", lambda _: {"token_endpoint": "http://evil.example/token"}, "over plain http"),
    ("token at the cloud", lambda _: {"token_endpoint": "http://169.254.169.254/token"}, "over plain http"),
    (
        "token at the cloud over TLS",
        lambda _: {"token_endpoint": "https://169.254.169.254/token"},
        "cloud keeps",
    ),
    ("token nowhere", lambda _: {"token_endpoint": None}, "cannot be used"),
    ("register privately", lambda _: {"registration_endpoint": "https://192.168.1.1/r"}, "private address"),
    ("register nowhere", lambda _: {"registration_endpoint": None}, "does not register clients"),
    ("no PKCE", lambda _: {"code_challenge_methods_supported": None}, "does not offer PKCE"),
    ("plain PKCE", lambda _: {"code_challenge_methods_supported": ["plain"]}, "does not offer PKCE"),
    ("PKCE in words", lambda _: {"code_challenge_methods_supported": "S256"}, "cannot be used"),
]


@pytest.mark.parametrize(
    ("lie", "expected"), [one[1:] for one in METADATA_LIES], ids=[one[0] for one in METADATA_LIES]
)
def test_an_authorization_server_that_lies_is_not_used(
    tmp_path: Path, lie: Callable[[Desk], dict[str, Any]], expected: str
) -> None:
    """Metadata of another issuer, endpoints that are no https, private or dangerous, or no PKCE: an error, and no
    code or token is sent."""
    with desk(tmp_path) as at:
        at.authority.extra = lie(at)
        text = refused(at, expected)
        assert text.isprintable()
        assert len(text) < 600
        assert at.authority.asked("/token") == []


RESOURCE_LIES: list[tuple[str, dict[str, Any], str]] = [
    ("another host", {"resource": "https://bank.example/mcp"}, "does not match"),
    ("plain http", {"resource": "http://bank.example/mcp"}, "does not match"),
    ("no resource", {"resource": None}, "cannot be used"),
    ("no issuers", {"authorization_servers": []}, "cannot be used"),
    ("issuers of another kind", {"authorization_servers": [7]}, "cannot be used"),
    ("javascript issuer", {"authorization_servers": ["javascript:alert(1)"]}, "cannot be used"),
    ("issuer over http", {"authorization_servers": ["http://evil.example"]}, "over plain http"),
    ("issuer at the cloud", {"authorization_servers": ["https://169.254.169.254/latest"]}, "cloud keeps"),
    ("issuer in numbers", {"authorization_servers": ["https://0xa9fea9fe/"]}, "cloud keeps"),
    ("issuer inside", {"authorization_servers": ["https://[fd00::1]/"]}, "private address"),
]


@pytest.mark.parametrize(
    ("lie", "expected"), [one[1:] for one in RESOURCE_LIES], ids=[one[0] for one in RESOURCE_LIES]
)
def test_a_server_that_lies_about_itself_gets_no_login(
    tmp_path: Path, lie: dict[str, Any], expected: str
) -> None:
    """Metadata for another resource, or that lead to private places, end in an error before anybody is asked."""
    with desk(tmp_path) as at:
        at.server.metadata = lie
        refused(at, expected)
        assert at.prompts == []


def test_the_resource_is_this_server_or_above_it_on_the_same_origin(tmp_path: Path) -> None:
    """A path that only begins alike is another server; the bare origin is this one."""
    with desk(tmp_path) as at:
        at.server.metadata = {"resource": at.server.url[:-1]}
        refused(at, "does not match")
        at.server.metadata = {"resource": at.server.url + "/below"}
        refused(at, "does not match")
        at.server.metadata = {"resource": at.server.origin}
        assert anyio.run(at.call).status_code == 200
        assert at.authority.asked("/token")[0].form["resource"] == at.server.origin


@pytest.mark.parametrize(
    "place",
    [
        "http://169.254.169.254/latest/meta-data",
        "javascript:alert(1)",
        "https://169.254.169.254/x",
        "file:///etc/passwd",
        "//",
        "https://",
    ],
)
def test_a_challenge_may_not_send_us_anywhere(tmp_path: Path, place: str) -> None:
    """The metadata URL of a challenge is held to the same rules; there is no falling back when it is bad."""
    with desk(tmp_path) as at:
        at.server.place = place
        refused(at, "plain http|no https address|cloud keeps")
        assert at.server.asked(PRM_PLACE) == []


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest", "https://evil.example/", "/loop", "javascript:1"]
)
@pytest.mark.parametrize("part", ["server", "authority", "token"])
def test_redirects_lead_nowhere(tmp_path: Path, target: str, part: str) -> None:
    """Metadata that redirect to another origin are not followed, nor in circles; a token request is never followed."""
    with desk(tmp_path) as at:
        site = at.server if part == "server" else at.authority
        place = {"server": PRM_PLACE, "authority": AS_PLACE, "token": "/token"}[part]
        site.routes[place] = site.routes["/loop"] = lambda _: Reply(307, {"Location": target})
        refused(at, "redirects|refused with status 307")
        assert len(site.asked("/loop")) <= 4


@pytest.mark.parametrize("body", [endless, hundred_megabytes])
@pytest.mark.parametrize("part", ["server", "authority", "token", "register"])
def test_what_is_huge_is_not_read(tmp_path: Path, body: Callable[[Any], None], part: str) -> None:
    """A document of a hundred megabytes, or one that never ends, is left after a bounded part of it."""
    with desk(tmp_path) as at:
        site = at.server if part == "server" else at.authority
        place = {"server": PRM_PLACE, "authority": AS_PLACE, "token": "/token", "register": "/register"}[part]
        site.routes[place] = lambda _: Reply(200, {"Content-Type": "application/json"}, body)
        refused(at, "more than 262,144 bytes")


def test_what_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    """A document that comes a byte at a time is given up when its time is over."""
    with desk(tmp_path) as at:
        at.server.routes[PRM_PLACE] = lambda _: Reply(200, {}, drip)
        auth = at.auth(at.browse)
        auth.login.wire.within_s = 0.3
        with pytest.raises(OAuthFault, match="did not answer within") as caught:
            anyio.run(at.call, auth)
        assert caught.value.retryable


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, {"Content-Type": "text/html"}, b"<html>welcome</html>"),
        Reply(200, {}, b"[" * 100_000),
        Reply(200, {}, b"[]"),
        Reply(200, {}, b"\xff\xfe"),
        Reply(200, {}, b""),
        Reply(404, {}, b""),
    ],
)
def test_metadata_that_are_none(tmp_path: Path, reply: Reply) -> None:
    """HTML, nonsense or nothing instead of metadata is an error that says so."""
    with desk(tmp_path) as at:
        at.server.routes[PRM_PLACE] = lambda _: reply
        refused(at, "cannot be used")
        at.server.routes[PRM_PLACE] = lambda _: as_json(at.server.document())
        at.authority.routes[AS_PLACE] = lambda _: reply
        refused(at, "nowhere to be found")


def test_a_packed_answer_is_refused(tmp_path: Path) -> None:
    """What comes compressed, though nothing of the kind was asked for, is not unpacked."""
    with desk(tmp_path) as at:
        at.authority.routes[AS_PLACE] = lambda _: Reply(200, {"Content-Encoding": "gzip"}, b"\x1f\x8b")
        refused(at, "came packed")


def test_a_server_fault_is_no_reason_for_another_way(tmp_path: Path) -> None:
    """A 500 at the well-known place does not lead to an older, weaker way of logging in; it may be tried again."""
    with desk(tmp_path) as at:
        at.server.challenge = "Bearer"
        at.server.routes[PRM_PLACE] = lambda _: Reply(503)
        at.authority.issuer = at.server.origin
        at.server.routes |= at.authority.routes
        auth = at.auth(at.browse)
        with pytest.raises(OAuthFault, match="503") as caught:
            anyio.run(at.call, auth)
        assert caught.value.retryable
        assert at.prompts == []


def test_a_server_over_plain_http_is_not_logged_in_to(tmp_path: Path) -> None:
    """A server that is neither https nor on this machine gets neither a login nor a token that is kept for it."""
    import httpx2

    with desk(tmp_path) as at:
        at.server.url = "http://server.test/mcp"
        auth = at.auth(at.browse)

        async def main() -> None:
            flow = auth.async_auth_flow(httpx2.Request("POST", "http://server.test/mcp"))
            await flow.__anext__()
            await flow.asend(httpx2.Response(401))

        with pytest.raises(OAuthFault, match="over plain http"):
            anyio.run(main)
