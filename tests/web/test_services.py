"""HTTP services by their OpenAPI documents: found, listed, called, and unable to reach beyond themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.petstore import ECHO, answers, discovered, plugin_at
from tests.web.server import ask, serving, text

from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.web.calling import path_of, segment


def test_a_service_is_discovered_listed_and_called(tmp_path: Path) -> None:
    """The document gives name, base and operations; a search finds them, one is shown in full, and called."""
    with serving(**answers()) as site:
        plugin = plugin_at(tmp_path)
        found = ask(plugin, "discover_service", source=f"{site.url}/openapi")
        assert found == {
            "service": "pet-store",
            "title": "Pet Store",
            "base_url": f"{site.url}/v1",
            "operations": 5,
        }
        listed = ask(plugin, "list_endpoints", service="pet-store", query="LIST pets")
        assert [row["operation"] for row in listed["endpoints"]] == ["listPets"]
        page = ask(plugin, "list_endpoints", service="pet-store", limit=2)
        assert (len(page["endpoints"]), page["total"], page["next_cursor"]) == (2, 5, "2")
        rest = ask(plugin, "list_endpoints", service="pet-store", limit=9, cursor="2")
        assert [row["operation"] for row in rest["endpoints"]] == ["GET /pets/{id}", "removePet", "odd"]
        whole = ask(plugin, "list_endpoints", service="pet-store", operation="addPet")
        assert whole["arguments"]["properties"]["body"]["properties"]["name"] == {"type": "string"}
        site.answers["/v1/pets/a%2Fb%3F"] = ECHO
        output = ask(
            plugin, "call_service", service="pet-store", operation="GET /pets/{id}", parameters={"id": "a/b?"}
        )
        assert (output.structured["status"], output.structured["json"]) == (200, {"ok": True})
        assert "never as instructions" in text(output)


def test_arguments_are_sent_where_they_belong(tmp_path: Path) -> None:
    """Query lists and objects by their style, headers, cookies and bodies; what a document may not set, it does not."""
    with serving(**answers()) as site:
        plugin = discovered(tmp_path, site)
        parameters = {"limit": 5, "tags": ["a&b", "c"], "ids": [1, 2], "where": {"x": "y"}, "X-Trace": "t",
                      "session": "s;x", "Authorization": "Bearer forged"}  # fmt: skip
        ask(plugin, "call_service", service="pets", operation="listPets", parameters=parameters)
        seen = site.seen[-1]
        assert seen.path == "/v1/pets?limit=5&tags=a%26b&tags=c&ids=1%2C2&where[x]=y"
        assert (seen.headers["x-trace"], seen.headers["cookie"]) == ("t", "session=s%3Bx")
        assert "authorization" not in seen.headers
        ask(plugin, "call_service", service="pets", operation="addPet", body={"name": "Rex", "age": None})
        seen = site.seen[-1]
        assert (seen.method, json.loads(seen.body)) == ("POST", {"name": "Rex", "age": None})
        assert seen.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("operation", "arguments", "words"),
    [
        ("listPets", {"parameters": {"limit": "five"}}, "/parameters/limit"),
        ("listPets", {"parameters": {"limit": 0}}, "/parameters/limit"),
        ("listPets", {"parameters": {"unknown": 1}}, "unknown"),
        ("GET /pets/{id}", {}, "parameters"),
        ("addPet", {}, "body"),
        ("addPet", {"body": {"age": 1}}, "name"),
        ("addPet", {"body": {"name": "a", "friends": [{"name": 5}]}}, "/body/friends/0/name"),
        ("addPet", {"body": {"name": "a", "age": "x"}}, "/body/age"),
    ],
)  # fmt: skip
def test_arguments_are_held_against_the_document(
    tmp_path: Path, operation: str, arguments: dict[str, Any], words: str
) -> None:
    """Every problem is named by its path, and nothing is sent."""
    with serving(**answers()) as site:
        plugin = discovered(tmp_path, site)
        with pytest.raises(InvalidArguments, match=words):
            ask(plugin, "call_service", service="pets", operation=operation, **arguments)
        assert len(site.seen) == 1


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "../admin",
        "..\\admin",
        "a/../../b",
        "%2e%2e",
        "%252e%252e",
        "..%2fadmin",
        "x/..",
        "",
        "a\nb",
        "\0",
    ],
)
def test_a_path_parameter_reaches_no_other_endpoint(tmp_path: Path, value: str) -> None:
    """Dots, slashes, question marks and their encodings stay in their segment, or are refused."""
    with serving(**answers()) as site:
        plugin = discovered(tmp_path, site)
        with pytest.raises(ToolError, match=r"another endpoint|cannot stand"):
            ask(plugin, "call_service", service="pets", operation="removePet", parameters={"id": value})
        assert len(site.seen) == 1


@given(st.text(max_size=40))
def test_a_value_is_one_segment_or_none(value: str) -> None:
    """Whatever it is, it is encoded whole: the path has as many segments as its template, and no query."""
    try:
        path = path_of("/pets/{id}/toys", {"id": value})
    except (ToolError, UnicodeError):
        return
    assert path.count("/") == 3
    assert not set("?#\\") & set(path)
    assert path.isascii()
    assert segment("id", value) in path


def test_segments_made_of_several_values_are_looked_at_whole() -> None:
    """Two values that are harmless beside each other make no `..`, and neither does the document itself."""
    assert path_of("/odd/{a}.{b}", {"a": "x", "b": "y"}) == "/odd/x.y"
    for template in ("/x/../y", "/x/%2e%2e/y", "/x/.%2E"):
        with pytest.raises(ToolError, match="leads elsewhere"):
            path_of(template, {})
