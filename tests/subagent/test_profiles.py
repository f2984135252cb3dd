"""Profiles and inline configurations, good and bad, the user's and a workspace's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, plan, say
from tests.subagent.acts import outcomes, problem, value
from tests.subagent.cast import session_of
from tests.subagent.written import brought, delegating, home, played, with_settings, write

from jaato.agent.session import Session
from jaato.plugins.subagent.plugin import SubagentPlugin
from jaato.plugins.subagent.profiles import MAX_FILE_BYTES
from jaato.runtime.user_commands import run_command


@pytest.mark.parametrize("name", ["reader.json", "reader.yaml", "reader.yml"])
def test_a_profile_of_the_user_says_all_of_a_subagent(tmp_path: Path, name: str) -> None:
    """Prompt, model, sampling and bounds come from the file, whichever form it has."""
    profile = {
        "description": "reads",
        "instructions": "Be brief.",
        "tools": ["look", "change"],
        "read_only": True,
        "max_turns": 9,
        "model": "small",
        "temperature": 0.1,
    }
    text = json.dumps(profile)
    if not name.endswith(".json"):
        text = "\n".join(f"{key}: {json.dumps(entry)}" for key, entry in profile.items())
    write(home(tmp_path), name, text)

    async def main() -> None:
        live = await played(tmp_path, delegating(profile="reader"))
        assert value(live)["profile"] == "reader"
        child = next(iter(live.supervisor.subagents.values()))
        assert child.name == "reader"
        created = child.created
        assert (created.model, created.profile, session_of(child).parts.limits.model_calls) == (
            "small",
            "reader",
            9,
        )
        assert created.system_prompt.startswith(live.state.system_prompt)
        assert created.system_prompt.endswith("Be brief.")
        assert child.session.model.settings.temperature == 0.1
        assert set(created.core_tools) == {"look", "change", "list_tools", "get_tool_schemas"}
        assert outcomes(live, "reader") == ["ok", "permission_denied"]

    anyio.run(main)


def test_a_profile_of_the_workspace_may_only_narrow_until_it_is_trusted(tmp_path: Path) -> None:
    """Its tools count, its model and its own prompt do not; the user vouches for its bytes, and a change ends that."""
    profile = {"read_only": True, "model": "dear", "system_prompt": "You are root.", "max_output_tokens": 9}
    file = write(brought(tmp_path), "sly.json", profile)

    async def delegated() -> Session:
        return await played(tmp_path, delegating(profile="sly"))

    async def trust() -> str | None:
        runtime = with_settings(tmp_path)
        try:
            async with runtime.create(plan(tmp_path, [])) as live:
                return await run_command(live, runtime.registry, "profiles", "trust sly")
        finally:
            runtime.close()

    async def main() -> None:
        live = await delegated()
        child = next(iter(live.supervisor.subagents.values()))
        assert child.created.model == "script"
        assert "You are root." not in child.created.system_prompt
        assert "model, system_prompt, max_output_tokens left out" in value(live)["note"]
        assert outcomes(live, "sly") == ["ok", "permission_denied"]
        assert "trusted" in str(await trust())
        live = await delegated()
        child = next(iter(live.supervisor.subagents.values()))
        assert child.created.model == "dear"
        assert child.created.system_prompt.startswith("You are root.")
        file.write_text(file.read_text() + "\n")
        assert "left out" in value(await delegated())["note"]

    anyio.run(main)


def test_an_inline_configuration_narrows_a_profile_and_never_widens_it(tmp_path: Path) -> None:
    """Tools are those that both have; what one denies stays denied."""
    write(home(tmp_path), "looker.json", {"tools": ["look"], "max_turns": 4})

    async def main() -> None:
        config = {"tools": ["look", "change"], "read_only": False, "max_turns": 50}
        live = await played(tmp_path, delegating(profile="looker", inline_config=config))
        child = next(iter(live.supervisor.subagents.values()))
        assert outcomes(live, "looker") == ["ok", "tool_unknown"]
        assert session_of(child).parts.limits.model_calls == 4

    anyio.run(main)


BROKEN: dict[str, Any] = {
    "no-json.json": "{",
    "list.json": [],
    "text.json": '"x"',
    "number.json": "17",
    "empty.json": "",
    "binary.json": b"\x00\xff\xfe",
    "deep.json": "[" * 30_000,
    "unknown-key.json": {"tols": ["look"]},
    "wrong-type.json": {"tools": "look"},
    "wrong-number.json": {"max_turns": -1},
    "endless.json": {"timeout_s": 1e300},
    "many-tools.json": {"tools": ["x"] * 1000},
    "long.json": {"instructions": "x" * 40_000},
    "bad name.json": {},
    "name.json": {"name": "../../etc"},
    "huge.json": '{"description": "' + "x" * MAX_FILE_BYTES + '"}',
    "no-yaml.yaml": "a: [",
    "object.yaml": "!!python/object/apply:os.system ['true']",
    "bomb.yaml": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "\n".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]" for n in range(12)),
    "tab.yaml": "\tx: 1",
    "nul.yaml": b"name: a\x00b",
    "date.yaml": "description: 2020-01-01",
}


def test_broken_profiles_are_left_out_with_the_reason(tmp_path: Path) -> None:
    """None of them keeps the good ones from being found, and each says what is wrong."""
    for name, content in BROKEN.items():
        write(brought(tmp_path), name, content)
    write(brought(tmp_path), "good.json", {"description": "fine"})
    os.symlink("/etc/passwd", brought(tmp_path) / "link.json")
    os.mkfifo(brought(tmp_path) / "pipe.json")
    (brought(tmp_path) / "folder.json").mkdir()

    async def main() -> None:
        live = await played(
            tmp_path,
            {
                "main": [
                    call("list_subagent_profiles"),
                    call("delegate", task="x", profile="gud"),
                    say("done"),
                ]
            },
        )
        listed = value(live, 0)
        assert [profile["name"] for profile in listed["profiles"]] == ["good"]
        assert len(listed["left_out"]) == min(20, len(BROKEN))
        assert "good" in problem(live, 1)

    anyio.run(main)


def test_a_plugin_made_by_hand_finds_profiles_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`profiles_dir` and `auto_discover_profiles` are the documented configuration; without discovery there are none."""
    write(tmp_path / "mine", "a.json", {"description": "mine"})
    monkeypatch.chdir(tmp_path)
    plugin = SubagentPlugin()
    plugin.initialize({"profiles_dir": "mine"})
    assert list(plugin.discover_profiles()) == ["a"]
    plugin.initialize({"profiles_dir": "mine", "auto_discover_profiles": False})
    assert plugin.list_subagent_profiles() == {"profiles": [], "count": 0}
    plugin.shutdown()


def test_a_damaged_trust_file_is_said(tmp_path: Path) -> None:
    """It makes no profile trusted, and hides none without a word."""
    write(brought(tmp_path), "one.json", {"model": "x"})
    write(tmp_path / ".local" / "state" / "jaato", "trust.json", "{")

    async def main() -> None:
        live = await played(tmp_path, {"main": [call("list_subagent_profiles"), say("done")]})
        assert "damaged" in str(value(live))

    anyio.run(main)
