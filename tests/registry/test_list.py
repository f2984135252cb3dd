"""The list by pages, by tags and by what is search_tools for."""

from __future__ import annotations

import gzip
import json
import re
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.registry.opened import Opened, during, made

from jaato.server.registry.listing import DEFAULT_SEARCH_LIMIT
from jaato.server.registry.requests import MAX_TAG_CHARS, MAX_TAGS, MAX_TEXT_CHARS
from jaato.testing.arp.peer import Reply, Served, refuses

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
        assert len(names(pears)) == DEFAULT_SEARCH_LIMIT
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
    "&".join(["tag=money"] * (MAX_TAGS + 1)),
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
    of another question is a place in the order all the same."""

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
        assert names(at.send("GET", f"/v1/tools?tag=money&cursor={cursor}")) == list(TEXTS)[2:5]
        assert set(names(at.send("GET", f"/v1/tools?q=mail&cursor={cursor}"))) < set(TEXTS)
        assert names(at.send("GET", f"/v1/tools?cursor=999999999999999.{'0' * 12}.{'0' * 12}")) == []
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
