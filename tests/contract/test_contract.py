"""The contract of a registry, held against ours from outside: alone at an address, and as a door of the server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.cli.warm import warm
from tests.contract import lengthy, showing
from tests.contract.wrong import FAULTS, pipe
from tests.server.serving import served

from jaato.cli import main
from jaato.settings import environment
from jaato.testing.arp import ALL, Served, Skip
from jaato.testing.arp.__main__ import main as command
from jaato.testing.arp.__main__ import run_check
from jaato.testing.arp.peer import Check

SHOWING = Path(showing.__file__)
DENIES = ("--deny", "locked")


@contextmanager
def registry(home: Path, *arguments: str) -> Iterator[str]:
    """A registry in a process of its own; gives its address, and what else it says of itself."""
    environ = {**environment(), "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    command = ["registry", "serve", "--port", "0", "--workspace", str(home), *arguments]
    with warm().start(command, cwd=Path.cwd(), env=environ, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().decode().strip()
        finally:
            process.terminate()
            process.stderr.read()
            assert process.wait(60) == 0


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A registry with a domain of its own beside `core`, one of whose tools is denied."""
    home = tmp_path_factory.mktemp("registry")
    with registry(home, "--domains", f"core,{SHOWING},{lengthy.__file__}", *DENIES) as said:
        assert said.startswith("jaato: serving 7 tools at http://127.0.0.1:")
        url = said.partition(" at ")[2]
        yield Served(url, denied="locked", raising="broken", secret="hunter2", pair="pair")


@pytest.mark.spec("S2", "Discovery + validation behavior")
@pytest.mark.spec("C9", "")
@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_a_registry_keeps_to_the_contract(alone: Served, check: Check) -> None:
    """Every sentence of the contract holds for `jaato registry serve`."""
    with suppress(Skip):
        check(alone)


def test_a_registry_with_a_token_keeps_to_the_contract(tmp_path: Path) -> None:
    """It holds for one that asks for a token, too, and who has none is told so."""
    with registry(tmp_path, "--token") as said:
        where, _, path = said.partition("; the token is in ")
        at = Served(where.partition(" at ")[2], token=Path(path).read_text().strip())
        for check in ALL:
            with suppress(Skip):
                check(at)


def test_the_servers_own_door_keeps_to_the_contract(tmp_path: Path) -> None:
    """It holds for the registry of `jaato serve`, which is the same door on the one application."""

    async def main() -> None:
        async with served(tmp_path, []) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)
            for check in ALL:
                with suppress(Skip):
                    await anyio.to_thread.run_sync(check, at)

    anyio.run(main)


@pytest.fixture(scope="module")
def wrongly(alone: Served) -> Iterator[Served]:
    """The same, with a fault for each first part of a path."""
    with pipe(alone.url) as url:
        yield replace(alone, url=url, patience_s=1.0)


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_each_check_finds_who_is_wrong(wrongly: Served, check: Check) -> None:
    """Each check fails where a registry is wrong in what it is about, and shows what was sent and received."""
    if check.__name__ == "asks_for_the_token":  # ours asks for none, which is the fault
        assert run_check(check, replace(wrongly, token="x")).outcome == "failed"
        return
    for fault in FAULTS[check.__name__]:
        said = run_check(check, replace(wrongly, url=f"{wrongly.url}/{check.__name__}/{fault}", seen=[]))
        assert said.outcome == "failed", f"{fault}: {said}"
        assert said.why


def test_the_contract_test_says_what_holds(
    alone: Served, wrongly: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m jaato.testing.arp URL` ends with 0 when all holds, else with 1 and what was sent and received, with 2 when
    nothing could be checked; `--json` says the same to programs."""

    def asked(*given: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["arp", *given])
        try:
            code = command()
        except SystemExit as end:
            code = int(end.code or 0)
        caught = capsys.readouterr()
        return code, caught.out + caught.err

    some = ("--only", "echoes", "--only", "denies")
    code, said = asked(alone.url, *some)
    assert code == 0
    assert "1 hold, 0 do not, 1 were skipped" in said
    code, said = asked(f"{wrongly.url}/echoes/shouts", "--only", "echoes", "--token", "hidden")
    assert code == 1
    assert "FAILED  echoes: `echo` gives its text back" in said
    assert "        sent    POST /v1/tools/echo:invoke" in said
    assert "        got     200 content-type: application/json" in said
    assert "hidden" not in said
    code, said = asked(alone.url, "--json", *some)
    found = json.loads(said)
    assert (found["ok"], found["failed"], found["skipped"]) == (1, 0, 1)
    assert [one["name"] for one in found["checks"]] == ["echoes", "denies"]
    code, said = asked(
        alone.url, "--tool", "pair", "--arguments", '{"a": 1, "b": 2}', "--only", "takes_pieces"
    )
    assert code == 0, said
    assert asked("http://127.0.0.1:9")[0] == 2
    for wrong in (("nothing",), (alone.url, "--arguments", "7"), (alone.url, "--only", "x")):
        assert asked(*wrong)[0] == 2
    code, said = asked("--help")
    assert code == 0
    assert "exit code" in said


def test_a_registry_of_others_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    """Without the tools of `core` everything else is checked with a tool that is named; what is not says why."""
    with registry(tmp_path, "--domains", str(SHOWING)) as said:
        at = Served(said.partition(" at ")[2], tool="pair", arguments='{"a": 1, "b": 2}', pair="pair")
        results = [run_check(check, at) for check in ALL]
    assert [one for one in results if one.outcome == "failed"] == []
    skipped = {one.name: one.why for one in results if one.outcome == "skipped"}
    assert skipped["echoes"] == "it has no tool echo"
    assert set(skipped) == {
        "defines_core",
        "echoes",
        "calculates",
        "calculates_nothing_else",
        "tells_the_time",
        "says_that_a_tool_failed",
        "keeps_exceptions_to_itself",
        "denies",
        "asks_for_the_token",
        "compresses_for_who_wants_it",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--domains", "no_such_domain"), "There is no domain 'no_such_domain'"),
        (("--domains", ","), "There is nothing to serve"),
        (("--host", "192.0.2.1"), "Cannot listen at 192.0.2.1 port 0"),
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
