"""The contract of a registry, held against ours from outside: alone at an address, and as a door of the server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from tests.contract import showing
from tests.server.serving import served

from jaato.cli import main
from jaato.settings import environment
from jaato.testing.arp import ALL, Served, checks, transport
from jaato.testing.arp.peer import Check

SHOWING = Path(showing.__file__)
DENIES = ("--deny", "locked")


@contextmanager
def registry(home: Path, *arguments: str) -> Iterator[str]:
    """A registry in a process of its own; gives its address, and what else it says of itself."""
    environ = {**environment(), "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    command = [sys.executable, "-m", "jaato", "registry", "serve", "--port", "0"]
    command += ["--workspace", str(home), *arguments]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().strip()
        finally:
            process.terminate()
            process.stderr.read()
            assert process.wait(20) == 0


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A registry with a domain of its own beside `core`, one of whose tools is denied."""
    home = tmp_path_factory.mktemp("registry")
    with registry(home, "--domains", f"core,{SHOWING}", *DENIES) as said:
        assert said.startswith("jaato: serving 6 tools at http://127.0.0.1:")
        url = said.partition(" at ")[2]
        yield Served(url, denied="locked", raising="broken", secret="hunter2", pair="pair")


@pytest.mark.spec("S2", "Discovery + validation behavior")
@pytest.mark.spec("C9", "")
@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_a_registry_keeps_to_the_contract(alone: Served, check: Check) -> None:
    """Every sentence of the contract holds for `jaato registry serve`."""
    check(alone)


def test_a_registry_with_a_token_keeps_to_the_contract(tmp_path: Path) -> None:
    """It holds for one that asks for a token, too, and who has none is told so."""
    with registry(tmp_path, "--token") as said:
        where, _, path = said.partition("; the token is in ")
        at = Served(where.partition(" at ")[2], token=Path(path).read_text().strip())
        for check in ALL:
            check(at)


DOOR = tuple(
    check for check in ALL if check not in (checks.has_no_other_routes, transport.survives_what_is_no_http)
)


def test_the_servers_own_door_keeps_to_the_contract(tmp_path: Path) -> None:
    """It holds for the registry of `jaato serve`, which is the same door on the one application."""

    async def main() -> None:
        async with served(tmp_path, []) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)
            for check in DOOR:
                await anyio.to_thread.run_sync(check, at)

    anyio.run(main)


def test_the_contract_test_says_what_does_not_hold(alone: Served) -> None:
    """`python -m jaato.testing.arp URL` ends with 0 when all holds, else with 1 and the sentences that do not."""
    command = [sys.executable, "-m", "jaato.testing.arp"]
    good = subprocess.run([*command, alone.url], capture_output=True, text=True, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    assert f"{len(ALL)} of {len(ALL)} hold" in good.stdout
    bad = subprocess.run([*command, f"{alone.url}/elsewhere"], capture_output=True, text=True, check=False)
    assert bad.returncode == 1
    assert "FAILED  `GET /v1/tools` gives a bare array" in bad.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--domains", "no_such_domain"), "There is no domain 'no_such_domain'"),
        (("--domains", ","), "There is nothing to serve"),
        (("--host", "192.0.2.1"), "Nothing can be served at 192.0.2.1 port 0"),
        (("--port", "70000"), "70000 is no port"),
    ],
)
def test_a_registry_that_cannot_serve_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """A wrong domain or address ends the command with 2, and says what to do."""
    given = ["registry", "serve", "--port", "0", "--workspace", str(tmp_path), *arguments]
    assert main(given) == 2
    assert said in capsys.readouterr().err


def test_beyond_loopback_there_is_a_token(tmp_path: Path) -> None:
    """At an address others reach, and with tools of plugins, nobody calls without the token."""
    for arguments in (("--host", "0.0.0.0"), ("--plugins", "git")):
        with registry(tmp_path, *arguments) as said:
            where = said.partition(" at ")[2].partition(";")[0]
            at = Served(where.replace("0.0.0.0", "127.0.0.1"))
            assert at.send("GET", "/v1/tools").status == 401
