"""Where `fetch_url`, `fetch_url_post` and `http_request` may reach, and what goes along."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
from tests.web.fetching import PAGE, local, to, web
from tests.web.server import ask, serving, text

from jaato.errors import ToolError
from jaato.tools.network.addresses import AddressRefused


def test_a_private_address_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """However it is spelt, and whatever name leads to it; the refusal says which setting allows it."""
    names = {
        "evil.example": [["127.0.0.1"]],
        "mixed.example": [["93.184.216.34", "10.0.0.1"]],
        "six.example": [["::1"]],
    }
    with serving(index=PAGE) as site:
        for host in ("127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::ffff:7f00:1]", "evil.example", "mixed.example",
                     "six.example", "EVIL.example."):  # fmt: skip
            with pytest.raises(AddressRefused, match="allow_hosts"):
                ask(web(tmp_path, names=names), "fetch_url", url=f"http://{host}:{site.port}/")
        assert site.seen == []
        assert ask(
            web(tmp_path, "*.example", names=names), "fetch_url", url=f"http://evil.example:{site.port}/"
        )
        assert site.seen[0].headers["host"] == f"evil.example:{site.port}"


def test_an_ipv6_address_is_dialed(tmp_path: Path) -> None:
    """A literal address of the newer kind, in brackets, with its port."""
    listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    port = listener.getsockname()[1]
    got: list[bytes] = []

    def work() -> None:
        with listener, listener.accept()[0] as connection:
            got.append(connection.recv(4096))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    thread = threading.Thread(target=work)
    thread.start()
    found = ask(web(tmp_path, "[::1]"), "fetch_url", url=f"http://[0:0::1]:{port}/")
    thread.join(60)
    assert text(found).endswith("ok")
    assert f"Host: [::1]:{port}\r\n".encode() in got[0]


def test_a_name_is_resolved_once_and_that_address_is_dialed(tmp_path: Path) -> None:
    """A name that changes its address between check and connection gains nothing: it is looked up once."""
    names = {"rebind.example": [["127.0.0.2"], ["127.0.0.1"]]}
    with serving(index=PAGE) as site:
        plugin = web(tmp_path, "127.0.0.2", names=names)
        with pytest.raises(
            ToolError, match="cannot be reached"
        ):  # nothing listens at the address that was checked
            ask(plugin, "fetch_url", url=f"http://rebind.example:{site.port}/")
        assert plugin.host.asked == ["rebind.example"]  # type: ignore[attr-defined] # the test's own host
        with pytest.raises(AddressRefused):
            ask(plugin, "fetch_url", url=f"http://rebind.example:{site.port}/")
        assert site.seen == []


def test_a_redirect_is_checked_like_any_url(tmp_path: Path) -> None:
    """To a private address, a metadata address, another scheme, a name that resolves to one: refused at that step."""
    names = {"inside.example": [["10.0.0.5"]]}
    with serving(
        a=to("http://169.254.169.254/latest/meta-data/"),
        b=to("http://localhost.inside.example/"),
        c=to("file:///etc/passwd"),
        d=to("http://[::ffff:10.0.0.1]/"),
        e=to("//inside.example/x"),
        f=to("http://user:pass@127.0.0.1/"),
        g=to("gopher://127.0.0.1/"),
    ) as site:
        for path in "abcdefg":
            with pytest.raises(ToolError):
                ask(local(tmp_path, names=names), "fetch_url", url=f"{site.url}/{path}")
        with pytest.raises(AddressRefused, match="cloud keeps its secrets"):
            ask(web(tmp_path, "*"), "fetch_url", url=f"{site.url}/a")


def test_redirects_are_followed_and_told(tmp_path: Path) -> None:
    """Several, relative ones too, end at the page; a circle is an error."""
    with serving(a=to("b", 301), b=to("/c?x=ü y", 307), c=PAGE, loop=to("/loop")) as site:
        found = ask(local(tmp_path), "fetch_url", url=f"{site.url}/a")
        assert found.structured["url"] == f"{site.url}/c?x=%C3%BC%20y"
        assert found.structured["notes"] == [
            f"Redirected to {site.url}/b",
            f"Redirected to {site.url}/c?x=%C3%BC%20y",
        ]
        with pytest.raises(ToolError, match="more than 10 times"):
            ask(local(tmp_path), "fetch_url", url=f"{site.url}/loop")


def test_credentials_never_change_their_host(tmp_path: Path) -> None:
    """Every header of the caller that could be a secret stays with the origin; within it they go along."""
    secret = {
        "Authorization": "Bearer canary",
        "Cookie": "s=canary",
        "X-Api-Key": "canary",
        "Accept-Language": "de",
    }
    with serving(index=PAGE) as other, serving(a=to(other.url), b=to("/c"), c=PAGE) as site:
        ask(local(tmp_path), "fetch_url", url=f"{site.url}/a", headers=secret)
        assert "canary" not in json.dumps(other.seen[0].headers)
        assert other.seen[0].headers["accept-language"] == "de"
        ask(local(tmp_path), "fetch_url", url=f"{site.url}/b", headers=secret)
        assert site.seen[-1].path == "/c"
        assert site.seen[-1].headers["x-api-key"] == "canary"


def test_a_body_never_changes_its_host(tmp_path: Path) -> None:
    """A form that is redirected with its method is not sent elsewhere; 303 becomes a GET without it."""
    with (
        serving(index=PAGE) as other,
        serving(a=to(other.url, 307), b=to("/c", 303), c=PAGE, d=to("/c", 308)) as site,
    ):
        plugin = local(tmp_path)
        found = ask(plugin, "fetch_url_post", url=f"{site.url}/a", form={"k": "canary"})
        assert "not sent there" in text(found)
        assert other.seen == []
        ask(plugin, "fetch_url_post", url=f"{site.url}/b", form={"k": "v w"})
        posted, followed = site.seen[-2:]
        assert (posted.method, posted.body) == ("POST", b"k=v+w")
        assert posted.headers["content-type"] == "application/x-www-form-urlencoded"
        assert (followed.method, followed.body) == ("GET", b"")
        assert "content-type" not in followed.headers
        ask(plugin, "fetch_url_post", url=f"{site.url}/d", json={"a": ["ü"]})
        assert (site.seen[-1].method, json.loads(site.seen[-1].body)) == ("POST", {"a": ["ü"]})


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil"}, {"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}, {"A b": "c"}, {"A": "b\r\nC: d"}, {"": "x"},
     {"A": "b\0"}, {"Connection": "x"}, {"A": "\u2603"}],
)  # fmt: skip
def test_headers_cannot_make_another_request(tmp_path: Path, headers: dict[str, str]) -> None:
    """Line breaks, and headers that belong to the connection, are refused before anything is sent."""
    with serving(index=PAGE) as site:
        with pytest.raises(ToolError, match="header"):
            ask(local(tmp_path), "fetch_url", url=site.url, headers=headers)
        assert site.seen == []
