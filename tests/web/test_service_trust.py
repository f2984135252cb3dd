"""Keys, documents and addresses of services: what is sent where, and what a hostile document can do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.web.petstore import ECHO, PETS, answers, discovered, plugin_at
from tests.web.server import Answer, ask, serving, text

from jaato.errors import ToolError
from jaato.tools.tool import tools_of


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
        (b"- " * 50_000 + b"x", r"memory|no YAML|too deep"),
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
