"""`registries.json`: what can be configured, what is left out and why, and what a registry is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import definition, shop
from tests.arp.using import configure, directory, offered, plugins, session, use
from tests.kit import call, recorded, say

from jaato.errors import JaatoError
from jaato.plugins.arp.config import expand_variables
from jaato.plugins.arp.directory import make_allowed_hosts
from jaato.tools.network.addresses import AddressRefused, check_address

URL = "https://tools.example.com"
WRONG: dict[str, tuple[Any, str]] = {
    "a text": ("x", "must be an object"),
    "no url": ({}, 'needs a "url"'),
    "no http": ({"url": "file:///etc/passwd"}, "is no http or https URL"),
    "a password": ({"url": "https://u:p@x.example"}, "user or password"),
    "a query": ({"url": "https://x.example/?key=1"}, "has a query"),
    "a space": ({"url": "https://x.example/a b"}, "cannot be used"),
    "a line end": ({"url": URL, "headers": {"X-A": "a\r\nX-B: b"}}, "invisible characters"),
    "unseen": ({"url": "https://x\u200b.example"}, "invisible characters"),
    "host": ({"url": URL, "headers": {"Host": "x"}}, "belongs to the connection"),
    "a header of numbers": ({"url": URL, "headers": {"X-A": 7}}, "headers[...]"),
    "unknown": ({"url": URL, "allow_privat": True}, "unknown field `allow_privat`"),
    "never": ({"url": URL, "timeout_s": 0}, 'field "timeout_s"'),
    "for ever": ({"url": URL, "timeout_s": 1e9}, 'field "timeout_s"'),
    "true": ({"url": URL, "timeout_s": True}, 'field "timeout_s"'),
    "perhaps": ({"url": URL, "enabled": "yes"}, "Expected `bool`"),
    "a prefix": ({"url": URL, "prefix": "a b"}, 'needs a "prefix"'),
    "mcp": ({"url": URL, "prefix": "MCP"}, "as tools of MCP servers"),
    "a server of mcp": ({"url": URL, "prefix": "mcp__files"}, "as tools of MCP servers"),
    "mcp_": ({"url": URL}, "as tools of MCP servers"),
}


def test_what_is_wrong_with_an_entry(tmp_path: Path) -> None:
    """An entry that cannot be used is left out by name and reason, and the others work."""
    entries = {name: entry for name, (entry, _) in WRONG.items()}
    file = configure(tmp_path)
    file.write_text(json.dumps({"registries": {**entries, "good": {"url": URL}, "bad\nname": {"url": URL}}}))
    found = directory(tmp_path)
    assert list(found.sources) == ["good"]
    told = {problem.name: problem.text for problem in found.problems}
    for name, (_, words) in WRONG.items():
        assert words in told[name], name
    assert "invisible" in told["bad\\nname"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ('{"registries": {"a": {"url": 1}, "a": {}}}', "is there twice"),
        ('{"registries": []}', "must be one object"),
        ('{"mcpServers": {}}', 'has no "registries"'),
        ("[]", "must be a JSON object"),
        ('{"registries": {"a": {"timeout_s": NaN}}}', "holds NaN"),
        ("[" * 100_000, "nested too deeply"),
        ("x" * 1_000_001, "more than the 1,000,000 allowed"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, content: str, words: str) -> None:
    """A file that cannot be read is reported whole, and offers nothing."""
    configure(tmp_path).write_text(content)
    found = directory(tmp_path)
    assert found.sources == {}
    assert words in str(found.problems[0])


def test_whose_file(tmp_path: Path) -> None:
    """A file that everybody can write, and a link out of the workspace, are not read; a workspace's entry never stands in
    for the user's, nor for one whose tools it could be taken for."""
    configure(tmp_path, mine=URL).chmod(0o666)
    file = configure(tmp_path, "workspace", theirs=URL)
    assert list(directory(tmp_path).sources) == ["theirs"]
    elsewhere = tmp_path / "elsewhere.json"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert list(directory(tmp_path).sources) == []
    file.unlink()
    configure(tmp_path, mine={"url": URL, "prefix": "tix"}).chmod(0o600)
    configure(
        tmp_path, "workspace", Tix=URL, tix__more=URL, other=URL, private={"url": URL, "allow_private": True}
    )
    found = directory(tmp_path)
    assert list(found.sources) == ["mine", "other"]
    assert {problem.name for problem in found.problems} == {"Tix", "tix__more", "private"}


def test_what_is_sent(tmp_path: Path) -> None:
    """A token and headers are filled in from the environment or the system keyring; what is missing is named."""
    token = "k3y-of-the-ring-0123456789"
    with shop(definition("echo")) as it:
        configure(
            tmp_path,
            it={"url": "${WHERE}/", "token": "${KEY}", "headers": {"X-Team": "${TEAM:-blue}"}},
            ring={"url": URL, "token": "keyring:nobody"},
            off={"url": URL, "enabled": False},
        )

        async def main() -> None:
            with pytest.raises(JaatoError, match="needs the variable WHERE"):
                await directory(tmp_path).get_handle("it").source.fetch_list()
            source = directory(tmp_path, WHERE=it.url, KEY=token).get_handle("it").source
            assert await source.fetch_list()
            assert it.seen[0].headers["authorization"] == f"Bearer {token}"
            assert it.seen[0].headers["x-team"] == "blue"
            with pytest.raises(JaatoError, match="switched off"):
                directory(tmp_path).get_handle("off")
            with pytest.raises(JaatoError, match="There is no registry 'x'; there are 'it', 'off', 'ring'"):
                directory(tmp_path).get_handle("x")
            with pytest.raises(JaatoError, match=r"line|characters|cannot be sent"):
                await directory(tmp_path, WHERE=it.url, KEY="a\nb").get_handle("it").source.fetch_list()
            with pytest.raises(JaatoError, match="keyring"):
                await directory(tmp_path).get_handle("ring").source.fetch_list()

        anyio.run(main)


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    """A registry that repeats the token it was sent does not get it into the log."""
    token = "sk-9f8e7d6c5b4a39281706-user"

    async def main() -> None:
        script = [
            call("list_tools"),
            call("get_tool_schemas", names=["echo"]),
            call("echo", text="x"),
            say("done"),
        ]
        async with session(tmp_path, script, environ={"KEY": token}) as live:
            await live.post("go")
            assert it.asked("POST")[0].headers["authorization"] == f"Bearer {token}"
            assert token not in str(recorded(live))

    with shop(definition("echo"), run=lambda _name, _args: f"You sent {token}.") as it:
        configure(tmp_path, it={"url": it.url, "token": "${KEY}"})
        anyio.run(main)


def test_addresses(tmp_path: Path) -> None:
    """The user's own configuration leads to a private address, and to that port of it alone; a workspace's leads to none
    but by the setting; where clouds keep their secrets no name leads."""
    configure(
        tmp_path, mine="http://10.0.0.5:8000", careful={"url": "http://10.0.0.6", "allow_private": False}
    )
    configure(tmp_path, "workspace", theirs="http://10.0.0.7:8000")
    found = directory(tmp_path)

    def allows(name: str, address: str, port: int, hosts: tuple[str, ...] = ()) -> bool:
        import ipaddress

        config = found.sources[name]
        base = expand_variables(config, {}).base
        try:
            check_address(
                base.host, port, ipaddress.ip_address(address), make_allowed_hosts(config, base, hosts)
            )
        except AddressRefused:
            return False
        return True

    assert allows("mine", "10.0.0.5", 8000)
    assert not allows("mine", "10.0.0.5", 8001)
    assert not allows("mine", "169.254.169.254", 8000)
    assert not allows("careful", "10.0.0.6", 80)
    assert not allows("theirs", "10.0.0.7", 8000)
    assert allows("theirs", "10.0.0.7", 8000, ("10.0.0.7:8000",))


def test_a_workspaces_registry_on_this_machine(tmp_path: Path) -> None:
    """A workspace's registry that is trusted still reaches no address of this machine unless the user's settings say so."""
    with shop(definition("echo")) as it:
        configure(tmp_path, "workspace", near=it.url)

        async def main() -> None:
            found = directory(tmp_path)
            found.trust.add(found.sources["near"])
            with pytest.raises(
                JaatoError, match="a loopback address, which is reached only when the user allows it"
            ):
                await found.get_handle("near").source.fetch_list()
            assert not it.seen
            allowing = directory(tmp_path, allow_hosts=[it.url.partition("//")[2]])
            assert await allowing.get_handle("near").source.fetch_list()
            found.trust.remove(found.sources["near"])
            with pytest.raises(JaatoError, match="not trusted as it is now"):
                directory(tmp_path).get_handle("near")
            with pytest.raises(JaatoError, match="not trusted as it is now"):
                await allowing.handle(found.sources["near"]).source.fetch_list()
            assert len(it.seen) == 1

        anyio.run(main)


def test_nothing_is_configured(tmp_path: Path) -> None:
    """Without a registry the plugin waits, offers nothing, asks nobody, and says what there is."""

    async def main() -> None:
        made = plugins(tmp_path)
        assert await offered(made) == []
        assert not made.catalog.sources
        assert await use(made, "registries") == {"registries": []}
        made.shutdown()

    anyio.run(main)
