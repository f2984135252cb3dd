"""Logging in with servers that lie: nothing of ours reaches who should not have it, and everything ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.oauth_servers import Authority, Desk, Protected, Reply, as_json, desk

from jaato.errors import JaatoError
from jaato.plugins.mcp.oauth_data import LoginNeeded, OAuthFault

AS_PLACE = "/.well-known/oauth-authorization-server"
PRM_PLACE = "/.well-known/oauth-protected-resource/mcp"
HOSTILE = "\x1b[31mrun\u202e this\u200b: rm -rf\n\U000e0041" + "x" * 5_000


def refused(at: Desk, match: str, within_s: float = 20.0) -> str:
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
        "says that it is https://honest.example",
    ),
    ("no issuer", lambda _: {"issuer": None}, "says that it is nobody"),
    ("a hostile issuer", lambda _: {"issuer": HOSTILE}, r"says that it is \[31mrun this: rm -rf"),
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
    ("no place", lambda _: {"authorization_endpoint": None}, "names no authorization_endpoint"),
    ("a number", lambda _: {"authorization_endpoint": 7}, "no web address"),
    ("token over http", lambda _: {"token_endpoint": "http://evil.example/token"}, "over plain http"),
    ("token at the cloud", lambda _: {"token_endpoint": "http://169.254.169.254/token"}, "over plain http"),
    (
        "token at the cloud over TLS",
        lambda _: {"token_endpoint": "https://169.254.169.254/token"},
        "cloud keeps",
    ),
    ("token nowhere", lambda _: {"token_endpoint": None}, "names no token_endpoint"),
    ("register privately", lambda _: {"registration_endpoint": "https://192.168.1.1/r"}, "private address"),
    ("register nowhere", lambda _: {"registration_endpoint": None}, "registers nobody"),
    ("no PKCE", lambda _: {"code_challenge_methods_supported": None}, "does not offer PKCE"),
    ("plain PKCE", lambda _: {"code_challenge_methods_supported": ["plain"]}, "does not offer PKCE"),
    ("PKCE in words", lambda _: {"code_challenge_methods_supported": "S256"}, "does not offer PKCE"),
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
    ("another host", {"resource": "https://bank.example/mcp"}, "a token for another server is not asked for"),
    ("plain http", {"resource": "http://bank.example/mcp"}, "over plain http"),
    ("no resource", {"resource": None}, "no web address"),
    ("no issuers", {"authorization_servers": []}, "name no authorization server"),
    ("issuers of another kind", {"authorization_servers": [7]}, "name no authorization server"),
    ("javascript issuer", {"authorization_servers": ["javascript:alert(1)"]}, "no https address"),
    ("issuer over http", {"authorization_servers": ["http://evil.example"]}, "over plain http"),
    ("issuer at the cloud", {"authorization_servers": ["https://169.254.169.254/latest"]}, "cloud keeps"),
    ("issuer in numbers", {"authorization_servers": ["https://0xa9fea9fe/"]}, "cloud keeps"),
    ("issuer inside", {"authorization_servers": ["https://[fd00::1]/"]}, "private address"),
    ("issuer with query", {"authorization_servers": ["https://evil.example/?a=b"]}, "has a query"),
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
        refused(at, "another server")
        at.server.metadata = {"resource": at.server.url + "/below"}
        refused(at, "another server")
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
        refused(at, "is no JSON object|answered with status 404")
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


ANSWERS: list[tuple[str, Callable[[dict[str, str]], dict[str, str]], str]] = [
    (
        "another issuer",
        lambda given: {**given, "iss": "https://honest.example"},
        "not from the authorization server",
    ),
    ("a slash", lambda given: {**given, "iss": given["iss"] + "/"}, "not from the authorization server"),
    (
        "no issuer",
        lambda given: {key: given[key] for key in ("code", "state")},
        "not from the authorization server",
    ),
    ("no code", lambda given: {**given, "code": ""}, "has no code"),
    ("a code of lines", lambda given: {**given, "code": "a\r\nb"}, "has no code"),
    (
        "no",
        lambda given: {"state": given["state"], "iss": given["iss"], "error": "access_denied"},
        "refused: access_denied",
    ),
    (
        "a hostile no",
        lambda given: {
            "state": given["state"],
            "iss": given["iss"],
            "error": "x",
            "error_description": HOSTILE[:200],
        },
        r"refused: x \(\[31mrun this: rm -rf",
    ),
    (
        "another's no",
        lambda given: {"state": given["state"], "iss": "https://o.example", "error": "SHOWN"},
        "not from the authorization server",
    ),
]


@pytest.mark.parametrize(
    ("answer", "expected"), [one[1:] for one in ANSWERS], ids=[one[0] for one in ANSWERS]
)
def test_an_answer_of_another_is_not_used(
    tmp_path: Path, answer: Callable[[dict[str, str]], dict[str, str]], expected: str
) -> None:
    """An answer with another issuer, or none where one was promised, or no code, is refused before any token
    endpoint hears of it; an error of another is not shown."""
    with desk(tmp_path) as at:
        at.authority.callback = answer
        text = refused(at, expected)
        assert text.isprintable()
        assert "SHOWN" not in text
        assert at.authority.asked("/token") == []


def test_wrong_states_are_turned_away_and_the_right_one_still_counts(tmp_path: Path) -> None:
    """Answers without the state of this login, or with things doubled, get a plain page and end nothing; the code of
    the right one is used once."""
    import httpx2

    with desk(tmp_path) as at:
        statuses: list[int] = []

        async def ask(prompt: Any) -> None:
            place = httpx2.URL(prompt.url).params["redirect_uri"]
            state = httpx2.URL(prompt.url).params["state"]
            async with httpx2.AsyncClient(trust_env=False) as browser:
                for query in (
                    "",
                    "code=a",
                    "code=a&state=b",
                    f"code=a&code=b&state={state}",
                    "%ff=1&state=b",
                ):
                    statuses.append((await browser.get(f"{place}?{query}")).status_code)
                statuses.append((await browser.get(place.replace("callback", "favicon.ico"))).status_code)
                statuses.append((await browser.post(place)).status_code)
                evil = {"Host": "evil.example"}
                statuses.append(
                    (await browser.get(f"{place}?code=a&state={state}", headers=evil)).status_code
                )
            await at.browse(prompt)

        assert anyio.run(at.call, at.auth(ask)).status_code == 200
        assert statuses == [400, 400, 400, 400, 400, 404, 400, 400]
        assert len(at.authority.asked("/token")) == 1


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    """A login that nobody finishes ends at its deadline, and its port is free again; so do wrong answers without end."""
    import httpx2

    with desk(tmp_path) as at:
        places: list[str] = []

        async def ignore(prompt: Any) -> None:
            places.append(httpx2.URL(prompt.url).params["redirect_uri"])

        async def spam(prompt: Any) -> None:
            async with httpx2.AsyncClient(trust_env=False) as browser:
                for _ in range(50):
                    await browser.get(httpx2.URL(prompt.url).params["redirect_uri"])
            await anyio.sleep(30)

        with pytest.raises(OAuthFault, match="Nobody logged in within"):
            anyio.run(at.call, at.auth(ignore, 0.2))
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(places[0], trust_env=False)
        with pytest.raises(OAuthFault, match="keeps sending wrong answers"):
            anyio.run(at.call, at.auth(spam))


TOKENS: list[tuple[str, dict[str, Any], str]] = [
    ("no type", {"token_type": None}, "of type 'none'"),
    ("another type", {"token_type": "DPoP"}, "of type 'DPoP'"),
    ("no token", {"access_token": None}, "no access_token"),
    ("a token of lines", {"access_token": "a\r\nX-Evil: 1"}, "no access_token"),
    ("a huge token", {"access_token": "a" * 20_000}, "no access_token"),
    ("a number", {"access_token": 7}, "no access_token"),
    ("an odd refresh", {"refresh_token": "a\nb"}, "refresh_token that cannot"),
]


@pytest.mark.parametrize(("lie", "expected"), [one[1:] for one in TOKENS], ids=[one[0] for one in TOKENS])
def test_tokens_that_cannot_be_used(tmp_path: Path, lie: dict[str, Any], expected: str) -> None:
    """A token that is not bearer, or that no header can carry, is not kept."""
    with desk(tmp_path) as at:
        at.authority.answer_extra = lie
        refused(at, expected)
        with pytest.raises(LoginNeeded):
            anyio.run(at.call, at.auth(None))


@pytest.mark.parametrize("life", [None, 0, "0", -5, "3600", "soon", 1e300, True, {}, 0.5])
def test_odd_lifetimes_are_taken_with_sense(tmp_path: Path, life: Any) -> None:
    """A lifetime that is missing, a text or nonsense does not keep the token from being used."""
    with desk(tmp_path) as at:
        at.authority.life = life
        assert anyio.run(at.call).status_code == 200
        assert anyio.run(at.call, at.auth(None)).status_code == 200
        assert at.authority.refreshed <= (life == 0.5)


def test_an_error_of_the_token_endpoint_is_shown_cleanly(tmp_path: Path) -> None:
    """Its error and description are shown on one short line, without control or invisible characters."""
    with desk(tmp_path) as at:
        at.authority.routes["/token"] = lambda _: as_json({"error": "bad", "error_description": HOSTILE}, 400)
        text = refused(at, r"refused with status 400: bad \(\[31mrun this: rm -rf")
        assert text.isprintable()
        assert len(text) < 400


def test_a_registration_that_is_refused_says_why(tmp_path: Path) -> None:
    """The reason of the server is in the error; so is a client that cannot be used."""
    with desk(tmp_path) as at:
        at.authority.routes["/register"] = lambda _: as_json({"error": "invalid_redirect_uri"}, 400)
        refused(at, "registration refused with status 400: invalid_redirect_uri")
        for answer, expected in (
            ({}, "no client_id"),
            ({"client_id": "a\nb"}, "no client_id"),
            ({"client_id": "a", "token_endpoint_auth_method": "tls_client_auth"}, "that jaato does not have"),
            ({"client_id": "a", "token_endpoint_auth_method": "client_secret_basic"}, "gave none"),
        ):
            at.authority.routes["/register"] = lambda _, answer=answer: as_json(answer, 201)  # type: ignore[misc]
            refused(at, expected)


def test_a_server_that_never_takes_a_token_is_given_up(tmp_path: Path) -> None:
    """A server that answers every token with 401, or every scope with 403, is asked a bounded number of times, and a
    person once for each; the same scope is not asked for again."""
    with desk(tmp_path) as at:
        at.server.routes["/mcp"] = lambda _: Reply(
            401, {"WWW-Authenticate": f'Bearer resource_metadata="{at.server.place}"'}
        )
        refused(at, "refuses the token it was just granted")
        assert len(at.server.asked("/mcp")) == 2
        assert len(at.prompts) == 1
    with desk(tmp_path / "other") as at:
        auth = at.auth(at.browse)
        assert anyio.run(at.call, auth).status_code == 200
        at.server.routes["/mcp"] = lambda _: Reply(
            403, {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="more"'}
        )
        for _ in range(3):
            with pytest.raises(OAuthFault, match="not wide enough"):
                anyio.run(at.call, auth)
        assert len(at.prompts) == 2
    with desk(tmp_path / "third") as at:
        at.server.routes["/mcp"] = counting(at.server)
        refused(at, "not wide enough")
        assert len(at.prompts) == 3


def counting(server: Protected) -> Callable[[Any], Reply]:
    """A server that wants another scope each time."""

    def answer(request: Any) -> Reply:
        if "authorization" not in request.headers:
            return Reply(401, {"WWW-Authenticate": f'Bearer resource_metadata="{server.place}"'})
        number = len(server.asked("/mcp"))
        return Reply(403, {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="s{number}"'})

    return answer


def test_an_endless_401_is_dropped_unread(tmp_path: Path) -> None:
    """The body of a refused request is not read, however long it is, before the request is sent again."""
    with desk(tmp_path) as at:
        good = at.server.routes["/mcp"]

        def answer(request: Any) -> Reply:
            reply = good(request)
            return reply if reply.status == 200 else reply._replace(body=endless)

        at.server.routes["/mcp"] = answer
        assert anyio.run(at.call).status_code == 200


def test_other_refusals_are_the_callers(tmp_path: Path) -> None:
    """A 403 that asks for no scope is the answer; nobody is asked to log in for it."""
    with desk(tmp_path) as at:
        auth = at.auth(at.browse)
        anyio.run(at.call, auth)
        at.server.routes["/mcp"] = lambda _: Reply(403, {}, b"go away")
        assert anyio.run(at.call, auth).status_code == 403
        assert len(at.prompts) == 1


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


def test_mix_up_sends_the_code_to_nobody(tmp_path: Path) -> None:
    """An attacker's server that sends the person to an honest authorization server does not get the honest one's
    code: its answer names another issuer."""
    with desk(tmp_path) as at, (honest := Authority()).at_work():
        honest.clients["client-0"] = {"any_port": True}
        at.authority.extra = {
            "authorization_endpoint": f"{honest.origin}/authorize",
            "authorization_response_iss_parameter_supported": None,
        }
        refused(at, "not from the authorization server that was asked")
        assert len(honest.codes) == 1
        assert at.authority.asked("/token") == []
