"""Where a server that a workspace names may be: at no address of the user's network that its entry does not show."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from tests.mcp.hosting import places
from tests.mcp.raw_http import hand

from jaato.plugins.mcp.directory import Directory, ServerTrust
from jaato.plugins.mcp.errors import ServerFault, ServerUnusable
from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers


@pytest.mark.parametrize(
    ("host", "proxied", "wanted"),
    [
        ("127.0.0.1", False, ""),
        ("localhost", False, ""),
        ("0x7f000001", False, "a loopback address"),
        ("2130706433", True, "a loopback address"),
        ("169.254.169.254", False, "169.254.169.254"),
        ("169.254.7.7", False, "a link-local address"),
        ("[::ffff:169.254.169.254]", False, "169.254.169.254"),
        ("169.254.169.254", True, "169.254.169.254"),
        ("0.0.0.0", False, ""),
    ],
)
def test_a_workspace_leads_nobody_inside(tmp_path: Path, host: str, proxied: bool, wanted: str) -> None:
    """A trusted server of a workspace is reached at the private address that its entry shows, at none that hides behind a
    name or a number, through a proxy or not, and at no metadata address; the refusal says how a user allows it."""
    with hand() as server:
        port = server.url.rpartition(":")[2]
        here = places(
            tmp_path, **({"HTTP_PROXY": f"http://127.0.0.1:{port.partition('/')[0]}"} if proxied else {})
        )
        entry = {"url": f"http://{host}:{port}", "start_timeout_s": 20}
        (here.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"far": entry}}))
        directory = Directory(here)

        async def main() -> str:
            made = SessionServers(directory, lambda _: None)
            try:
                with pytest.raises(ServerUnusable, match="jaato mcp trust far"):
                    await made.connect("far")
                assert not server.seen
                ServerTrust(here.state_dir).add(directory.sources["far"])
                await made.connect("far")
            except ServerFault as error:
                return str(error)
            finally:
                made.leave()
                await anyio.to_thread.run_sync(SERVER_POOL.close)
            return ""

        said = anyio.run(main)
        assert wanted in said
        assert ("allow_hosts" in said) == bool(wanted) == (not server.seen)
