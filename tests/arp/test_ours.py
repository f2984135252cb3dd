"""Our client and our server: what one serves the other's agents find, are described, and call."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.arp.using import configure, offered, plugins, use
from tests.contract.test_contract import DENIES, SHOWING, registry

from jaato.errors import JaatoError


def test_our_client_with_our_server(tmp_path: Path) -> None:
    """Found by name, described, called; what was denied, raised and wrong there comes with its code; nothing changed is 304."""

    async def main(url: str) -> None:
        configure(tmp_path, ours=url)
        made = plugins(tmp_path)
        names = await offered(made)
        assert {"echo", "calc", "time_now", "locked", "broken", "pair"} == set(names)
        assert (await use(made, "calc", expression="6 * 7"))["value"] == 42
        assert await use(made, "pair", a=1, b=2) == 3
        for name, code in (("locked", "permission.denied"), ("broken", "tool.handler_error")):
            with pytest.raises(JaatoError) as caught:
                await use(made, name)
            assert caught.value.problem.code == code  # type: ignore[attr-defined]
            assert "hunter2" not in str(caught.value)
        found = made.catalog.find("locked")
        assert found is not None
        plugin = made.toolset("arp")
        assert plugin is not None
        source = plugin.plugin.directory.get_handle("ours").source
        assert source.kept.etag
        assert not await source.fetch_list()
        made.shutdown()

    home = tmp_path / "server"
    home.mkdir()
    with registry(home, "--domains", f"core,{SHOWING}", *DENIES) as said:
        anyio.run(main, said.partition(" at ")[2])
