"""The web tools in a session: found, activated, asked about, and an image kept where the model can see it."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.kit import call, plan, results, runtime, say
from tests.web.fetching import PNG
from tests.web.server import Answer, serving

from jaato.protocol.messages import Media
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Runtime
from jaato.tools.permissions.gate import Policy


def exposed(made: Runtime, **config: object) -> None:
    """Expose the web plugin with a configuration."""
    registry = made.registry
    assert isinstance(registry, PluginRegistry)
    registry.expose_tool("web", dict(config))


def test_a_tool_that_was_not_shown_is_found_and_used(tmp_path: Path) -> None:
    """Search, activation, a call under an allowing pattern, and an image that becomes a blob of the session; a URL
    the pattern does not cover is denied."""
    picture = PNG

    async def main(url: str) -> None:
        made = runtime(tmp_path)
        exposed(made, allow_hosts=["127.0.0.1"])
        script = [
            call("list_tools", query="read a web page"),
            call("get_tool_schemas", names=["web_fetch"]),
            call("fetch_url", url=f"{url}/a"),
            call("fetch_url", url=f"{url}/other"),
            say("done"),
        ]
        policy = Policy.of({"defaultPolicy": "deny", "whitelist": {"patterns": [f"fetch_url({url}/a)"]}})
        try:
            async with made.create(plan(tmp_path, script, policy=policy)) as live:
                await live.post("look at it")
                found, _, page, other = results(live)
                assert "fetch_url" in str(found.structured)
                (media,) = [part for part in page.content if isinstance(part, Media)]
                assert live.journal.store.get_blob(live.state.session_id, media.blob, 0, 1000) == picture
                assert other.error is not None
                assert other.error.code == "permission_denied"
        finally:
            made.close()

    with serving(a=Answer(200, {"Content-Type": "image/png"}, picture)) as site:
        anyio.run(main, site.url)
        assert [seen.path for seen in site.seen] == ["/a"]
