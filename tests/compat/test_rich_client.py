"""`python rich_client.py --connect SOCK` in a terminal, as the specification prints it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.cli.environment import TIMEOUT_S, CliEnvironment, say
from tests.cli.terminal import leave

ROOT = Path(__file__).parents[2]
SCRIPT = [str(ROOT / "rich_client.py")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[CliEnvironment]:
    """A desk with a server, whose settings name the model."""
    desk = CliEnvironment(tmp_path)
    script = desk.script(say("Good morning."), say("Still here."))
    desk.config.mkdir(parents=True)
    (desk.config / "config.toml").write_text(f'provider = "scripted"\nmodel = "{script[-1]}"\n')
    with desk.serving():
        yield desk


def spawn(desk: CliEnvironment, start: list[str], cwd: Path) -> Any:
    """The client in a pseudo-terminal, in a directory."""
    socket = str(Path(desk.env["XDG_RUNTIME_DIR"]) / "jaato" / "jaato.sock")
    environ = desk.env | {
        "NO_COLOR": "1",
        "PYTHONPATH": f"{desk.env['PYTHONPATH']}:{ROOT / 'compat' / 'src'}",
    }
    args = [*start, "--connect", socket]
    return pexpect.spawn(
        sys.executable,
        args,
        cwd=str(cwd),
        env=environ,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        dimensions=(50, 200),
    )


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.1")
def test_the_printed_client_begins_a_session(served: CliEnvironment) -> None:
    """At a server without sessions it starts one; later, in the same directory, it attaches to that one; in another directory
    it starts another one and joins no other project's, as `python -m rich_client` does."""
    with spawn(served, SCRIPT, served.work) as one:
        one.expect("> $")
        one.sendline("hello")
        one.expect("Good morning.")
        one.expect("tokens in")
        assert leave(one) == 0
    with spawn(served, SCRIPT, served.work) as two:
        two.expect("user: hello")
        two.expect("agent: Good morning.")
        two.expect("> $")
        two.sendline("and now?")
        two.expect("Still here.")
        assert leave(two) == 0
    assert len(served.sessions()) == 1
    other = served.root / "other"
    other.mkdir()
    with spawn(served, ["-m", "rich_client"], other) as three:
        three.expect("Ctrl-D leaves")
        assert "hello" not in three.before
        assert leave(three) == 0
    assert len(served.sessions()) == 1, "those of the workspace"


def test_attaching_stays_in_the_directory(served: CliEnvironment) -> None:
    """`jaato attach` without a name joins no session of another directory; it names what starts one."""
    other = served.root / "other"
    other.mkdir()
    assert served.run("run", "hello").returncode == 0
    refused = served.run("attach", cwd=other)
    assert refused.returncode == 2
    assert "no sessions of this directory: `jaato attach --new`" in refused.stderr


def test_it_can_be_imported() -> None:
    """`import rich_client` works, in the checkout and from the distribution, and starts nothing."""
    for path in (ROOT, ROOT / "compat" / "src"):
        code = f"import sys; sys.path.insert(0, {str(path)!r}); import rich_client; print(callable(rich_client.main))"
        made = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
        )
        assert made.stdout == "True\n"
