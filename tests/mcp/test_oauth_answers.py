"""Answers of hostile servers to a login, and to requests after it: nothing is believed too much, everything ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.oauth_servers import Authority, Protected, desk
from tests.mcp.oauth_web import Reply, as_json
from tests.mcp.test_oauth_hostile import HOSTILE, endless, refused

from jaato.plugins.mcp.oauth.options import LoginRequired, OAuthFault

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
                statuses.append((await browser.post(f"{place}?code=a&state={state}")).status_code)
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

        with pytest.raises(OAuthFault, match="There was no login within"):
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
        with pytest.raises(LoginRequired):
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
            (
                {"client_id": "a", "token_endpoint_auth_method": "tls_client_auth"},
                "unsupported token_endpoint_auth_method",
            ),
            (
                {"client_id": "a", "token_endpoint_auth_method": "client_secret_basic"},
                "issued no client_secret",
            ),
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
