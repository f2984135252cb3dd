"""What `jaato serve` and `jaato doctor` say about a server that already runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.desk import Desk

from jaato.version import __version__


def test_options_that_come_too_late(desk: Desk) -> None:
    """`jaato serve --daemon` beside a running server: fine without options, an error for those that it cannot add."""
    with desk.serving():
        again = desk.run("serve", "--daemon")
        assert (again.returncode, "already running" in again.stderr) == (0, True)
        for option, value in (("--web-socket", ":0"), ("--openai-workspace", ".")):
            late = desk.run(
                "serve", "--daemon", option, value, *(() if value == ":0" else ("--web-socket", ":0"))
            )
            assert late.returncode == 2
            assert option in late.stderr
            assert "jaato serve --stop" in late.stderr


def test_a_server_of_another_version(desk: Desk) -> None:
    """After an update the server of before still runs: its status and `jaato doctor` name both versions and what to do."""
    with desk.serving():
        [lock] = Path(desk.env["XDG_RUNTIME_DIR"]).rglob("*.lock")
        same = desk.run("serve", "--status")
        assert "this is" not in same.stdout
        lock.write_bytes(lock.read_bytes().replace(f'"{__version__}"'.encode(), b'"0.0.9"'))
        status = desk.run("serve", "--status")
        assert f"it is jaato 0.0.9, and this is {__version__}: `jaato serve --stop` ends it" in status.stdout
        checks = {row["name"]: row for row in json.loads(desk.run("doctor", "--json").stdout)["checks"]}
        assert checks["server"]["grade"] == "warn"
        assert "0.0.9" in checks["server"]["text"]
