"""Ranked search over tools."""

from __future__ import annotations

from typing import Any

import pytest
from bench.discovery import DATA, Naive, judge, load
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.protocol.specs import ToolSpec
from jaato.tools.search.bm25 import Bm25Index
from jaato.tools.search.tokenizer import stem, terms


def spec(name: str, description: str = "", category: str = "uncategorized", **parameters: str) -> ToolSpec:
    """A tool with described parameters."""
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return ToolSpec(name, description, {"type": "object", "properties": properties}, category)


def index_of(*tools: ToolSpec) -> Bm25Index:
    """An index over these tools."""
    index = Bm25Index()
    index.update(tools)
    return index


def names(index: Bm25Index, query: str, limit: int = 10) -> list[str]:
    """What a query finds, best first."""
    return [name for name, _ in index.search(query, limit)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("readFile", ["read", "fil", "readfil"]), ("parse_HTTPResponse2xx", ["pars", "http", "respons", "2", "xx"]),
        ("The files are being updated", ["fil", "updat"]), ("Café", ["caf"]),
        ("", []), ("a I the", []),
    ],
)  # fmt: skip
def test_terms(text: str, found: list[str]) -> None:
    """Identifiers fall into their words, stop words go, words are stemmed, accents are folded."""
    assert set(found) <= set(terms(text))
    assert bool(found) == bool(terms(text))


@pytest.mark.parametrize(
    "family",
    ["calculate calculation calculator calculates calculating", "convert converts converter converting converted",
     "translate translation translator", "query queries", "category categories", "delete deletes deleted deleting",
     "file files", "analyze analysis analyse", "organize organise", "notify notification", "pay payment paid",
     "summarize summary", "box boxes", "address addresses", "stop stopped stopping", "country countries"],
)  # fmt: skip
def test_a_family_of_words_shares_its_stem(family: str) -> None:
    """Forms of one word are one term."""
    assert len({stem(word) for word in family.split()}) == 1


@pytest.mark.parametrize(
    "pair", ["news new", "status state", "file fill", "user use", "number numb3r", "bus buy"]
)
def test_different_words_stay_apart(pair: str) -> None:
    """Words that merely look alike are different terms."""
    one, other = pair.split()
    assert stem(one) != stem(other)


@given(st.text(max_size=200))
def test_any_text_has_terms(text: str) -> None:
    """No text breaks the words, and a query of any text is answered."""
    assert all(terms(text))
    index_of(spec("readFile", text)).search(text)


@pytest.mark.spec("C1", "Results of the two introspection tools")
def test_ranking() -> None:
    """The name counts most, then the description, the category, and the parameters."""
    index = index_of(
        spec("zip_folder", "Make it small."),
        spec("second", "Makes a zip of something."),
        spec("other", "Something else.", category="zip"),
        spec("last", "Not this.", archive="the zip to read"),
        spec("unrelated", "Nothing of the kind."),
    )
    assert names(index, "zip")[0] == "zip_folder"
    assert set(names(index, "zip")) == {"zip_folder", "second", "other", "last"}
    scores = [score for _, score in index.search("zip")]
    assert scores == sorted(scores, reverse=True)


def test_spellings_meet() -> None:
    """camelCase, snake_case, joined and separate words find each other."""
    index = index_of(spec("readFile"), spec("list_directory"), spec("web_hook_send"), spec("getHTTPStatus"))
    assert names(index, "read a file")[0] == "readFile"
    assert names(index, "readfile")[0] == "readFile"
    assert names(index, "LIST DIRECTORIES")[0] == "list_directory"
    assert names(index, "http status")[0] == "getHTTPStatus"


def test_near_words_find_what_is_called_otherwise() -> None:
    """A request in other words finds the tool: `erase` finds `delete`, and the asked word itself ranks first."""
    index = index_of(spec("delete_note"), spec("make_note"), spec("erase_disk"))
    assert names(index, "erase the note")[0] in ("delete_note", "erase_disk")
    assert "delete_note" in names(index_of(spec("delete_note"), spec("open_door")), "erase")
    assert names(index_of(spec("nearbyParking"), spec("stock_quote")), "where can I leave my car") == [
        "nearbyParking"
    ]


def test_every_step_finds_its_tool() -> None:
    """A request of several steps has the tool of each among the first."""
    noise = [spec(f"send_report_{at}", "Send the report to the customer by mail.") for at in range(20)]
    index = index_of(*noise, spec("resize_image", "Resize a picture."), spec("restart_service"))
    best = names(
        index, "Send the report to the customer by mail. Then restart the service, and resize the image.", 4
    )
    assert {"restart_service", "resize_image"} <= set(best)


def test_an_exact_name_comes_first() -> None:
    """A query that is a tool's name has that tool first, whatever else matches."""
    index = index_of(spec("run"), spec("run_fast", "run run run"), spec("the"))
    assert names(index, "run")[0] == "run"
    assert names(index, " the ") == ["the"]


def test_nothing_is_found_where_nothing_fits() -> None:
    """Unknown words, an empty query and a limit of none give an empty list."""
    index = index_of(spec("readFile"))
    assert index.search("xylophone") == []
    assert index.search("") == []
    assert index.search("read", 0) == []
    assert Bm25Index().search("read") == []


def test_ties_are_settled_by_name() -> None:
    """Equal scores come in the order of the names, so that paging is stable."""
    index = index_of(*(spec(f"{letter}_zip") for letter in "dbca"))
    assert names(index, "zip") == ["a_zip", "b_zip", "c_zip", "d_zip"]
    assert names(index, "zip", 2) == ["a_zip", "b_zip"]


TOOL = st.builds(
    spec,
    st.sampled_from(["readFile", "write_file", "zip", "send_mail", "a", "grep-content"]),
    st.sampled_from(["", "Read a file.", "Send mail to people.", "the of", "日本語 の ツール"]),
    st.sampled_from(["filesystem", "mail"]),
)
QUERY = "read files, send mail, zip 日本語"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(TOOL, max_size=6, unique_by=lambda tool: tool.name), min_size=1, max_size=5))
def test_updates_leave_no_trace(versions: list[list[ToolSpec]]) -> None:
    """However an index came to its tools, it answers as one made of them afresh."""
    index = Bm25Index()
    for tools in versions:
        index.update(tools)
    assert len(index) == len(versions[-1])
    assert sorted(index.search(QUERY)) == sorted(index_of(*versions[-1]).search(QUERY))


def test_a_changed_tool_is_read_again() -> None:
    """A new description, category or parameter counts; an equal tool does not."""
    index = index_of(spec("x", "old words"))
    index.update([spec("x", "new zebra")])
    assert names(index, "zebra") == ["x"]
    assert names(index, "old") == []
    index.update([])
    assert names(index, "zebra") == []


def nested(depth: int) -> dict[str, Any]:
    """A schema that nests that deep."""
    schema: dict[str, Any] = {"properties": {"needle": {"description": "deep"}}}
    for _ in range(depth):
        schema = {"properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(
    "parameters",
    [nested(5000), {"properties": []}, {"properties": {"a": None, "b": {"description": 5}}}, {"properties": {"\ud800": {}}},
     {"properties": {f"p{at}": {"description": "word " * 50} for at in range(5000)}}, {"items": {"properties": 3}}],
    ids=["deep", "list", "odd", "surrogate", "wide", "items"],
)  # fmt: skip
def test_strange_schemas_are_indexed(parameters: dict[str, Any]) -> None:
    """Schemas from strangers, deep, wide, wrong or unwritable, neither fail nor cost without bound."""
    index = Bm25Index()
    tools = [ToolSpec("odd", "An odd tool.", parameters)]
    index.update(tools)
    index.update(tools)
    assert names(index, "odd") == ["odd"]


def test_a_query_of_a_megabyte_is_answered() -> None:
    """Only the beginning of an absurd query is read."""
    index = index_of(spec("readFile"))
    assert names(index, "read " * 200_000) == ["readFile"]


def test_other_scripts() -> None:
    """A description in a language without spaces is found by a part of it."""
    index = index_of(spec("a", "画像のサイズを変更する"), spec("b", "メールを送信する"))
    assert names(index, "画像を変更")[0] == "a"


def test_recall_is_better_than_naive() -> None:
    """On the committed requests the index finds more than a plain BM25, and most of it in the first five."""
    tools, queries = load(DATA)
    index = index_of(*tools)
    ours = judge(queries, lambda query, limit: names(index, query, limit))["all"]
    naive = judge(queries, Naive(tools).search)["all"]
    assert ours["recall@5"] > naive["recall@5"]
    assert ours["recall@5"] >= 0.85


def test_a_score_says_how_sure_it_is() -> None:
    """Scores go from 0 to 1, and a good match is as sure in a request of several steps as alone."""
    index = index_of(
        *(spec(f"other_{n}", f"Does thing {n}.") for n in range(200)),
        spec("send_mail", "Send a mail to somebody."),
        spec("resize_image", "Resize a picture."),
    )
    alone = index.search("send a mail")[0][1]
    steps = index.search("send a mail and then resize the picture")[0][1]
    stray = index.search("somebody sat on a wall with a hat")[0][1]
    assert 0.0 < stray < 0.5 < alone < 1.0
    assert 0.5 < steps < 1.0
    assert index.search("send_mail")[0] == ("send_mail", 1.0)


def test_strange_names_are_found() -> None:
    """Names with line breaks, other scripts and lone surrogates, and texts without a word, are indexed like others."""
    index = index_of(spec("a\nb 1 2\n", "Zebra."), spec("", ""), spec("x\ud800", "Surrogate \ud800 giraffe."))
    assert names(index, "zebra") == ["a\nb 1 2\n"]
    assert names(index, "giraffe") == ["x\ud800"]
