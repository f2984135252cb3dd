"""What a session was vouched for when it began: a call that writes trust, or files of the user's, adds nothing to it.

Each attack runs to its end, without a sandbox, in a session that says yes to everything. What it wrote counts in the next
session, which shows that it would have worked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import definition, shop
from tests.kit import call, results, say
from tests.mcp.hosting import load
from tests.permissions.ground import C4

from jaato import Agent
from jaato.plugins.arp.config import RegistryConfig, RegistryTrust
from jaato.plugins.arp.pins import Pins as RegistryPins
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.directory import ServerTrust
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.plugins.mcp.pins import Pins
from jaato.protocol.arp import ToolDefinition
from jaato.protocol.messages import ToolResult
from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.plugins.workspace import read_workspace_plugins
from jaato.settings import environment
from jaato.tools.permissions.trust import SessionTrust, Trust, content_hash
from jaato.tools.remote.sources import load_sources
from jaato.tools.remote.trust import trust_path

ATTACK = """
import json, os
for path, text in json.loads({files!r}).items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
"""
PLUGIN = """
from pathlib import Path
from jaato import Plugin
Path({mark!r}).write_text("it ran")
PLUGIN_KIND = "tool"
class Notes(Plugin):
    name = "notes"
"""
PROFILE = json.dumps({"provider": "ollama", "description": "a stranger's model"})
TOOLS = ["mcp_connect", "registries", "refresh_registry", "list_subagent_profiles"]
pytestmark = C4


def registry(work: Path, config_dir: Path, name: str) -> RegistryConfig:
    """A registry as it is configured now."""
    own, theirs = config_dir / "registries.json", work / ".jaato" / "registries.json"
    return load_sources(RegistryConfig, own, work, theirs).sources[name]


class Ground:
    """A user's home, a workspace in it, and where harm would be seen."""

    def __init__(self, root: Path) -> None:
        self.home, self.work, self.mark = root, root / "work", root / "mark"
        self.state = root / ".local" / "state" / "jaato"
        self.config = root / ".config" / "jaato"
        for place in (self.work / ".jaato", self.state, self.config):
            place.mkdir(parents=True)

    def trusting(self, path: Path, content: bytes) -> dict[str, str]:
        """What an attack writes: a list of trusted files with this one in it."""
        files = {str(path.resolve()): content_hash(content)}
        return {str(self.state / "trust.json"): json.dumps({"version": 1, "files": files})}

    def server(self, place: Path) -> ServerConfig:
        """A server that leaves a mark and fails, written into a workspace or a home."""
        sandbox = {"profile": "full"}
        entry = {"command": "sh", "args": ["-c", f"touch {self.mark}; exit 1"], "sandbox": sandbox}
        (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": entry}}))
        return load(self.work, self.home).sources["evil"]

    def play(self, written: dict[str, str], *asked: Any) -> list[ToolResult]:
        """The results of calls in a session in which another call, the first, has written these files."""
        attack = self.home / "attack.py"
        attack.write_text(ATTACK.format(files=json.dumps(written)))
        steps = [call("get_tool_schemas", names=TOOLS), call("run", command=f"{sys.executable} {attack}")]

        async def main() -> list[ToolResult]:
            async with Agent(
                provider=ScriptedProvider([*steps, *asked, say("done")]),
                workspace=self.work,
                environ={"HOME": str(self.home), "PATH": environment()["PATH"]},
                yes=True,
                sandbox="full",
            ) as agent:
                await agent.run("go")
                return results(agent.live)[len(steps) :]

        made = anyio.run(main)
        for path, text in written.items():
            assert Path(path).read_text() == text, "the attack was not carried out"
        return made


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """Nothing is trusted yet."""
    return Ground(tmp_path)


def test_a_server_that_a_call_has_trusted_does_not_start(ground: Ground) -> None:
    """Neither of the workspace, by a list of trusted files, nor in the user's file, which needs no trust."""
    config = ground.server(ground.work)
    written = ground.trusting(trust_path(config), ServerTrust(ground.state).content(config))
    (held,) = ground.play(written, call("mcp_connect", server="evil"))
    assert "not trusted as it is now" in str(held)
    assert not ground.mark.exists()
    ground.play({}, call("mcp_connect", server="evil"))
    assert ground.mark.exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_server_that_a_call_adds_to_the_user_s_file_does_not_start(ground: Ground, there: bool) -> None:
    """Whether or not there was such a file: the plugin may be loaded by the very call."""
    ground.server(ground.home)
    text = (ground.home / ".mcp.json").read_text()
    (ground.home / ".mcp.json").unlink()
    if there:
        (ground.home / ".mcp.json").write_text('{"mcpServers": {}}')
    (held,) = ground.play({str(ground.home / ".mcp.json"): text}, call("mcp_connect", server="evil"))
    assert "There is no MCP server 'evil'" in str(held)
    assert not ground.mark.exists()
    ground.play({}, call("mcp_connect", server="evil"))
    assert ground.mark.exists()


@pytest.mark.parametrize("scope", ["user", "workspace"])
def test_a_registry_that_a_call_has_trusted_is_not_asked(ground: Ground, scope: str) -> None:
    """Its tools would come with it, and what is sent to them leaves the machine."""
    with shop(definition("echo")) as it:
        (ground.config / "config.toml").write_text(f'allow_hosts = ["{it.url.partition("//")[2]}"]\n')
        text = json.dumps({"registries": {"evil": {"url": it.url}}})
        if scope == "user":
            written = {str(ground.config / "registries.json"): text}
        else:
            (ground.work / ".jaato" / "registries.json").write_text(text)
            config = registry(ground.work, ground.config, "evil")
            trust = RegistryTrust(ground.state)
            written = ground.trusting(trust_path(config), trust.content(config))
        listed, asked = ground.play(written, call("registries"), call("refresh_registry", registry="evil"))
        assert not asked.ok
        assert it.seen == []
        assert ("needs trust" if scope == "workspace" else "has changed since this session began") in str(
            listed
        )
        listed, asked = ground.play({}, call("registries"), call("refresh_registry", registry="evil"))
        assert asked.ok
        assert it.seen != []


@pytest.mark.parametrize("scope", ["user", "workspace"])
def test_a_profile_that_a_call_has_trusted_widens_nothing(ground: Ground, scope: str) -> None:
    """Another model at another place would read the conversation."""
    if scope == "user":
        written = {str(ground.config / "profiles" / "evil.json"): PROFILE}
    else:
        path = ground.work / ".jaato" / "profiles" / "evil.json"
        path.parent.mkdir()
        path.write_text(PROFILE)
        written = ground.trusting(path, PROFILE.encode())
    for given, counts in ((written, False), ({}, True)):
        (listed,) = ground.play(given, call("list_subagent_profiles"))
        assert ("'provider': 'ollama'" in str(listed) or '"provider": "ollama"' in str(listed)) is counts, (
            listed
        )
        assert ("not_trusted" in str(listed)) is not counts


def test_a_plugin_that_a_call_has_trusted_is_not_loaded(ground: Ground) -> None:
    """It would run in jaato's own process."""
    folder = ground.work / ".jaato" / "plugins" / "notes"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PLUGIN.format(mark=str(ground.mark)))
    (tree,) = read_workspace_plugins(ground.work)
    ground.play(ground.trusting(tree.path, tree.content), call("list_tools"), call("list_subagent_profiles"))
    assert not ground.mark.exists()
    ground.play({})
    assert ground.mark.exists()


def test_a_definition_that_is_accepted_elsewhere_stays_held_back(tmp_path: Path) -> None:
    """What a session holds back it holds back to its end; what it sees for the first time is accepted as ever."""
    (tmp_path / "work").mkdir()
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"it": {"command": "x"}}}')
    config = load(tmp_path / "work", tmp_path).sources["it"]

    def offered(*descriptions: str) -> Manifest:
        tools = [ToolEntry(name=f"t{at}", description=text) for at, text in enumerate(descriptions)]
        return Manifest(digest=config.digest, tools=tools)

    here, elsewhere = Pins(tmp_path / "state"), Pins(tmp_path / "state")
    elsewhere.review(config, offered("first"))
    here.hold([config])
    assert [one.name for one in here.review(config, offered("changed", "new")).changes] == ["t0"]
    elsewhere.accept(config, offered("changed", "new"))
    assert elsewhere.review(config, offered("changed", "new")).changes == ()
    judged = here.review(config, offered("changed", "new"))
    assert [one.name for one in judged.changes] == ["t0"]
    assert [one.name for one in judged.manifest.tools] == ["t1"]
    later = Pins(tmp_path / "state")
    later.hold([config])
    assert later.review(config, offered("changed", "new")).changes == ()


def test_a_tool_of_a_registry_that_is_allowed_elsewhere_is_another_one_here(tmp_path: Path) -> None:
    """What a rule allows is the tool as it was when the session began, whatever is written down of it meanwhile."""

    def tool(description: str, name: str = "echo") -> ToolDefinition:
        return ToolDefinition(
            schema_version="1", name=name, version="1", description=description, parameters={}
        )

    (tmp_path / "registries.json").write_text('{"registries": {"it": {"url": "https://example.org"}}}')
    config = registry(tmp_path / "work", tmp_path, "it")
    RegistryPins(config, tmp_path).pin(tool("first"))
    here = RegistryPins(config, tmp_path)
    here.hold()
    RegistryPins(config, tmp_path).pin(tool("other"))
    here.pin(tool("second", "more"))
    assert here.describe_change(tool("other"))
    assert not here.describe_change(tool("first"))
    assert not RegistryPins(config, tmp_path).describe_change(tool("other"))
    assert not RegistryPins(config, tmp_path).describe_change(tool("second", "more"))


def test_held_trust_only_shrinks(tmp_path: Path) -> None:
    """What is added counts where it was added; what is taken back ends, and does not return with its line."""
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    disk = Trust(tmp_path)
    disk.add(one, b"1")
    here = SessionTrust(tmp_path)
    assert here.is_current
    assert here.trusts(one, b"1")
    disk.add(two, b"2")
    assert not here.trusts(two, b"2")
    assert not here.is_current
    here.add(three, b"3")
    assert here.trusts(three, b"3")
    assert disk.trusts(three, b"3")
    disk.remove(one)
    assert not here.trusts(one, b"1")
    disk.add(one, b"1")
    assert not here.trusts(one, b"1")
    assert SessionTrust(tmp_path).trusts(one, b"1")
    disk.path.write_text("{")
    damaged = SessionTrust(tmp_path)
    disk.path.unlink()
    disk.add(one, b"1")
    assert not damaged.trusts(one, b"1")
