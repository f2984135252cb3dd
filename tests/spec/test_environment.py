"""Environment variables, directories, precedence, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import calls, results, say

from jaato import errors, settings
from jaato.agent.tool_runner import MAX_CALLS_AT_ONCE
from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.embedding.agent import Agent


@pytest.mark.spec("C10", "Environment variables and files", "C10.environment.1")
@pytest.mark.spec("S0", "Parallel Tool Execution", "S0.parallel.2")
@pytest.mark.spec("S4", "4. First-Class MCP Support", "S4.mcp.1")
@pytest.mark.parametrize(
    ("environ", "most", "declared"),
    [
        ({}, 4, False),
        ({"JAATO_PARALLEL_TOOLS": "true", "JAATO_DEFERRED_TOOLS": "true"}, 4, False),
        ({"JAATO_PARALLEL_TOOLS": "false"}, 1, False),
        ({"JAATO_DEFERRED_TOOLS": "false"}, 4, True),
    ],
)
def test_the_switches_are_on_by_default_and_can_be_turned_off(
    tmp_path: Path, environ: dict[str, str], most: int, *, declared: bool
) -> None:
    """Four calls overlap or come one by one; discoverable tools are declared at once or on demand."""
    running: list[int] = []
    peak: list[int] = []

    async def work(n: int) -> int:
        """Work."""
        running.append(n)
        peak.append(len(running))
        await anyio.sleep(0.01)
        running.remove(n)
        return n

    async def main() -> None:
        provider = ScriptedProvider(
            [calls(*[("work", {"n": n}) for n in range(4)]), say("done")], keep_requests=True
        )
        agent = Agent(
            model="script",
            provider=provider,
            tools=[work],
            workspace=tmp_path,
            state_dir=tmp_path / "state",
            plugins=["introspection", "search"],
            environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **environ},
        )
        async with agent:
            await agent.run("go")
            assert [result.structured for result in results(agent.live)] == [0, 1, 2, 3]
        names = [spec.name for spec in provider.requests[0].tools]
        assert ("grep_content" in names) is declared

    anyio.run(main)
    assert max(peak) == most
    assert MAX_CALLS_AT_ONCE == 8


def load(environ: dict[str, str], flags: dict[str, Any] | None = None, **more: Any) -> settings.Settings:
    """Settings from this environment alone."""
    return settings.load(flags, environ=environ, **more)


@pytest.mark.spec("C10", "Environment variables and files", "C10.environment.3")
def test_state_and_configuration_lie_where_xdg_says(tmp_path: Path) -> None:
    """The variables, else the usual directories below the home; relative values are not believed."""
    found = load({"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k"})
    assert (found.state_dir, found.config_dir, found.cache_dir) == (
        Path("/s/jaato"),
        Path("/c/jaato"),
        Path("/k/jaato"),
    )
    assert found.config_file == Path("/c/jaato/config.toml")
    usual = load({"HOME": "/h", "XDG_STATE_HOME": "relative"})
    assert usual.state_dir == Path("/h/.local/state/jaato")
    assert usual.config_dir == Path("/h/.config/jaato")


@pytest.mark.spec("C10", "Environment variables and files", "C10.environment.4")
def test_flags_come_before_variables_before_files(tmp_path: Path) -> None:
    """Each source in turn is outranked by the next; an untrusted workspace can only tighten."""
    config = tmp_path / ".config" / "jaato"
    config.mkdir(parents=True)
    work = tmp_path / "work"
    (work / ".jaato").mkdir(parents=True)
    environ = {"HOME": str(tmp_path)}
    assert load(environ).source("model") == "default"
    (config / "config.toml").write_text('model = "user"\nallow = ["a"]\n')
    assert load(environ)["model"] == "user"
    (work / ".jaato" / "config.toml").write_text('model = "workspace"\nread_only = true\nallow = ["b"]\n')
    untrusted = load(environ, workspace=work)
    assert untrusted["model"] == "user"
    assert untrusted["read_only"] is True
    assert untrusted["allow"] == ["a"]
    trusted = load(environ, workspace=work, trusted=lambda _path, _data: True)
    assert trusted["model"] == "workspace"
    spoken = {**environ, "JAATO_MODEL": "variable"}
    assert load(spoken, workspace=work, trusted=lambda _path, _data: True)["model"] == "variable"
    assert load(spoken, {"model": "flag"}, workspace=work)["model"] == "flag"


@pytest.mark.spec("C10", "Environment variables and files", "C10.environment.5")
def test_calls_go_to_the_background_after_ten_seconds_or_what_is_set(tmp_path: Path) -> None:
    """The default is 10 s; JAATO_BACKGROUND_AFTER_S sets another for the tools that may be moved."""
    assert load({"HOME": "/h"})["background_after_s"] == 10

    async def main() -> None:
        agent = Agent(
            model="script",
            provider=ScriptedProvider([say("x")]),
            workspace=tmp_path,
            state_dir=tmp_path / "state",
            plugins=["cli"],
            environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "JAATO_BACKGROUND_AFTER_S": "3.5"},
        )
        async with agent:
            found = agent.live.catalog.find("run")
            assert found is not None
            assert found.tool.background_after_s == 3.5

    anyio.run(main)


@pytest.mark.spec("C10", "Environment variables and files", "C10.environment.6")
def test_every_error_knows_its_exit_code() -> None:
    """1 error, 2 usage, 3 provider, 4 denied, 5 limit, 130 interrupted."""
    codes: dict[type[errors.JaatoError], int] = {
        errors.JaatoError: 1,
        errors.ConfigError: 2,
        errors.ProviderError: 3,
        errors.RateLimited: 3,
        errors.PermissionDenied: 4,
        errors.LimitReached: 5,
        errors.CancelledException: 130,
    }
    assert {kind: kind.exit_code for kind in codes} == codes
