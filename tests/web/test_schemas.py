"""Schemas of hostile and of large documents: what is checked, how far, and at what cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.web.fetching import plain
from tests.web.petstore import ECHO, PETS, answers, discovered, plugin_at
from tests.web.server import ask, serving

from jaato.errors import InvalidArguments, ToolError


def document(schema: Any, **schemas: Any) -> bytes:
    """A document with one operation that takes this body."""
    content = {"application/json": {"schema": schema}}
    paths = {"/p": {"post": {"operationId": "op", "requestBody": {"content": content}}}}
    return json.dumps({"openapi": "3.1.0", "paths": paths, "components": {"schemas": schemas}}).encode()


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def test_a_chain_of_references_costs_little(tmp_path: Path) -> None:
    """Forty thousand references one after the other are refused in a moment, not compiled for seconds."""
    chain: dict[str, Any] = {f"A{at}": {"properties": {"a": ref(f"A{at + 1}")}} for at in range(40_000)}
    with serving(openapi=plain(document(ref("A0"), **chain, A40000={})), p=ECHO) as site:
        plugin = discovered(tmp_path, site)
        with pytest.raises(ToolError, match=r"too large .* http_request"):
            ask(plugin, "call_service", service="pets", operation="op", body={})


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "http://evil.example/", "$ref": "#/components/schemas/Pet"},
        {
            "properties": {
                "kid": {"$ref": "#/components/schemas/Pet"},
                "default": ref("Pet"),
                "$id": ref("Pet"),
            }
        },
        {"allOf": [{"$ref": "#/paths/~1q/schema"}]},
        {"default": {"$ref": "#/nowhere"}, "$ref": "#/components/schemas/Loop"},
    ],
)
def test_references_are_read_from_the_document(tmp_path: Path, schema: dict[str, Any]) -> None:
    """Wherever in it they lead, in a circle too, and whatever base the schema claims; data are no schema."""
    made = json.loads(
        document(schema, Pet={"type": "object"}, Loop={"properties": {"a": ref("Loop")}, "type": "object"})
    )
    made["paths"]["/q"] = {"schema": {"type": "object"}}
    with serving(openapi=plain(json.dumps(made).encode()), p=ECHO) as site:
        plugin = discovered(tmp_path, site)
        found = ask(plugin, "call_service", service="pets", operation="op", body={"kid": {}, "a": {"a": {}}})
        assert found.structured["status"] == 200
        if "properties" in schema:
            for name in ("kid", "default", "$id"):
                with pytest.raises(InvalidArguments, match="object"):
                    ask(plugin, "call_service", service="pets", operation="op", body={name: 5})


def test_variables_of_a_server_do_not_grow(tmp_path: Path) -> None:
    """Values that name each other are put in once; the address never takes the machine's memory."""
    variables = {f"v{at}": {"default": f"{{v{at + 1}}}" * 2} for at in range(24)}
    made = PETS | {"servers": [{"url": "https://api.example/{v0}", "variables": variables}]}
    (tmp_path / "api.json").write_text(json.dumps(made))
    found = ask(plugin_at(tmp_path), "discover_service", source="api.json")
    assert len(found["base_url"]) < 200


def test_an_operation_is_shown_whatever_it_refers_to(tmp_path: Path) -> None:
    """References that lead outside, in a circle or nowhere stay references; long texts are cut."""
    schema = {"properties": {"a": {"$ref": "http://169.254.169.254/x"}, "b": {"$ref": "#/nowhere"}, "c": ref("C"),
                             "d": {"description": "x" * 1_000_000}}}  # fmt: skip
    with serving(openapi=plain(document(schema, C=ref("C")))) as site:
        found = ask(discovered(tmp_path, site), "list_endpoints", service="pets", operation="op")
        shown = found["arguments"]["properties"]["body"]["properties"]
        assert shown["a"] == {"$ref": "http://169.254.169.254/x"}
        assert len(json.dumps(found)) < 10_000


def test_a_key_in_a_cookie_leaves_the_other_cookies(tmp_path: Path) -> None:
    """The session cookie of the caller and the key go together."""
    scheme = {"type": "apiKey", "in": "cookie", "name": "sid"}
    made = PETS | {"components": {**PETS["components"], "securitySchemes": {"key": scheme}}}
    with serving(**answers(made)) as site:
        keys: dict[str, Any] = {"service_keys": [f"K=127.0.0.1:{site.port}"], "environ": {"K": "key"}}
        plugin = discovered(tmp_path, site, **keys)
        call = {"service": "pets", "operation": "listPets", "auth": "K"}
        ask(plugin, "call_service", parameters={"session": "s"}, **call)
        assert site.seen[-1].headers["cookie"] == "session=s; sid=key"


def test_a_path_with_half_a_character_is_encoded(tmp_path: Path) -> None:
    """A document may hold lone surrogates; the request is made all the same."""
    made = document({}).replace(b'"/p"', b'"/p\\ud800"')
    with serving(openapi=plain(made)) as site:
        found = ask(discovered(tmp_path, site), "call_service", service="pets", operation="op", body={})
        assert found.structured["status"] == 404
        assert site.seen[-1].path == "/p%3F"


def test_a_page_about_a_service_is_told_from_its_document(tmp_path: Path) -> None:
    """Whoever gives the address of a documentation page learns where the document often is."""
    page = plain(b"<!doctype html><title>API</title>", "text/html")
    with serving(docs=page) as site, pytest.raises(ToolError, match=r"/openapi\.json"):
        ask(plugin_at(tmp_path), "discover_service", source=f"{site.url}/docs")


def test_a_granted_directory_holds_documents_too(tmp_path: Path) -> None:
    """Without the host's own roots, the directories of the setting count as they do for every plugin."""
    (tmp_path / "work").mkdir()
    (tmp_path / "api.json").write_text(json.dumps(PETS))
    plugin = plugin_at(tmp_path / "work", granted=[str(tmp_path)])
    del plugin.host.services["roots"]  # type: ignore[attr-defined] # the test's own host
    found = ask(plugin, "discover_service", source=str(tmp_path / "api.json"), base_url="https://a.example")
    assert found["operations"] == 5


def test_dots_with_a_parameter_lead_nowhere(tmp_path: Path) -> None:
    """`..;x` is `..` to some servers."""
    with serving(**answers()) as site:
        plugin = discovered(tmp_path, site)
        with pytest.raises(ToolError, match="another endpoint"):
            ask(
                plugin, "call_service", service="pets", operation="removePet", parameters={"id": "..;x/admin"}
            )
        assert len(site.seen) == 1
