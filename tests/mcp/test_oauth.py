"""Logging in to a protected server: the whole flow, against real servers, with a real fetch as the browser."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.oauth_servers import Desk, Protected, desk
from tests.mcp.oauth_web import Reply

from jaato.plugins.mcp.oauth.callback import browser_prompt
from jaato.plugins.mcp.oauth.login import LoginState, login, login_of, logout, state_of
from jaato.plugins.mcp.oauth.options import LoginRequired, OAuthFault
from jaato.plugins.mcp.oauth.token_store import TokenStore


def test_a_login_by_browser_serves_this_request_and_the_next_process(tmp_path: Path) -> None:
    """A 401 leads through discovery, registration, consent with PKCE, state and resource to the token; later
    requests, and other processes, use the kept one."""
    with desk(tmp_path) as at:

        async def main() -> None:
            assert (await at.call()).status_code == 200
            assert (await at.call(at.auth(None))).status_code == 200

        anyio.run(main)
        asked = at.authority.asked("/authorize")[0].query
        assert len(at.prompts) == 1
        assert asked["code_challenge_method"] == "S256"
        assert asked["resource"] == at.server.url
        assert asked["redirect_uri"].startswith("http://127.0.0.1:")
        registered = at.authority.clients["client-0"]
        assert registered["application_type"] == "native"
        assert registered["token_endpoint_auth_method"] == "none"
        assert at.authority.asked("/token")[0].form["resource"] == at.server.url
        assert at.pages[0].status_code == 200
        assert asked["state"] not in at.pages[0].text
        assert "jaato" in at.pages[0].text


def test_what_is_kept_is_private(tmp_path: Path) -> None:
    """The login is in a file of mode 0600 below a directory of mode 0700; a file that others can read is refused."""
    with desk(tmp_path) as at:
        anyio.run(at.call)
        directory = tmp_path / "state" / "mcp-logins"
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        [file] = directory.glob("*.json")
        assert {stat.S_IMODE(one.stat().st_mode) for one in directory.iterdir()} == {0o600}
        file.chmod(0o644)
        with pytest.raises(Exception, match="chmod 600"):
            anyio.run(at.call, at.auth(None))
        file.chmod(0o600)
        file.write_bytes(b'{"half')
        with pytest.raises(LoginRequired):
            anyio.run(at.call, at.auth(None))


def test_without_a_person_the_error_names_the_command(tmp_path: Path) -> None:
    """Where nobody can be asked the request fails with the command that logs in, and the auth object keeps why."""
    with desk(tmp_path) as at:
        auth = at.auth(None)
        with pytest.raises(LoginRequired, match="jaato mcp login desk"):
            anyio.run(at.call, auth)
        assert isinstance(auth.failure, LoginRequired)
        assert at.authority.asked("/register") == []


def test_scopes_come_from_the_challenge_else_from_the_metadata_else_are_left_out(tmp_path: Path) -> None:
    """The scopes of the challenge are asked for; without them those the server supports; without those, none."""
    for number, (needs, offered, expected) in enumerate(
        [(("a", "b"), ["x"], "a b"), ((), ["x", "y"], "x y"), ((), None, None)]
    ):
        with desk(tmp_path / str(number)) as at:
            at.server.needs, at.server.scopes = needs, offered
            assert anyio.run(at.call).status_code == 200
            assert at.authority.asked("/authorize")[0].query.get("scope") == expected


def test_offline_access_is_asked_for_where_it_is_offered(tmp_path: Path) -> None:
    """An authorization server that lists offline_access is asked for it, with a prompt for consent."""
    with desk(tmp_path) as at:
        at.server.needs = ("a",)
        at.authority.extra = {"scopes_supported": ["a", "offline_access"]}
        anyio.run(at.call)
        asked = at.authority.asked("/authorize")[0].query
        assert (asked["scope"], asked["prompt"]) == ("a offline_access", "consent")


def test_step_up_keeps_what_was_granted(tmp_path: Path) -> None:
    """A 403 that asks for more scope leads to one more consent, for the old scopes and the new."""
    with desk(tmp_path) as at:
        at.server.needs = ("read",)
        auth = at.auth(at.browse)
        assert anyio.run(at.call, auth).json() == {"scope": "read"}
        at.server.needs = ("write",)
        assert anyio.run(at.call, auth).json() == {"scope": "read write"}
        assert len(at.prompts) == 2


def test_step_up_without_a_person_is_remembered_for_the_next_login(tmp_path: Path) -> None:
    """Where nobody can be asked, the wider scope is asked for by the next `jaato mcp login`."""
    with desk(tmp_path) as at:
        at.server.needs = ("read",)
        anyio.run(at.call)
        at.server.needs = ("write",)
        with pytest.raises(LoginRequired, match="jaato mcp login"):
            anyio.run(at.call, at.auth(None))
        at.server.needs = ("read",)

        async def main() -> None:
            await login(at.config, at.store, at.browse, environ={})

        anyio.run(main)
        assert at.authority.asked("/authorize")[-1].query["scope"] == "read write"


def test_other_discovery_places(tmp_path: Path) -> None:
    """Without a URL in the challenge the well-known places are tried, pages of HTML passed over; an issuer with a
    path, and OpenID discovery, are found."""
    with desk(tmp_path) as at:
        at.server.challenge = "Bearer"
        at.server.routes["/.well-known/oauth-protected-resource"] = at.server.routes.pop(
            "/.well-known/oauth-protected-resource/mcp"
        )
        at.server.routes["/.well-known/oauth-protected-resource/mcp"] = lambda _: Reply(
            200, {}, b"<html>hello"
        )
        at.authority.issuer += "/tenant"
        at.authority.routes["/tenant/.well-known/openid-configuration"] = at.authority.routes.pop(
            "/.well-known/oauth-authorization-server"
        )
        assert anyio.run(at.call).status_code == 200
        places = [one.path for one in at.authority.seen[:3]]
        assert places == [
            "/.well-known/oauth-authorization-server/tenant",
            "/.well-known/openid-configuration/tenant",
            "/tenant/.well-known/openid-configuration",
        ]


def test_a_server_of_2025_03_26_is_its_own_authority(tmp_path: Path) -> None:
    """A server without resource metadata that grants tokens at its own origin is logged in to there."""
    with desk(tmp_path) as at:
        at.server.challenge = ""
        del at.server.routes["/.well-known/oauth-protected-resource/mcp"]
        at.authority.issuer = at.server.origin
        at.server.routes |= at.authority.routes
        assert anyio.run(at.call).status_code == 200
        assert anyio.run(at.call, at.auth(None)).status_code == 200
        at.store = TokenStore(tmp_path / "other")
        at.authority.issuer = at.authority.origin
        with pytest.raises(OAuthFault, match="issuer mismatch"):
            anyio.run(at.call)


async def stored_state(at: Desk) -> LoginState:
    """The state of the stored login, read by a program that makes no request."""
    made = login_of(at.config, at.store, None, environ={})
    made.record = await at.store.read(made.name)
    return state_of(made)


def test_login_logout_and_state(tmp_path: Path) -> None:
    """`login` logs in anew, `state` says so without asking anybody, `logout` forgets and revokes."""
    with desk(tmp_path) as at:

        async def main() -> None:
            assert not (await stored_state(at)).logged_in
            first = await login(at.config, at.store, at.browse, environ={}, scopes=("extra",))
            assert first == await stored_state(at)
            assert (first.logged_in, first.scope, first.renews) == (True, ("extra",), True)
            await login(at.config, at.store, at.browse, environ={})
            said = await logout(at.config, at.store, environ={})
            assert "revoked" in said
            assert not (await stored_state(at)).logged_in
            assert "There was no login" in await logout(at.config, at.store, environ={})

        anyio.run(main)
        assert len(at.prompts) == 2
        assert len(at.authority.clients) == 2
        assert list((tmp_path / "state" / "mcp-logins").glob("*.json")) == []


def test_a_token_goes_to_its_own_server_alone(tmp_path: Path) -> None:
    """Another origin gets no token; a request with its own Authorization is left as it is."""
    import httpx2

    with desk(tmp_path) as at, (other := Protected(at.authority)).at_work():

        async def main() -> None:
            auth = at.auth(at.browse)
            async with httpx2.AsyncClient(trust_env=False, auth=auth) as client:
                assert (await client.post(at.server.url)).status_code == 200
                assert (await client.post(other.url)).status_code == 401
                own = await client.post(at.server.url, headers={"Authorization": "Basic eDp5"})
                assert own.status_code == 401

        anyio.run(main)
        assert "authorization" not in other.seen[0].headers
        assert at.server.seen[-1].headers["authorization"] == "Basic eDp5"


def test_the_browser_is_started_without_a_shell(tmp_path: Path) -> None:
    """`asking` prints the address and starts the person's browser with it as one argument, and without secrets."""
    program = tmp_path / "browser"
    program.write_text(
        "#!/usr/bin/env python3\nimport json, os, sys, urllib.request\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
        "urllib.request.urlopen(sys.argv[1]).read()\n"
    )
    program.chmod(0o700)
    printed: list[str] = []
    environ = {"BROWSER": str(program), "PATH": os.defpath + ":/usr/local/bin", "OPENAI_API_KEY": "sk-secret"}
    with desk(tmp_path) as at:
        assert anyio.run(at.call, at.auth(browser_prompt(printed.append, environ))).status_code == 200
    arguments, given = json.loads((tmp_path / "seen").read_text())
    assert len(arguments) == 1
    assert arguments[0] in "".join(printed)
    assert "OPENAI_API_KEY" not in given


def test_the_address_can_be_pasted_where_the_browser_is_elsewhere(tmp_path: Path) -> None:
    """An `ask` that returns the address the browser ended at completes the login; another address does not."""
    import httpx2

    with desk(tmp_path) as at:

        async def paste(prompt: Any) -> str:
            async with httpx2.AsyncClient(trust_env=False) as browser:
                return (await browser.get(prompt.url)).headers["location"]

        async def wrong(prompt: Any) -> str:
            return (await paste(prompt)).replace("state=", "state=x")

        with pytest.raises(OAuthFault, match="not the address"):
            anyio.run(at.call, at.auth(wrong))
        assert anyio.run(at.call, at.auth(paste)).status_code == 200


def test_a_server_that_takes_a_key_says_nothing_of_logins(tmp_path: Path) -> None:
    """A 401 without any metadata is an error that points at the headers of the configuration."""
    with desk(tmp_path) as at:
        at.server.challenge = "Bearer"
        at.server.routes = {"/mcp": at.server.answer}
        with pytest.raises(OAuthFault, match="put it into its headers"):
            anyio.run(at.call)


def test_a_session_finds_the_login_that_was_made_beside_it(tmp_path: Path) -> None:
    """A session whose login has become void uses, without a restart, the one made since by somebody else."""
    with desk(tmp_path) as at:
        anyio.run(at.call)
        session = at.auth(None)
        assert anyio.run(at.call, session).status_code == 200
        at.authority.tokens.clear()
        at.authority.refreshes.clear()
        with pytest.raises(LoginRequired):
            anyio.run(at.call, session)
        at.authority.answer_extra = {"refresh_token": None}
        anyio.run(at.call)
        assert anyio.run(at.call, session).status_code == 200
