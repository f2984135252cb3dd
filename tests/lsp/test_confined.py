"""Language servers in the sandbox: what a workspace has them run does no harm."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.hostile import ALL, Lair
from tests.lsp.test_misbehaving_servers import ODD
from tests.plugin_workspace import Bench

from jaato.errors import ConfigError, ToolError
from jaato.plugins.lsp.plugin import LspPlugin
from jaato.tools.processes.sandbox.sandbox import Sandbox


def served(lair: Lair, program: Path, **config: object) -> Bench:
    """A workspace whose files are served by this program."""
    (lair.work / "a.odd").write_text("word\n")
    named = {"language_servers": [f"odd:.odd={program}"], **config}
    return Bench(LspPlugin, lair.work, named, lair.environ)


def hijacked(lair: Lair) -> Path:
    """A server in the workspace, which does harm before it serves."""
    program = lair.work / "server"
    odd = shutil.copy(ODD, lair.work)  # a checkout in /tmp is not in the sandbox
    program.write_text(f"#!/bin/sh\n{lair.line}\nexec {sys.executable} {odd} good /dev/null\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("profile", "harm"), [("read-only", set()), ("workspace-write", {"planted"}), ("full", ALL)]
)
def test_a_server_of_the_workspace_does_what_its_profile_lets_it(
    tmp_path: Path, profile: str, harm: set[str]
) -> None:
    """Read-only unless the user has said otherwise; it serves all the same."""
    with Lair(tmp_path) as lair:
        more = {} if profile == "read-only" else {"sandbox": profile}
        bench = served(lair, hijacked(lair), **more)
        try:
            bench.ask("lsp_hover", path="a.odd", line=1, symbol="word")
        finally:
            bench.close()
        assert lair.harm == harm


def test_without_a_sandbox_no_program_of_the_workspace_is_started(tmp_path: Path) -> None:
    """One that the user has named outside of it is."""
    with Lair(tmp_path) as lair:
        program = hijacked(lair)
        bench = served(lair, program)
        bench.services["sandbox"].choice = "none"
        bench.plugin._pool._sandbox = Sandbox(lair.work, environ=lair.environ, backend="none")
        try:
            with pytest.raises(ToolError, match="started in a sandbox only"):
                bench.ask("lsp_hover", path="a.odd", line=1, symbol="word")
        finally:
            bench.close()
        assert lair.harm == set()


def test_a_profile_that_is_none_is_refused(tmp_path: Path) -> None:
    """The message names those there are."""
    with pytest.raises(ConfigError, match="read-only, workspace-write, full"):
        Bench(LspPlugin, tmp_path, {"sandbox": "none"})


@pytest.mark.parametrize("server", ["pylsp", "basedpyright-langserver"])
def test_real_servers_serve_in_the_sandbox(tmp_path: Path, server: str) -> None:
    """They stay, answer, and have a place for their caches and temporary files."""
    with Lair(tmp_path) as lair:
        (lair.work / "setup.cfg").write_text("[pylsp]\n")
        (lair.work / "a.py").write_text("def old() -> int:\n    return 1\n\n\nold()\n")
        command = f"python={server}" + (" --stdio" if "pyright" in server else "")
        environ = {**lair.environ, "PATH": f"{Path(sys.executable).parent}:{lair.environ['PATH']}"}
        bench = Bench(LspPlugin, lair.work, {"language_servers": [command]}, environ)
        try:
            assert bench.ask("lsp_find_references", path="a.py", symbol="old", line=1)["total"] == 2
        finally:
            bench.close()
        assert lair.harm == set()
