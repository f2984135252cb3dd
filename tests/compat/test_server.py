"""`python -m server` as the specification prints it."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jaato.client.blocking import Client
from jaato.protocol.commands import SessionList

ROOT = Path(__file__).parents[2]


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.3")
@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.1")
@pytest.mark.spec("C8", "Server and events")
def test_the_printed_usage_works(tmp_path: Path) -> None:
    """Begun in the background at a socket in a shared place, it is found and ended without naming that again; clients come
    by the socket, and by WebSocket with the token."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    path = shared / "jaato.sock"
    env = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'compat' / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def server(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "server", *args],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    try:
        begun = server("--ipc-socket", str(path), "--web-socket", ":0", "--daemon")
        assert begun.returncode == 0, begun.stderr
        there = server("--status")
        assert (there.returncode, f"serving at {path}" in there.stdout) == (0, True)
        with Client(path) as client:
            client.ask(SessionList())
        found = re.search(r"ws://127\.0\.0\.1:\d+", begun.stderr)
        assert found, "the host is loopback where none is named"
        token = (tmp_path / ".local/state/jaato/server-token").read_text()
        with Client(found[0], token=token) as client:
            client.ask(SessionList())
    finally:
        ended = server("--stop")
    assert (ended.returncode, ended.stderr) == (0, "jaato: the server has stopped\n")
    assert server("--status").returncode == 1
    assert list(shared.iterdir()) == []


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.9")
@pytest.mark.parametrize("program", ["rich_client", "server.test_client"])
def test_the_documented_clients_are_programs(program: str, tmp_path: Path) -> None:
    """`python -m` of each takes `--connect PATH`, and says when no server is there; imported, each has `main`."""
    done = subprocess.run(
        [sys.executable, "-m", program, "--connect", str(tmp_path / "none.sock")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "none.sock" in done.stderr
    assert callable(importlib.import_module(program).main)


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.10")
def test_there_are_as_many_types_of_events_as_documented() -> None:
    """25 or more, each with its own type on the wire."""
    events = importlib.import_module("server.events")
    kinds = [getattr(events, name) for name in events.__all__ if name.endswith("Event") and name != "Event"]
    assert len({kind.__struct_config__.tag for kind in kinds}) == len(kinds) >= 25
