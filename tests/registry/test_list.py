"""The list by pages, by tags and by what is searched for."""

from __future__ import annotations

import gzip
import json
import re
from base64 import urlsafe_b64encode
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.registry.opened import Opened, during, made

from jaato.protocol.arp import InvalidShape
from jaato.server.registry.cursor import Cursor, read, written
from jaato.server.registry.finding import MAX_KEPT, Finder
from jaato.server.registry.listing import FOUND, by_rank, in_order
from jaato.server.registry.query import MAX_LIMIT, MAX_TAG_CHARS, MAX_TAGS, MAX_TEXT_CHARS, wanted
from jaato.server.registry.shelf import Shelf
from jaato.testing.arp.peer import Reply, Served, refuses
from jaato.tools.catalog import Catalog

NEXT = re.compile(r'<(/v1/tools\?[!-~]+)>; rel="next"')
TEXTS = {
    "send_mail": "Send an e-mail to somebody.",
    "read_mail": "Read the e-mails of a mailbox.",
    "make_invoice": "Make an invoice for a customer.",
    "pay_invoice": "Pay an invoice that a supplier has sent.",
    "list_invoices": "List the invoices of a month.",
    "weather": "Tell the weather of a city.",
}


def following(reply: Reply) -> str:
    """The path of the next page; empty after the last."""
    link = reply.headers.get("link")
    if link is None:
        return ""
    found = NEXT.fullmatch(link)
    assert found is not None, link
    return found[1]


def names(reply: Reply) -> list[str]:
    """The names in a list, which has views and nothing else."""
    assert reply.status == 200, reply.body
    views: list[dict[str, Any]] = reply.json
    assert isinstance(views, list)
    assert all(set(view) == {"name", "description"} for view in views)
    return [view["name"] for view in views]


def pages(at: Served, path: str) -> list[list[str]]:
    """The names on this page and on all that follow it."""
    found = []
    while path:
        reply = at.send("GET", path)
        found.append(names(reply))
        path = following(reply)
    return found


def mails() -> list[Any]:
    """Tools to be found."""
    return [
        made(
            name,
            "1.0.0",
            name.partition("_")[2] or name,
            *(["money"] if "invoice" in name else []),
            text=text,
        )
        for name, text in TEXTS.items()
    ]


def test_the_list_is_read_by_pages_by_tags_and_by_words(tmp_path: Path) -> None:
    """Pages follow each other by `Link`, each with its own tag; `tag=` and `q=` choose; it stays an array of views."""

    def body(one: Opened) -> None:
        one.take("calc", "time_now")
        one.put(*mails())
        at = one.at
        everything = names(at.send("GET", "/v1/tools"))
        assert everything == ["echo", *TEXTS]
        whole = at.send("GET", "/v1/tools")
        assert (whole.headers["x-total-count"], "link" in whole.headers) == ("7", False)
        for ignored in ("?", "?q=", "?q=+", "?page=2&x", "?limit=1000"):
            assert at.send("GET", f"/v1/tools{ignored}").json == whole.json

        for limit in (1, 3, 7):
            found = pages(at, f"/v1/tools?limit={limit}")
            assert [len(page) for page in found] == [limit] * (7 // limit) + ([1] if 7 % limit else [])
            assert list(chain(*found)) == everything
        first = at.send("GET", "/v1/tools?limit=3")
        assert first.headers["x-total-count"] == "7"
        assert at.send("GET", "/v1/tools?limit=3", if_none_match=first.headers["etag"]).status == 304
        second = at.send("GET", following(first))
        assert second.headers["etag"] != first.headers["etag"]
        assert at.send("HEAD", following(first)).headers["etag"] == second.headers["etag"]

        money = at.send("GET", "/v1/tools?tag=money")
        assert (names(money), money.headers["x-total-count"]) == (list(TEXTS)[2:5], "3")
        assert pages(at, "/v1/tools?tag=money&limit=2") == [list(TEXTS)[2:4], list(TEXTS)[4:5]]
        assert names(at.send("GET", "/v1/tools?tag=money&tag=invoices")) == ["list_invoices"]
        assert names(at.send("GET", "/v1/tools?tag=money&tag=weather")) == []
        assert names(at.send("GET", "/v1/tools?tag=Money")) == []

        found_all = at.send("GET", "/v1/tools?q=pay+a+supplier%27s+invoice")
        assert names(found_all)[0] == "pay_invoice"
        assert int(found_all.headers["x-total-count"]) == len(names(found_all))
        by_one = pages(at, "/v1/tools?q=pay+a+supplier%27s+invoice&limit=1")
        assert [len(page) for page in by_one] == [1] * len(by_one)
        assert by_one[0] == ["pay_invoice"]
        assert set(names(at.send("GET", "/v1/tools?q=invoice&tag=money"))) == set(list(TEXTS)[2:5])
        assert names(at.send("GET", "/v1/tools?q=weather"))[0] == "weather"
        assert at.send("HEAD", "/v1/tools?q=weather").status == 200
        tag = at.send("GET", "/v1/tools?q=weather&limit=1").headers["etag"]
        assert at.send("GET", "/v1/tools?q=weather&limit=1", if_none_match=tag).status == 304

        one.put(*(made(f"more_{number}", text=f"Count {number} pears.") for number in range(30)))
        pears = at.send("GET", "/v1/tools?q=pears", accept_encoding="gzip")
        assert len(names(pears)) == FOUND
        many = at.send("GET", "/v1/tools?limit=37", accept_encoding="gzip")
        assert many.headers["content-encoding"] == "gzip"
        assert len(json.loads(gzip.decompress(many.body))) == 37
        one.take(*(f"more_{number}" for number in range(10)))
        assert "more_3" not in chain(*pages(at, "/v1/tools?q=count+pears&limit=7"))

    during(tmp_path, body, domains=["core"])


BAD = (
    *(
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=x",
        "limit=1.0",
        "limit=",
        "limit=%2B5",
        "limit=05",
        "limit=%D9%A1",
    ),
    *(
        "limit=1&limit=2",
        "q=a&q=b",
        "tag=",
        f"tag={'x' * (MAX_TAG_CHARS + 1)}",
        f"q={'x' * (MAX_TEXT_CHARS + 1)}",
    ),
    "&".join(f"tag={number}" for number in range(MAX_TAGS + 1)),
    *(
        "cursor=",
        "cursor=x",
        "cursor=%00",
        "cursor=%C3%A9",
        "cursor=" + "A" * 3_000,
        "cursor=bnVsbA",
        "cursor=W10",
    ),
    *("q=%ff", "tag=%c3", "x=%ff"),
)


def test_a_question_that_is_none_is_refused(tmp_path: Path) -> None:
    """What is no limit, tag, text or cursor is 400 `request.invalid_shape`, a plain error, also for a search; a cursor
    belongs to its question, whatever the limit."""

    def body(one: Opened) -> None:
        one.take("calc", "time_now")
        one.put(*mails())
        at = one.at
        for query in BAD:
            refuses(at.send("GET", f"/v1/tools?{query}"), 400, "request.invalid_shape")
            if "q=" not in query:
                refuses(at.send("GET", f"/v1/tools?q=mail&{query}"), 400, "request.invalid_shape")
        path = following(at.send("GET", "/v1/tools?limit=2"))
        cursor = path.partition("cursor=")[2]
        assert len(names(at.send("GET", f"/v1/tools?cursor={cursor}"))) == 5
        assert len(names(at.send("GET", f"/v1/tools?limit=1&cursor={cursor}"))) == 1
        for query in ("q=mail", "tag=money", "q=mail&tag=money"):
            refuses(at.send("GET", f"/v1/tools?{query}&cursor={cursor}"), 400, "request.invalid_shape")
        refuses(at.send("GET", f"/v1/tools?cursor={cursor}A"), 400, "request.invalid_shape")
        refuses(at.send("GET", f"/v1/tools?cursor={cursor[:-1]}"), 400, "request.invalid_shape")
        for text in ("%00", '"', "\\", "🙂", "x" * MAX_TEXT_CHARS, "é" * MAX_TEXT_CHARS, "<>; rel=next"):
            reply = at.send(
                "GET", "/v1/tools?" + urlencode({"q": f"mail {text}"[:MAX_TEXT_CHARS], "limit": 1})
            )
            assert names(reply) != []
            assert names(at.send("GET", following(reply)))
        tags = "&".join(f"tag={quote('é' * MAX_TAG_CHARS)}" for _ in range(MAX_TAGS))
        assert names(at.send("GET", f"/v1/tools?{tags}")) == []

    during(tmp_path, body, domains=["core"])


def question(**given: str) -> Any:
    """What a query asks for."""
    return wanted(urlencode(given).encode())


def after(headers: list[tuple[bytes, bytes]]) -> str:
    """The cursor of the next page; empty after the last."""
    link = dict(headers).get(b"link", b"").decode()
    return link.partition("cursor=")[2].partition(">")[0]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), limit=st.integers(1, 4))
def test_pages_are_stable_when_tools_come_and_go(data: st.DataObject, limit: int) -> None:
    """Whatever comes, goes or is replaced between two pages, every tool that stays is listed once, in its order."""
    shelf = Shelf(made(f"t{number}") for number in range(8))
    start = set(shelf.tools)
    went: set[str] = set()
    seen: list[str] = []
    cursor = ""
    fresh = 0
    while True:
        given = {"limit": str(limit), **({"cursor": cursor} if cursor else {})}
        page, headers = in_order(shelf, question(**given))
        seen += [view["name"] for view in json.loads(page.body)]
        cursor = after(headers)
        if not cursor:
            break
        for change in data.draw(st.lists(st.sampled_from(["add", "remove", "replace", "again"]), max_size=2)):
            name = data.draw(st.sampled_from(sorted(shelf.tools))) if shelf.tools else "t0"
            if change == "add" and fresh < 8:
                fresh += 1
                shelf = shelf.with_tool(made(f"new{fresh}"))
            elif change == "replace":
                shelf = shelf.with_tool(made(name, "2.0.0"))
            elif change != "add":
                went.add(name)
                shelf = shelf.without(name)
                if change == "again" and fresh < 8:
                    fresh += 1
                    shelf = shelf.with_tool(made(name))
    stayed = sorted(start - went)
    assert [name for name in seen if name in stayed] == stayed
    assert len([name for name in seen if name not in went]) == len(
        {name for name in seen if name not in went}
    )


def test_the_list_goes_on_after_a_restart() -> None:
    """A cursor of an earlier process goes on after its tool wherever that is now, or else where it was."""
    old = Cursor(question(limit="2").asked, 1, "b", "another")
    given = question(limit="2", cursor=written(old))

    def listed(*tools: str) -> list[str]:
        page, _ = in_order(Shelf(made(name) for name in tools), given)
        return [view["name"] for view in json.loads(page.body)]

    assert listed("a", "b", "c", "d") == ["c", "d"]
    assert listed("a", "x", "y", "b", "c", "d") == ["c", "d"]
    assert listed("a", "c", "d", "e") == ["d", "e"]
    assert listed("a") == []


def test_what_was_found_stays_so_while_it_is_read() -> None:
    """The pages of a search are of one ranking, less what has gone; when that is no longer kept, it goes on after its tool."""
    finder = Finder(Catalog())
    shelf = Shelf(made(f"pear_{number}", text=f"Count pears, way {number}.") for number in range(12))

    def found(cursor: str = "") -> tuple[list[str], str]:
        given = {"q": "count pears", "limit": "4", **({"cursor": cursor} if cursor else {})}
        page, headers = by_rank(shelf, finder, question(**given))
        return [view["name"] for view in json.loads(page.body)], after(headers)

    first, cursor = found()
    whole = list(finder.ranked(shelf.tools, "count pears"))
    shelf = (
        shelf.without(whole[5])
        .without(first[0])
        .with_tool(made("pear_new", text="Count pears, count pears."))
    )
    second, next_cursor = found(cursor)
    assert first + second == [*whole[:5], *whole[6:9]]
    third, last = found(next_cursor)
    assert (third, last) == (whole[9:], "")
    for number in range(MAX_KEPT):
        finder.keep((str(number),))
    assert finder.kept(read(next_cursor, question(q="count pears").asked).since) is None
    later, _ = found(next_cursor)
    now = list(finder.ranked(shelf.tools, "count pears"))
    assert later == now[now.index(second[-1]) + 1 :][:4]


def test_a_name_that_is_another_tools_alias_is_searched_for_all_the_same() -> None:
    """The names on a shelf are all different; what else tools are called by keeps none of them from being found."""
    finder = Finder(Catalog())
    tools = [
        made("one", text="Fold paper."),
        made("two", text="Fold cloth."),
        made("three", text="Fold tin."),
    ]
    tools[0].aliases = tools[1].aliases = {"three": {}, "four": {}}
    tools[2].fallback = "two"
    shelf = Shelf(tools)
    assert set(finder.ranked(shelf.tools, "fold")) == {"one", "two", "three"}
    assert [tool.name for tool in shelf] == ["one", "two", "three"]
    assert finder.ranked(shelf.without("one").tools, "fold paper")[0] != "one"


@given(
    st.text(max_size=60) | st.binary(max_size=40).map(lambda raw: urlsafe_b64encode(raw).decode().rstrip("="))
)
def test_no_text_but_a_cursor_is_one(text: str) -> None:
    """Reading gives back what was written, and refuses everything else with the error for it."""
    try:
        cursor = read(text, "asked")
    except InvalidShape:
        return
    assert written(cursor) == text


@given(st.binary(max_size=80))
def test_every_query_is_read_or_refused(query: bytes) -> None:
    """No query raises anything but the error for it."""
    try:
        found = wanted(query)
    except InvalidShape:
        return
    assert 0 <= found.limit <= MAX_LIMIT
