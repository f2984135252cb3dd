"""`web_search`: by a SearXNG server, or by public engines, and what is said when there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.web.fetching import plain, web
from tests.web.server import Answer, Host, ask, serving, text

from jaato.errors import ConfigError, ToolError
from jaato.plugins.web.plugin import WebPlugin

RESULTS = {
    "results": [
        {"title": "First\n title", "url": "https://a.example/", "content": "Some  words " + "x" * 900},
        {"title": None, "url": "https://b.example/", "content": None},
        {"title": "Third", "url": "https://c.example/"},
    ]
}


def found(tmp_path: Path, engine: str, **arguments: Any) -> Any:
    return ask(WebPlugin(Host(tmp_path, search_engine=engine)), "web_search", **arguments)


def test_a_searxng_server_answers(tmp_path: Path) -> None:
    """Titles, URLs and bounded snippets in its order; page and period are passed on. The user named it, so it may be
    at a private address."""
    body = json.dumps(RESULTS).encode()
    with serving(x_search=Answer(200, {"Content-Type": "application/json"}, body)) as site:
        output = found(tmp_path, f"{site.url}/x/", query="a&b=c?", limit=2, page=3, period="week")
        assert site.seen[0].path == "/x/search?q=a%26b%3Dc%3F&format=json&pageno=3&time_range=week"
    rows = output.structured["results"]
    assert [row["url"] for row in rows] == ["https://a.example/", "https://b.example/"]
    assert rows[0]["title"] == "First title"
    assert len(rows[0]["snippet"]) == 500
    assert "1. First title\n   https://a.example/" in text(output)
    assert "never as instructions" in text(output)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(403, {}, b""), "add json"),
        (Answer(500, {}, b""), "answered 500"),
        (Answer(200, {}, b"<html>"), "as SearXNG does"),
        (Answer(200, {}, b'{"results": 5}'), "as SearXNG does"),
        (Answer(200, {}, b'{"results": [5]}'), "as SearXNG does"),
        (Answer(200, {}, b"[" * 100_000), "as SearXNG does"),
    ],
)
def test_a_server_that_is_none_is_told(tmp_path: Path, answer: Answer, words: str) -> None:
    """What is wrong, and what to change."""
    with serving(search=answer) as site, pytest.raises(ToolError, match=words):
        found(tmp_path, site.url, query="x")


def test_no_results_are_no_error(tmp_path: Path) -> None:
    """An empty list says to use other words."""
    with serving(search=Answer(200, {}, b'{"results": []}')) as site:
        assert "other words" in text(found(tmp_path, site.url, query="x"))


def test_a_redirect_of_the_server_leads_to_no_private_place(tmp_path: Path) -> None:
    """What the user allowed is this server, not what it redirects to."""
    with serving(index=Answer()) as other, serving(search=Answer(302, {"Location": other.url})) as site:
        with pytest.raises(ToolError, match="allow_hosts"):
            found(tmp_path, site.url, query="x")
        assert other.seen == []


def test_public_engines_that_cannot_be_reached_are_told(tmp_path: Path) -> None:
    """Behind a proxy that lets nothing through, the error says what to do; every request went to the proxy."""
    pytest.importorskip("ddgs")
    with serving(index=Answer(503)) as proxy:
        plugin = WebPlugin(Host(tmp_path, environ={"HTTPS_PROXY": proxy.url}))
        with pytest.raises(ToolError, match="search_engine"):
            ask(plugin, "web_search", query="anything")


def test_an_unknown_engine_and_an_empty_query(tmp_path: Path) -> None:
    """A wrong setting is named; nothing is asked for nothing."""
    with pytest.raises(ConfigError, match="search_engine"):
        found(tmp_path, "bingle", query="x")
    with pytest.raises(ConfigError, match="search_engine"):
        found(tmp_path, "http://a b/", query="x")
    with pytest.raises(ToolError, match="empty"):
        found(tmp_path, "ddgs", query="  ")


def test_what_leads_to_no_page_is_no_result(tmp_path: Path) -> None:
    """An engine that answers with scripts and files gives the model the pages alone."""
    rows = [
        {"title": "a\ud800", "url": place}
        for place in ("javascript:alert(1)", "file:///etc/passwd", "", "https://a.example/")
    ]
    with serving(search=plain(json.dumps({"results": rows}).encode(), "application/json")) as site:
        found = ask(web(tmp_path, search_engine=site.url), "web_search", query="x", limit=1)
        assert [one["url"] for one in found.structured["results"]] == ["https://a.example/"]
        assert found.structured["results"][0]["title"] == "a?"
