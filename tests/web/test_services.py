"""HTTP services by their OpenAPI documents: found, listed, called, and unable to reach beyond themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.server import Answer, Host, Site, ask, serving, text

from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.web.calling import path_of, segment
from jaato.plugins.web.services import ServicesPlugin
from jaato.tools.tool import tools_of

PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pet Store"},
    "servers": [{"url": "/v1"}],
    "security": [{"key": []}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "List all pets",
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "ids", "in": "query", "explode": False, "schema": {"type": "array", "items": {"type": "integer"}}},
                    {"name": "where", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "addPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            },
        },
        "/pets/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {"summary": "One pet"},
            "delete": {"operationId": "removePet"},
        },
        "/odd/{a}.{b}": {
            "get": {
                "operationId": "odd",
                "parameters": [
                    {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in "ab"
                ],
            }
        },
    },
    "components": {
        "parameters": {"id": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}},
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "age": {"type": "integer", "nullable": True},
                    "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                },
            }
        },
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    },
}  # fmt: skip
ECHO = Answer(200, {"Content-Type": "application/json"}, b'{"ok": true}')


def answers(document: Any = PETS) -> dict[str, Answer]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return {"openapi": Answer(200, {}, body), "v1_pets": ECHO}


def plugin_at(tmp_path: Path, *, environ: dict[str, str] | None = None, **config: Any) -> ServicesPlugin:
    return ServicesPlugin(Host(tmp_path, environ=environ, **({"allow_hosts": ["127.0.0.1"]} | config)))


def discovered(tmp_path: Path, site: Site, **more: Any) -> ServicesPlugin:
    plugin = plugin_at(tmp_path, **more)
    ask(plugin, "discover_service", source=f"{site.url}/openapi", name="pets")
    return plugin


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


def test_a_key_goes_only_where_the_user_granted_it(tmp_path: Path) -> None:
    """Named by its variable, granted for this very host, in the place the document says; never without."""
    environ = {"PETS_KEY": "canary", "OTHER_KEY": "other-canary"}
    with serving(**answers()) as site:
        place = f"127.0.0.1:{site.port}"
        plugin = discovered(
            tmp_path, site, environ=environ, service_keys=[f"PETS_KEY={place}", "OTHER_KEY=api.example"]
        )
        call = {"service": "pets", "operation": "listPets"}
        ask(plugin, "call_service", **call)
        assert "canary" not in json.dumps(site.seen[-1].headers)
        output = ask(plugin, "call_service", auth="PETS_KEY", **call)
        assert site.seen[-1].headers["x-key"] == "canary"
        assert "canary" not in text(output)
        for variable in ("OTHER_KEY", "HOME", "PATH"):
            with pytest.raises(ToolError, match="service_keys"):
                ask(plugin, "call_service", auth=variable, **call)
        plugin = discovered(tmp_path, site, environ=environ, service_keys=["PETS_KEY=127.0.0.1"])
        with pytest.raises(ToolError, match="not https"):
            ask(plugin, "call_service", auth="PETS_KEY", **call)
        assert not any("other-canary" in json.dumps(seen.headers) for seen in site.seen)


def test_a_key_does_not_follow_a_document_or_a_redirect_elsewhere(tmp_path: Path) -> None:
    """A document of one host that names another's service gets no key for it, and a redirect takes none along."""
    with serving(v1_pets=ECHO, index=ECHO) as other:
        elsewhere = PETS | {"servers": [{"url": f"http://localhost:{other.port}/v1"}]}
        redirecting = answers() | {"v1_pets": Answer(302, {"Location": other.url})}
        keys = {"service_keys": [f"K=localhost:{other.port}"], "environ": {"K": "canary"}}
        with serving(**answers(elsewhere)) as site:
            plugin = discovered(tmp_path, site, **keys)
            with pytest.raises(ToolError, match="same host"):
                ask(plugin, "call_service", service="pets", operation="listPets", auth="K")
        with serving(**redirecting) as site:
            keys["service_keys"] = [f"K=127.0.0.1:{site.port}"]
            plugin = discovered(tmp_path, site, **keys)
            ask(plugin, "call_service", service="pets", operation="listPets", auth="K")
            assert site.seen[-1].headers["x-key"] == "canary"
        assert not any("canary" in json.dumps(seen.headers) for seen in other.seen)


def test_where_a_key_belongs_is_what_the_document_says(tmp_path: Path) -> None:
    """Query, cookie, basic and bearer; a header of the connection is no place for it."""
    for scheme, expected in (
        ({"type": "apiKey", "in": "query", "name": "api key"}, ("path", "/v1/pets?api%20key=k%3Av")),
        ({"type": "apiKey", "in": "cookie", "name": "sid"}, ("cookie", "sid=k%3Av")),
        ({"type": "http", "scheme": "basic"}, ("authorization", "Basic azp2")),
        ({"type": "http", "scheme": "bearer"}, ("authorization", "Bearer k:v")),
        ({"type": "apiKey", "in": "header", "name": "Host"}, None),
        ({"type": "apiKey", "in": "header", "name": "A\r\nB"}, None),
    ):
        document = PETS | {"components": {**PETS["components"], "securitySchemes": {"key": scheme}}}
        with serving(**answers(document)) as site:
            keys = {"service_keys": [f"K=127.0.0.1:{site.port}"], "environ": {"K": "k:v"}}
            plugin = discovered(tmp_path, site, **keys)
            call = {"service": "pets", "operation": "listPets", "auth": "K"}
            if expected is None:
                with pytest.raises(ToolError, match="cannot be sent"):
                    ask(plugin, "call_service", **call)
                continue
            output = ask(plugin, "call_service", **call)
            seen = site.seen[-1]
            assert ({"path": seen.path} | seen.headers)[expected[0]] == expected[1]
            assert "k%3Av" not in text(output)


YAML = b"""
openapi: 3.1.0
info: {title: Dated, version: 2026-01-01}
servers: [{url: "https://{region}.api.example/base/", variables: {region: {default: eu}}}]
paths:
  /on/{day}:
    get:
      parameters: [{name: day, in: path, required: true, schema: {type: string, format: date}}]
"""


def test_a_document_in_yaml_from_the_workspace(tmp_path: Path) -> None:
    """A file beneath the workspace is read, dates stay text; one outside is refused, and one without a place asks for it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "api.yaml").write_bytes(YAML)
    (tmp_path / "work" / "here.yaml").write_bytes(YAML.replace(b"https://{region}.api.example", b""))
    (tmp_path / "secret.yaml").write_bytes(YAML)
    plugin = plugin_at(tmp_path / "work")
    found = ask(plugin, "discover_service", source="api.yaml")
    assert (found["service"], found["base_url"]) == ("dated", "https://eu.api.example/base")
    with pytest.raises(ToolError, match="outside"):
        ask(plugin, "discover_service", source="../secret.yaml")
    with pytest.raises(ToolError, match="base_url"):
        ask(plugin, "discover_service", source="here.yaml")
    found = ask(plugin, "discover_service", source="here.yaml", base_url="https://x.example")
    assert found["base_url"] == "https://x.example"


LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (n + 1, n + 1, *[n] * 9)
    for n in range(ord("a"), ord("k"))
)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"", "no OpenAPI document"),
        (b"{", "no JSON"),
        (b"a: [", "no YAML"),
        (b"- a", "no OpenAPI document"),
        (b'{"swagger": "2.0"}', r"OpenAPI 2\.0"),
        (b'{"openapi": "3.0.0"}', "no operations"),
        (b'{"openapi": "3.0.0", "paths": []}', "no OpenAPI document"),
        (b'{"openapi": "3.0.0", "paths": {"/a": {"$ref": "http://evil.example/"}}}', "outside the document"),
        (b'{"openapi": "3.0.0", "paths": {"/a": {"$ref": "#/paths/~1a"}}}', "circle"),
        (b'{"openapi": "3.0.0", "paths": {"/a": {"$ref": "#/nowhere"}}}', "not there"),
        (b'{"a":' * 100_000, "no JSON"),
        (b"- " * 50_000 + b"x", r"too large|no YAML|too deep"),
        (LAUGHS, r"unfolds|too large|too deep"),
        (b"!!python/object/apply:os.system [touch x]", "no YAML"),
        (b'{"openapi": "3.0.0", "servers": [{"url": "http://10.0.0.1:80:80/"}], "paths": {"/a": {"get": {}}}}', "host"),
    ],
)  # fmt: skip
def test_a_hostile_document_is_an_error(tmp_path: Path, document: bytes, words: str) -> None:
    """Wrong, broken, endless, and out to run something: each is told, and nothing else happens."""
    (tmp_path / "api").write_bytes(document)
    with pytest.raises(ToolError, match=words):
        ask(
            plugin_at(tmp_path),
            "discover_service",
            source="api",
            base_url=None if b"servers" in document else "https://a.example",
        )


def test_a_service_at_a_private_address_is_refused(tmp_path: Path) -> None:
    """A document cannot lead to where the user allowed nothing."""
    document = PETS | {"servers": [{"url": "http://169.254.169.254/latest"}]}
    with serving(**answers(document)) as site:
        plugin = discovered(tmp_path, site)
        with pytest.raises(ToolError, match="cloud keeps its secrets"):
            ask(plugin, "call_service", service="pets", operation="listPets")


def test_services_belong_to_their_session(tmp_path: Path) -> None:
    """Another session does not know them; a session keeps twenty."""
    with serving(**answers()) as site:
        plugin = discovered(tmp_path, site)
        with pytest.raises(ToolError, match="discover_service first"):
            ask(plugin, "list_endpoints", session_id="other", service="pets")
        for number in range(19):
            ask(plugin, "discover_service", source=f"{site.url}/openapi", name=f"s{number}")
        with pytest.raises(ToolError, match="20 services"):
            ask(plugin, "discover_service", source=f"{site.url}/openapi", name="one-more")
        with pytest.raises(ToolError, match="no name"):
            ask(plugin, "discover_service", source=f"{site.url}/openapi", name="a/b")


def test_a_broken_schema_and_a_deep_one(tmp_path: Path) -> None:
    """A schema that is none is said to be broken; one that refers to itself is shown as far as there is room."""
    broken = json.loads(json.dumps(PETS))
    broken["paths"]["/pets"]["get"]["parameters"][0]["schema"] = {"type": "no such type"}
    with serving(**answers(broken)) as site:
        plugin = discovered(tmp_path, site)
        with pytest.raises(ToolError, match="broken"):
            ask(plugin, "call_service", service="pets", operation="listPets", parameters={"limit": 1})
        assert len(json.dumps(ask(plugin, "list_endpoints", service="pets", operation="addPet"))) < 100_000


def test_the_tools_say_what_they_touch(tmp_path: Path) -> None:
    """Discovery and calls ask, the list reads; all are discoverable and described in forty words."""
    tools = {tool.name: tool for tool in tools_of(plugin_at(tmp_path), "services")}
    assert {name: tool.spec.access for name, tool in tools.items()} == {
        "discover_service": "network", "list_endpoints": "read", "call_service": "network",
    }  # fmt: skip
    for tool in tools.values():
        assert (tool.spec.category, tool.spec.discoverability) == ("web", "discoverable")
        assert 5 < len(tool.spec.description.split()) <= 40
