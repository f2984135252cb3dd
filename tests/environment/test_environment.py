"""The `get_environment` tool says where the agent is, in few words."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from jaato import settings
from jaato.plugins.environment import Aspect, EnvironmentPlugin
from jaato.tools.call import Call
from jaato.tools.tool import tools_of


class OneHost:
    """A host with this environment."""

    def __init__(self, workspace: Path, environ: Mapping[str, str]) -> None:
        self.workspace = workspace
        self.config: dict[str, Any] = {}
        self.environ = environ

    def service(self, name: str) -> Any:
        if name != "environ":
            raise KeyError(name)
        return self.environ


def ask(
    workspace: Path, aspect: Aspect | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    plugin = EnvironmentPlugin(OneHost(workspace, settings.environment() if environ is None else environ))

    async def main() -> dict[str, Any]:
        return await plugin.get_environment(
            aspect, call=Call("1", "get_environment", {}, workspace=workspace)
        )

    return anyio.run(main)


def test_the_summary_is_small(tmp_path: Path) -> None:
    """Without an aspect the answer is the few facts every task needs."""
    facts = ask(tmp_path)
    assert facts["workspace"] == str(tmp_path)
    assert platform.machine() in facts["os"]
    assert facts["python"] == platform.python_version()
    assert "git" not in facts
    assert len(json.dumps(facts)) < 600


def test_git_state(tmp_path: Path) -> None:
    """In a repository the branch and the changes are named."""
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    assert ask(tmp_path)["git"] == {"branch": "trunk", "changed": 1}
    assert ask(tmp_path, "git")["git"]["changes"] == ["?? new.txt"]


def test_git_runs_nothing_the_repository_configured(tmp_path: Path) -> None:
    """A repository's file watcher is not started to answer a question."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    subprocess.run(["git", "-C", str(tmp_path), "config", "core.fsmonitor", str(trap)], check=True)
    assert ask(tmp_path)["git"]["changed"] == 1
    assert not (tmp_path / "sprung").exists()


def test_a_filter_the_repository_configured_is_not_run(tmp_path: Path) -> None:
    """Neither a content filter nor a hook is started where a file must be compared to know whether it changed."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    (tmp_path / "file").write_text("one\n")
    subprocess.run(["git", "-C", str(tmp_path), "add", "file"], check=True)
    (tmp_path / ".gitattributes").write_text("* filter=trap\n")
    subprocess.run(["git", "-C", str(tmp_path), "config", "filter.trap.clean", str(trap)], check=True)
    (tmp_path / "file").write_text("two\n")
    assert ask(tmp_path)["git"]["changed"] == 3
    assert not (tmp_path / "sprung").exists()


def test_the_programs_are_those_on_the_path(tmp_path: Path) -> None:
    """Only what is on the PATH of commands is listed."""
    (tmp_path / "jq").write_text("#!/bin/sh\n")
    (tmp_path / "jq").chmod(0o755)
    assert ask(tmp_path, "tools", {"PATH": str(tmp_path)}) == {"tools": ["jq"]}
    assert ask(tmp_path, "shell", {"PATH": str(tmp_path)})["shell"] == "none"


def test_a_full_workspace_is_listed_in_part(tmp_path: Path) -> None:
    """A folder of many files shows fifty and counts the rest."""
    for number in range(60):
        (tmp_path / f"{number:02d}").touch()
    (tmp_path / "00a").mkdir()
    facts = ask(tmp_path, "workspace")
    assert facts["entries"][:2] == ["00", "00a/"]
    assert (len(facts["entries"]), facts["more_entries"]) == (50, 11)


def test_a_missing_workspace_is_said(tmp_path: Path) -> None:
    """A workspace that is gone is named with the remedy, and the rest is still told."""
    facts = ask(tmp_path / "gone", "all")
    assert "Create it" in facts["problem"]
    assert "os" in facts


@pytest.mark.parametrize("aspect", ["os", "python", "all"])
def test_every_aspect_answers(tmp_path: Path, aspect: Aspect) -> None:
    """Each aspect has its facts."""
    assert {"os": "processors", "python": "jaato_python", "all": "tools"}[aspect] in ask(tmp_path, aspect)


def test_the_tool_only_reads(tmp_path: Path) -> None:
    """It is a core tool that reads, so nobody is asked."""
    (tool,) = tools_of(EnvironmentPlugin(OneHost(tmp_path, {})), "environment")
    assert (tool.name, tool.spec.access, tool.spec.discoverability) == ("get_environment", "read", "core")
