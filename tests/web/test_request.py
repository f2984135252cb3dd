"""`http_request`, proxies and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.web.fetching import PAGE, local, plain, to, web
from tests.web.server import ask, serving, text

from jaato.errors import ConfigError, ToolError
from jaato.tools.network.addresses import AddressRefused
from jaato.tools.tool import tools_of


def test_the_proxy_of_the_environment_is_used_and_what_was_checked_is_said(tmp_path: Path) -> None:
    """A plain request goes to the proxy whole; a private address is refused there too, by number and by name."""
    names = {"inside.example": [["10.0.0.5"]], "known.example": [["93.184.216.34"]]}
    with serving(index=PAGE) as proxy:
        proxy.answers["http://known.example/"] = plain(b"by proxy")
        proxy.answers["http://unknown.example/"] = plain(b"by proxy")
        plugin = web(tmp_path, names=names, environ={"HTTP_PROXY": proxy.url})
        found = ask(plugin, "fetch_url", url="http://known.example/")
        assert text(found).endswith("by proxy")
        assert "addresses known here were checked" in text(found)
        assert "only the name itself" in text(ask(plugin, "fetch_url", url="http://unknown.example/"))
        sent = len(proxy.seen)
        for url in ("http://inside.example/", "http://10.0.0.1/", "http://169.254.169.254/"):
            with pytest.raises(AddressRefused):
                ask(plugin, "fetch_url", url=url)
        assert len(proxy.seen) == sent
        with pytest.raises(ConfigError, match="proxies"):
            ask(
                web(tmp_path, environ={"ALL_PROXY": "socks5://127.0.0.1:1"}),
                "fetch_url",
                url="http://known.example/",
            )


def test_any_method_with_status_headers_and_body(tmp_path: Path) -> None:
    """The answer is not interpreted: redirects stay, JSON is data, the method is the one asked for."""
    with serving(a=plain(b'{"x": [1, 2]}', "application/json", 201, X_More="yes"), b=to("/a")) as site:
        plugin = local(tmp_path)
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "POST"):
            found = ask(plugin, "http_request", method=method, url=f"{site.url}/a", body="text")
            assert (site.seen[-1].method, site.seen[-1].body) == (method, b"text")
            assert (found.structured["status"], found.structured["json"]) == (201, {"x": [1, 2]})
            assert found.structured["headers"]["x-more"] == "yes"
        assert ask(plugin, "http_request", method="HEAD", url=f"{site.url}/a").structured["status"] == 201
        assert ask(plugin, "http_request", method="GET", url=f"{site.url}/b").structured["status"] == 302
        followed = ask(plugin, "http_request", method="GET", url=f"{site.url}/b", follow_redirects=True)
        assert followed.structured["status"] == 201
        with pytest.raises(ToolError, match="one body"):
            ask(plugin, "http_request", method="POST", url=site.url, body="a", json=1)


def test_a_key_goes_only_where_the_user_granted_it(tmp_path: Path) -> None:
    """Named by its variable, granted for this very host, over https or to host and port; no redirect takes it along."""
    environ = {"PETS_KEY": "canary", "OTHER_KEY": "other-canary"}
    with serving(index=PAGE) as other, serving(a=PAGE, b=to(other.url)) as site:
        place = f"127.0.0.1:{site.port}"
        granted = [f"PETS_KEY={place}", "OTHER_KEY=api.example", f"EMPTY={place}"]
        plugin = local(tmp_path, environ=environ, service_keys=granted)
        call = {"method": "GET", "url": f"{site.url}/a"}
        ask(plugin, "http_request", **call)
        assert "canary" not in str(site.seen[-1].headers)
        assert "canary" not in text(ask(plugin, "http_request", auth="PETS_KEY", **call))
        assert site.seen[-1].headers["authorization"] == "Bearer canary"
        for variable in ("OTHER_KEY", "HOME", "PATH"):
            with pytest.raises(ToolError, match="service_keys"):
                ask(plugin, "http_request", auth=variable, **call)
        with pytest.raises(ToolError, match="no EMPTY"):
            ask(plugin, "http_request", auth="EMPTY", **call)
        ask(
            plugin, "http_request", method="GET", url=f"{site.url}/b", auth="PETS_KEY", auth_as="X-Key",
            follow_redirects=True,
        )  # fmt: skip
        assert site.seen[-1].headers["x-key"] == "canary"
        assert [("canary" in str(seen.headers)) for seen in other.seen] == [False]
        for entry, words in (("PETS_KEY=127.0.0.1", "not https"), ("PETS_KEY", "VARIABLE=host")):
            plugin = local(tmp_path, environ=environ, service_keys=[entry])
            with pytest.raises((ToolError, ConfigError), match=words):
                ask(plugin, "http_request", auth="PETS_KEY", **call)
        assert not any("other-canary" in str(seen.headers) for seen in site.seen)


@pytest.mark.parametrize(
    ("auth_as", "name", "value"),
    [
        ("basic", "authorization", "Basic azp2"),
        ("X-Api-Key", "x-api-key", "k:v"),
        ("Authorization", "authorization", "k:v"),
        ("Host", None, None),
        ("A\r\nB", None, None),
    ],
)
def test_a_key_takes_its_header_alone(
    tmp_path: Path, auth_as: str, name: str | None, value: str | None
) -> None:
    """It replaces what the call itself put there; a header of the connection is no place for it."""
    with serving(a=PAGE) as site:
        keys: dict[str, Any] = {"service_keys": [f"K=127.0.0.1:{site.port}"], "environ": {"K": "k:v"}}
        given = {"authorization": "Bearer forged", "x-api-key": "forged"}
        call: dict[str, Any] = {"method": "GET", "url": f"{site.url}/a", "headers": given}
        call |= {"auth": "K", "auth_as": auth_as}
        if name is None:
            with pytest.raises(ToolError, match="cannot be sent"):
                ask(local(tmp_path, **keys), "http_request", **call)
            assert not site.seen
            return
        ask(local(tmp_path, **keys), "http_request", **call)
        assert site.seen[-1].headers[name] == value


def test_json_that_is_none_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Both are said; nothing breaks on what JSON cannot carry."""
    with serving(a=plain(b"[" * 100_000, "application/json"), b=plain(b"\0\xff", "application/zip")) as site:
        found = ask(local(tmp_path), "http_request", method="GET", url=f"{site.url}/a", max_chars=200_000)
        assert "json_problem" in found.structured
        assert "2 bytes of application/zip" in text(
            ask(local(tmp_path), "http_request", method="GET", url=f"{site.url}/b")
        )


def test_the_tools_ask_before_they_reach_out(tmp_path: Path) -> None:
    """All of them have access to the network, are discoverable, and are described in forty words; one has an alias."""
    tools = {tool.name: tool for tool in tools_of(local(tmp_path), "web")}
    assert set(tools) == {"fetch_url", "fetch_url_post", "http_request", "web_search"}
    for tool in tools.values():
        assert (tool.spec.access, tool.spec.discoverability) == ("network", "discoverable")
        assert 5 < len(tool.spec.description.split()) <= 40
    assert {tool.spec.category for tool in tools.values()} == {"web", "search"}
    assert list(tools["fetch_url"].aliases) == ["web_fetch"]


def test_a_wrong_setting_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A mistake in the list of hosts is not taken for a refusal of everything."""
    with serving(index=PAGE) as site, pytest.raises(ConfigError, match="allow_hosts"):
        ask(web(tmp_path, "http://127.0.0.1/"), "fetch_url", url=site.url)
