"""What is kept of a login: renewed once among all processes, by clocks that differ, in the keyring or a file."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.oauth_servers import desk
from tests.mcp.oauth_web import Reply, as_json

from jaato.errors import ConfigError
from jaato.plugins.mcp.oauth import token_store as oauth_store
from jaato.plugins.mcp.oauth.login import logout
from jaato.plugins.mcp.oauth.options import (
    LoginRequired,
    OAuthFault,
    Tokens,
)
from jaato.plugins.mcp.oauth.token_store import TokenStore

CHILD = """
import sys, anyio, httpx2
from pathlib import Path
from jaato.plugins.mcp.oauth.login import auth_for
from jaato.plugins.mcp.oauth.token_store import TokenStore
from tests.mcp.oauth_servers import Config

async def main():
    auth = auth_for(Config("desk", sys.argv[1], {}), TokenStore(Path(sys.argv[2])), environ={})
    async with httpx2.AsyncClient(trust_env=False, auth=auth) as client:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(3):
            print((await client.post(sys.argv[1])).status_code, flush=True)

anyio.run(main)
"""


def test_processes_that_refresh_at_once_burn_no_token(tmp_path: Path) -> None:
    """Three processes whose token has just been refused get along with one refresh; a spent one is never sent."""
    with desk(tmp_path) as at:
        anyio.run(at.call)
        at.authority.tokens.clear()
        children = [
            subprocess.Popen(
                [sys.executable, "-c", CHILD, at.server.url, str(tmp_path / "state")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        said = [child.communicate(timeout=60)[0].split() for child in children]
        assert said == [["200"] * 3] * 3
        assert (at.authority.refreshed, at.authority.burnt) == (1, 0)


def test_tasks_that_are_refused_at_once_refresh_once_and_log_in_once(tmp_path: Path) -> None:
    """Many requests of one process that are refused together cause one login, and later one refresh."""
    with desk(tmp_path) as at:

        async def main() -> None:
            auth = at.auth(at.browse)
            assert {one.status_code for one in await asyncio.gather(*(at.call(auth) for _ in range(5)))} == {
                200
            }
            assert len(at.prompts) == 1
            at.authority.tokens.clear()
            assert {one.status_code for one in await asyncio.gather(*(at.call(auth) for _ in range(5)))} == {
                200
            }

        anyio.run(main)
        assert (len(at.prompts), at.authority.refreshed, at.authority.burnt) == (1, 1, 0)


def test_a_cancelled_refresh_is_kept(tmp_path: Path) -> None:
    """Whoever stops waiting in the middle of a refresh does not lose the token that came of it."""
    import time

    with desk(tmp_path) as at:
        anyio.run(at.call)
        at.authority.tokens.clear()
        slow = at.authority.routes["/token"]

        def token(request: Any) -> Reply:
            time.sleep(0.3)
            return slow(request)

        at.authority.routes["/token"] = token

        async def main() -> None:
            with anyio.move_on_after(0.15):
                await at.call(at.auth(None))
            assert (await at.call(at.auth(None))).status_code == 200

        anyio.run(main)
        assert (at.authority.refreshed, at.authority.burnt) == (1, 0)


def test_a_refresh_that_is_refused_needs_a_person(tmp_path: Path) -> None:
    """A refresh token that is void is forgotten, not tried again; with a person there is a new login."""
    with desk(tmp_path) as at:
        anyio.run(at.call)
        at.authority.tokens.clear()
        at.authority.refreshes.clear()
        for _ in range(2):
            with pytest.raises(LoginRequired):
                anyio.run(at.call, at.auth(None))
        assert [one.form["grant_type"] for one in at.authority.asked("/token")].count("refresh_token") == 1
        assert anyio.run(at.call).status_code == 200
        assert len(at.authority.clients) == 1


def test_a_registration_that_was_forgotten_is_made_again(tmp_path: Path) -> None:
    """When the server no longer knows the client, the next login registers a new one."""
    with desk(tmp_path) as at:
        at.authority.life = 0.001
        anyio.run(at.call)
        at.authority.clients.clear()
        at.authority.clients["somebody"] = {}
        with pytest.raises(LoginRequired):
            anyio.run(at.call, at.auth(None))
        assert anyio.run(at.call).status_code == 200
        assert "client-1" in at.authority.clients


def test_a_refresh_that_fails_for_now_forgets_nothing(tmp_path: Path) -> None:
    """A token endpoint with a fault or out of reach gives an error that may be retried; the login stays."""
    with desk(tmp_path) as at:
        at.authority.life = 0.001
        anyio.run(at.call)
        good = at.authority.routes["/token"]
        at.authority.routes["/token"] = lambda _: Reply(503)
        with pytest.raises(OAuthFault, match="503") as caught:
            anyio.run(at.call, at.auth(None))
        assert caught.value.retryable
        at.authority.routes["/token"] = good
        assert anyio.run(at.call, at.auth(None)).status_code == 200


def test_a_refresh_without_a_new_refresh_token_keeps_the_old(tmp_path: Path) -> None:
    """An answer to a refresh may leave out scope and refresh token; what was known stays."""
    with desk(tmp_path) as at:
        at.server.needs = ("a",)
        anyio.run(at.call)

        def token(request: Any) -> Reply:
            at.authority.tokens["renewed"] = {"resource": at.server.url, "scope": "a"}
            return as_json({"access_token": "renewed", "token_type": "bearer"})

        at.authority.routes["/token"] = token
        at.authority.tokens.clear()
        auth = at.auth(None)
        assert anyio.run(at.call, auth).status_code == 200
        assert auth.login.record is not None
        assert auth.login.record.entry is not None
        tokens = auth.login.record.entry.tokens
        assert tokens is not None
        assert (tokens.scope, tokens.refresh in at.authority.refreshes) == (["a"], True)


def test_a_logout_elsewhere_ends_the_refreshing_here(tmp_path: Path) -> None:
    """After a logout a session that still has the token does not write the login back."""
    with desk(tmp_path) as at:
        auth = at.auth(None)
        anyio.run(at.call)
        assert anyio.run(at.call, auth).status_code == 200
        [file] = (tmp_path / "state" / "mcp-logins").glob("*.json")
        left = file.with_name(f".{file.name}.half")
        left.write_text("a process was killed as it wrote")

        async def leave() -> None:
            await logout(at.config, at.store, environ={})

        anyio.run(leave)
        with pytest.raises(LoginRequired):
            anyio.run(at.call, auth)
        assert list((tmp_path / "state" / "mcp-logins").glob("*.json")) == []
        assert not left.exists()


def test_a_disk_that_refuses_does_not_lose_a_rotated_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh whose result cannot be saved serves this process all the same."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with desk(tmp_path) as at:
        anyio.run(at.call)
        at.authority.tokens.clear()
        monkeypatch.setattr(oauth_store, "write_private", full)
        auth = at.auth(None)
        assert anyio.run(at.call, auth).status_code == 200
        assert anyio.run(at.call, auth).status_code == 200
        at.store = TokenStore(tmp_path / "other")
        with pytest.raises(ConfigError, match="No space left"):
            anyio.run(at.call)


@pytest.mark.parametrize(
    ("now", "obtained", "expires", "lasts"),
    [
        (1000, 1000, 4600, True),
        (4500, 1000, 4600, True),
        (4550, 1000, 4600, False),
        (9999, 1000, 4600, False),
        (500, 1000, 4600, True),
        (9999, 1000, None, True),
        (1008, 1000, 1010, True),
        (1009.5, 1000, 1010, False),
        (1000, 1000, 1000, False),
    ],
)
def test_clocks_differ(now: float, obtained: float, expires: float | None, lasts: bool) -> None:
    """A token is renewed a minute, or a tenth of its life, before it ends; a clock set back lets the server decide."""
    assert Tokens(access="x", obtained_at=obtained, expires_at=expires).is_valid(now) is lasts


class Ring:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.works = True

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, secret: str) -> None:
        if not self.works:
            raise RuntimeError("no backend")
        self.kept[service, name] = secret

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


def test_a_keyring_that_works_is_preferred(tmp_path: Path) -> None:
    """With a keyring nothing secret is in the file; one that does not work leaves the file; logging out empties both."""
    ring = Ring()
    with desk(tmp_path) as at:
        at.store = TokenStore(tmp_path / "state", lambda: ring)
        anyio.run(at.call)
        [file] = (tmp_path / "state" / "mcp-logins").glob("*.json")
        assert json.loads(file.read_text()) == {"keyring": True}
        assert anyio.run(at.call, at.auth(None)).status_code == 200

        async def leave() -> None:
            await logout(at.config, at.store, environ={})

        anyio.run(leave)
        assert ring.kept == {}
        ring.works = False
        anyio.run(at.call)
        assert "entries" in file.read_text()


def test_a_lock_that_is_held_too_long_is_an_error(tmp_path: Path) -> None:
    """Who waits for another process gives up with words; when it is let go, the next one has it."""

    async def main() -> None:
        store = TokenStore(tmp_path)
        async with store.lock("x", "refresh", 1):
            with pytest.raises(OAuthFault, match="busy with this login"):
                async with store.lock("x", "refresh", 0.05):
                    raise AssertionError
        async with store.lock("x", "refresh", 0.05):
            pass

    anyio.run(main)
