"""Where a page ends and the next begins, whatever comes and goes between them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.registry.opened import made

from jaato.protocol.arp import InvalidShape
from jaato.server.registry.catalog import ServedTools
from jaato.server.registry.listing import (
    MAX_KEPT,
    Cursor,
    ToolSearch,
    encode_cursor,
    key_of,
    list_page,
    parse_cursor,
    search_page,
)
from jaato.server.registry.requests import MAX_LIMIT, parse_list_query
from jaato.tools.catalog import Catalog


def question(**given: str) -> Any:
    """What a query asks for."""
    return parse_list_query(urlencode(given).encode())


def after(headers: list[tuple[bytes, bytes]]) -> str:
    """The cursor of the next page; empty after the last."""
    link = dict(headers).get(b"link", b"").decode()
    return link.partition("cursor=")[2].partition(">")[0]


@settings(max_examples=30, deadline=None)
@given(data=st.data(), limit=st.integers(1, 4))
def test_pages_are_stable_when_tools_come_and_go(data: st.DataObject, limit: int) -> None:
    """Whatever comes, goes or is replaced between two pages, every tool that stays is listed once, in its order."""
    shelf = ServedTools(made(f"t{number}") for number in range(8))
    start = set(shelf.tools)
    went: set[str] = set()
    seen: list[str] = []
    cursor = ""
    fresh = 0
    while True:
        given = {"limit": str(limit), **({"cursor": cursor} if cursor else {})}
        page, headers = list_page(shelf, question(**given))
        seen += [view["name"] for view in json.loads(page.body)]
        cursor = after(headers)
        if not cursor:
            break
        for change in data.draw(st.lists(st.sampled_from(["add", "remove", "replace", "again"]), max_size=2)):
            name = data.draw(st.sampled_from(sorted(shelf.tools))) if shelf.tools else "t0"
            if change == "add" and fresh < 8:
                fresh += 1
                shelf = shelf.with_tools([made(f"new{fresh}")])
            elif change == "replace":
                shelf = shelf.with_tools([made(name, "2.0.0")])
            elif change != "add":
                went.add(name)
                shelf = shelf.without(name)
                if change == "again" and fresh < 8:
                    fresh += 1
                    shelf = shelf.with_tools([made(name)])
    stayed = sorted(start - went)
    assert [name for name in seen if name in stayed] == stayed
    assert len([name for name in seen if name not in went]) == len(
        {name for name in seen if name not in went}
    )


def test_the_list_goes_on_after_a_restart() -> None:
    """A cursor of an earlier process goes on after its tool wherever that is now, or else where it was."""
    old = Cursor(1, key_of("b"), "0" * 12)
    given = question(limit="2", cursor=encode_cursor(old))

    def listed(*tools: str) -> list[str]:
        page, _ = list_page(ServedTools(made(name) for name in tools), given)
        return [view["name"] for view in json.loads(page.body)]

    assert listed("a", "b", "c", "d") == ["c", "d"]
    assert listed("a", "x", "y", "b", "c", "d") == ["c", "d"]
    assert listed("a", "c", "d", "e") == ["d", "e"]
    assert listed("a") == []


def test_what_was_found_stays_so_while_it_is_read() -> None:
    """The pages of a search are of one ranking, less what has gone; when that is no longer kept, it goes on after its tool."""
    finder = ToolSearch(Catalog())
    shelf = ServedTools(made(f"pear_{number}", text=f"Count pears, way {number}.") for number in range(12))

    def found(cursor: str = "") -> tuple[list[str], str]:
        given = {"q": "count pears", "limit": "4", **({"cursor": cursor} if cursor else {})}
        page, headers = search_page(shelf, shelf, finder, question(**given))
        return [view["name"] for view in json.loads(page.body)], after(headers)

    first, cursor = found()
    whole = list(finder.rank(shelf.tools, "count pears"))
    shelf = (
        shelf.without(whole[5])
        .without(first[0])
        .with_tools([made("pear_new", text="Count pears, count pears.")])
    )
    second, next_cursor = found(cursor)
    assert first + second == [*whole[:5], *whole[6:9]]
    third, last = found(next_cursor)
    assert (third, last) == (whole[9:], "")
    for number in range(MAX_KEPT):
        finder.store_ranking("", (str(number),))
    assert finder.stored_ranking("count pears", parse_cursor(next_cursor).since) is None
    later, _ = found(next_cursor)
    now = list(finder.rank(shelf.tools, "count pears"))
    assert later == now[now.index(second[-1]) + 1 :][:4]


def test_a_name_that_is_another_tools_alias_is_searched_for_all_the_same() -> None:
    """The names on a shelf are all different; what else tools are called by keeps none of them from being found."""
    finder = ToolSearch(Catalog())
    tools = [
        made("one", text="Fold paper."),
        made("two", text="Fold cloth."),
        made("three", text="Fold tin."),
    ]
    tools[0].aliases = tools[1].aliases = {"three": {}, "four": {}}
    tools[2].fallback = "two"
    shelf = ServedTools(tools)
    assert set(finder.rank(shelf.tools, "fold")) == {"one", "two", "three"}
    assert [tool.name for tool in shelf] == ["one", "two", "three"]
    assert finder.rank(shelf.without("one").tools, "fold paper")[0] != "one"


@given(st.text(max_size=60) | st.from_regex(r"[0-9]{1,16}\.[0-9a-f]{11,13}\.[0-9a-fA-F]{12}\n?"))
def test_no_text_but_a_cursor_is_one(text: str) -> None:
    """Reading gives back what was written, and refuses everything else with the error for it."""
    try:
        cursor = parse_cursor(text)
    except InvalidShape:
        return
    assert encode_cursor(cursor) == text


@given(st.binary(max_size=80))
def test_every_query_is_read_or_refused(query: bytes) -> None:
    """No query raises anything but the error for it."""
    try:
        found = parse_list_query(query)
    except InvalidShape:
        return
    assert 0 <= found.limit <= MAX_LIMIT
