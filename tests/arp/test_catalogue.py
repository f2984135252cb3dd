"""How tools of registries stand in the catalogue: by which names, how long, how carefully, and without being asked."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp import serving
from tests.arp.serving import body, definition, shop
from tests.arp.using import configure, offered, plugins, use

from jaato.errors import JaatoError
from jaato.plugins.arp.tools import RegistryTool


def test_a_start_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was heard is kept: the next process offers it at once and whole, without a request; an old list is asked for
    with its ETag, and one that has not changed changes nothing."""
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    with shop(definition("echo"), definition("other")) as it:
        configure(tmp_path, it=it.url)

        async def first() -> None:
            made = plugins(tmp_path)
            await offered(made)
            await use(made, "echo", text="x")
            made.shutdown()

        async def second() -> None:
            before = len(it.seen)
            made = plugins(tmp_path)
            names = [tool.name for tool in made.catalog if tool.remote is not None]
            assert names == ["echo", "other"]
            echo = made.catalog.find("echo")
            assert echo is not None
            assert echo.tool.spec.parameters == serving.TEXT
            assert await offered(made) == ["echo", "other"]
            assert len(it.seen) == before
            clock[0] += 301
            await offered(made)
            assert it.seen[-1].headers["if-none-match"].startswith('"')
            assert len(it.seen) == before + 1
            it.tools["third"] = definition("third")
            del it.tools["other"]
            clock[0] += 301
            assert await offered(made) == ["echo", "third"]
            found = made.catalog.find("echo")
            assert found is not None
            assert found.tool is echo.tool
            made.shutdown()

        anyio.run(first)
        anyio.run(second)


def test_etags_that_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that always says nothing has changed is asked for the whole once a day; an ETag that could not be sent
    is not."""
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)

        async def main() -> None:
            made = plugins(tmp_path)
            await offered(made)
            it.tools = {"new": definition("new")}
            it.lies["GET /v1/tools"] = lambda handler: (
                body(b"", "304 Not Modified", ETag='"x"')(handler)
                if "If-None-Match" in handler.headers
                else body([{"name": "new", "description": "x"}], ETag='"\x07' + "x" * 600)(handler)
            )
            clock[0] += 301
            assert await offered(made) == ["echo"]
            clock[0] += 86_401
            assert await offered(made) == ["new"]
            clock[0] += 301
            await offered(made)
            assert "if-none-match" not in it.seen[-1].headers
            made.shutdown()

        anyio.run(main)


def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools of a registry that cannot be reached stay, shown as unreachable; a call says so, and that it may be tried
    again."""
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])

    async def main() -> None:
        with shop(definition("echo")) as it:
            configure(tmp_path, it=it.url)
            made = plugins(tmp_path)
            await offered(made)
            await use(made, "echo", text="x")
        clock[0] += 400
        assert await offered(made) == ["echo"]
        found = made.catalog.find("echo")
        assert found is not None
        assert found.tool.remote is not None
        assert "cannot be reached" in found.tool.remote.unreachable_reason
        with pytest.raises(JaatoError) as caught:
            await use(made, "echo", text="x")
        assert (caught.value.code, caught.value.retryable) == ("registry_failed", True)
        [row] = (await use(made, "registries"))["registries"]
        assert (row["state"], row["tools"]) == ("unreachable", 1)
        with pytest.raises(JaatoError):
            await use(made, "refresh_registry", registry="it")
        made.shutdown()

    anyio.run(main)


def test_care(tmp_path: Path) -> None:
    """A definition can make a tool be treated with more care than the network's, never with less, and not take it back."""
    tools = [
        definition("harmless", tags=["read", "safe", "read-only"], source={"access": "read"}),
        definition("deleting", tags=["Destructive"]),
        definition("running", source={"kind": "shell"}),
        definition("quiet", source="core"),
    ]
    with shop(*tools) as it:
        configure(tmp_path, it=it.url)

        async def main() -> None:
            made = plugins(tmp_path)
            await offered(made)
            assert await accesses(made) == {
                "harmless": "network",
                "deleting": "execute",
                "running": "execute",
                "quiet": "network",
            }
            made.shutdown()
            it.tools["deleting"] = definition("deleting", "Now it is harmless.", tags=["read"])
            again = plugins(tmp_path)
            entry = again.catalog.find("deleting")
            assert entry is not None
            registry_tool = entry.tool.remote
            assert isinstance(registry_tool, RegistryTool)
            known = await registry_tool._definitions.get("deleting", refresh=True)
            assert known.definition.description == "Now it is harmless."
            assert (await accesses(again))["deleting"] == "execute"
            again.shutdown()

        anyio.run(main)


async def accesses(made: Any) -> dict[str, str]:
    """What the tools may touch, once they are described."""
    tools = [tool for tool in made.catalog if tool.remote is not None]
    for one in tools:
        await one.remote.complete(one)
    return {one.name: one.spec.access for one in tools}


def test_a_workspaces_registry(tmp_path: Path) -> None:
    """A workspace's registry that nobody has trusted offers nothing and is not asked; one that is trusted has its prefix."""
    from jaato.plugins.arp.plugin import open_directory

    with shop(definition("echo")) as it:
        configure(tmp_path, "workspace", near=it.url)
        (tmp_path / ".config/jaato").mkdir(parents=True, exist_ok=True)
        (tmp_path / ".config/jaato/config.toml").write_text(
            f'allow_hosts = ["{it.url.partition("//")[2]}"]\n'
        )

        async def main() -> None:
            made = plugins(tmp_path)
            assert await offered(made) == []
            assert not it.seen
            toolset = made.toolset("arp")
            assert toolset is not None
            found = open_directory(toolset.plugin.host)
            made.shutdown()
            found.trust.add(found.sources["near"])
            again = plugins(tmp_path)
            assert await offered(again) == ["near__echo"]
            again.shutdown()

        anyio.run(main)


def test_a_kept_list_that_is_damaged(tmp_path: Path) -> None:
    """A cache that was cut, or is another's, is as good as none."""
    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)

        async def main() -> None:
            for damage in (b"", b"{", b"[]", json.dumps({"digest": "x", "views": []}).encode()):
                made = plugins(tmp_path)
                assert await offered(made) == ["echo"]
                await use(made, "echo", text="x")
                made.shutdown()
                files = list((tmp_path / ".cache/jaato/registries").iterdir())
                assert len(files) == 2
                for file in files:
                    file.write_bytes(damage)

        anyio.run(main)
