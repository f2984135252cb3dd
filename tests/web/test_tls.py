"""TLS to the address that was checked: the certificate must be the name's, whatever address it has."""

from __future__ import annotations

import ssl
from pathlib import Path

import anyio
import pytest
from tests.providers import test_route
from tests.providers.server import tunnel
from tests.web.server import Answer, Host, Site, ask, text

from jaato.errors import ToolError
from jaato.plugins.web.plugin import WebPlugin
from jaato.tools.call import Call
from jaato.tools.tool import tools_of

authority = test_route.authority


@pytest.fixture
def site(authority: tuple[Path, ssl.SSLContext]) -> Site:
    """A server for model.test over TLS, not yet at work."""
    made = Site({"/": Answer(200, {"Content-Type": "text/plain"}, b"over TLS")})
    made.server.socket = authority[1].wrap_socket(made.server.socket, server_side=True)
    return made


def test_the_certificate_is_held_against_the_name(
    tmp_path: Path, authority: tuple[Path, ssl.SSLContext], site: Site
) -> None:
    """A name that leads to the checked address is served; another name with the same address is refused, and so is
    an authority that nobody named."""
    names = {"model.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]}
    believed = {"SSL_CERT_FILE": str(authority[0])}
    site.thread.start()
    try:
        plugin = WebPlugin(Host(tmp_path, names, believed, allow_hosts=["127.0.0.1"]))
        assert text(ask(plugin, "fetch_url", url=f"https://model.test:{site.port}/")).endswith("over TLS")
        with pytest.raises(ToolError, match=r"TLS connection to other\.test"):
            ask(plugin, "fetch_url", url=f"https://other.test:{site.port}/")
        plugin = WebPlugin(Host(tmp_path, names, {}, allow_hosts=["127.0.0.1"]))
        with pytest.raises(ToolError, match="SSL_CERT_FILE"):
            ask(plugin, "fetch_url", url=f"https://model.test:{site.port}/")
    finally:
        site.server.shutdown()
        site.server.server_close()
        site.thread.join()


def test_tls_through_the_proxy_of_the_environment(
    tmp_path: Path, authority: tuple[Path, ssl.SSLContext], site: Site
) -> None:
    """The proxy is told the name and its own password; what is inside is TLS to the name, which it cannot see."""
    site.thread.start()

    async def main() -> None:
        async with tunnel(site.port) as proxy:
            environ = {
                "HTTPS_PROXY": proxy.url.replace("//", "//me:secret@"),
                "SSL_CERT_FILE": str(authority[0]),
            }
            plugin = WebPlugin(Host(tmp_path, {"inside.test": [["10.0.0.1"]]}, environ))
            fetch = {tool.name: tool for tool in tools_of(plugin, "web")}["fetch_url"]
            asked = {"url": "https://model.test/", "headers": {"Authorization": "canary"}}
            found = await fetch.run(asked, Call("1", "fetch_url", asked))
            assert text(found).endswith("over TLS")
            assert "only the name itself" in text(found)
            assert proxy.asked == ["CONNECT model.test:443"]
            assert proxy.headers[0]["proxy-authorization"].startswith("Basic ")
            assert "canary" not in str(proxy.headers)
            assert "proxy-authorization" not in site.seen[0].headers
            for host in ("inside.test", "10.0.0.1"):
                with pytest.raises(ToolError, match="allow_hosts"):
                    await fetch.run({"url": f"https://{host}/"}, Call("1", "fetch_url", {}))
            assert len(proxy.asked) == 1

    try:
        anyio.run(main)
    finally:
        site.server.shutdown()
        site.server.server_close()
        site.thread.join()


def test_a_downgrade_takes_no_credentials_along(
    tmp_path: Path, authority: tuple[Path, ssl.SSLContext], site: Site
) -> None:
    """From https to http, even of the same host, is another origin."""
    names = {"model.test": [["127.0.0.1"]]}
    below = Site({"/": Answer(200, {"Content-Type": "text/plain"}, b"in the clear")})
    site.answers["/down"] = Answer(302, {"Location": f"http://model.test:{below.port}/"})
    for one in (site, below):
        one.thread.start()
    try:
        plugin = WebPlugin(
            Host(tmp_path, names, {"SSL_CERT_FILE": str(authority[0])}, allow_hosts=["127.0.0.1"])
        )
        secret = {"Authorization": "canary", "Cookie": "canary"}
        ask(plugin, "fetch_url", url=f"https://model.test:{site.port}/down", headers=secret)
        assert site.seen[0].headers["authorization"] == "canary"
        assert "canary" not in str(below.seen[0].headers)
    finally:
        for one in (site, below):
            one.server.shutdown()
            one.server.server_close()
            one.thread.join()
