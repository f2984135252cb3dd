"""Several versions of one tool, side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.opened import Opened, during, made

from jaato.errors import ConfigError
from jaato.runtime.domains import load_domains
from jaato.server.registry.catalog import ServedTools
from jaato.testing.arp.peer import fails, refuses, result_of

ORDER = (
    "zzz",
    "v2.0.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.9",
    "1.0.10",
    "1.10.0",
    "2.0.0-0",
    "2.0.0",
)
"""The oldest first; the two that are no semantic versions as they are registered below."""

DOMAIN = '''
from jaato.tools.tool import tool, tool_from

@tool(name="greet", access="write", version="2.0.0", tags=("new",))
def second(name: str, loud: bool = False) -> str:
    """Greet somebody, loudly or not."""
    return f"HELLO {name}" if loud else f"hello {name}"

@tool(name="greet", access="write", version="1.0.0")
def first(who: str) -> str:
    """Greet."""
    return f"hi {who}"

def load_tools():
    return [tool_from(second), tool_from(first)]
'''


def versions(shelf: ServedTools, name: str) -> list[str]:
    """Which versions of a tool there are, the newest first."""
    slot = shelf.slot(name)
    return [] if slot is None else slot.names


@pytest.mark.parametrize("reverse", [False, True])
def test_the_newest_is_by_semantic_versions_then_by_registration(reverse: bool) -> None:
    """However they are registered, versions are ordered as semver.org has it, above those that are none."""
    semantic = list(ORDER[2:])
    given = ["zzz", "v2.0.0", *(reversed(semantic) if reverse else semantic)]
    shelf = ServedTools(made("t", version) for version in given)
    assert versions(shelf, "t") == list(reversed(ORDER))
    assert shelf.tools["t"].version == "2.0.0"
    assert versions(ServedTools([made("t", "b"), made("t", "a")]), "t") == ["a", "b"]
    assert ServedTools([made("t", "1.0.0+b"), made("t", "1.0.0+a")]).tools["t"].version == "1.0.0+a"
    assert ServedTools([made("t", "9" * 5_000 + ".0.0"), made("t", "1.0.0")]).tools["t"].version == "1.0.0"


def test_an_exchange_leaves_everything_else_as_it_is_encoded() -> None:
    """A tool that comes or goes makes another shelf, which shares the definitions of all others and their places."""
    first = ServedTools([made("a"), made("b", "1.0.0"), made("c")])
    pages = {name: first.definition(name) for name in first.tools}
    second = first.with_tools([made("b", "2.0.0", text="Another.")])
    assert [second.definition(name) is page for name, page in pages.items()] == [True, False, True]
    assert second.definition("b", "1.0.0") is pages["b"]
    assert (list(second.tools), versions(second, "b"), versions(first, "b")) == (
        ["a", "b", "c"],
        ["2.0.0", "1.0.0"],
        ["1.0.0"],
    )
    assert second.views.etag != first.views.etag
    assert second.without("b", "2.0.0").definition("b") is pages["b"]
    assert list(second.without("b").tools) == ["a", "c"]
    assert second.without("nothing") is second
    assert second.without("b", "9.9.9") is second
    same = second.with_tools([made("b", "2.0.0", text="Put again.")])
    assert versions(same, "b") == ["2.0.0", "1.0.0"]
    assert same.tools["b"].spec.description == "Put again."
    assert len(list(same)) == 4


def test_a_version_is_asked_for_by_its_name(tmp_path: Path) -> None:
    """The list has each name once, as its newest version; `?version=` gets and calls another, and one that is not there
    is told which are."""
    domain = tmp_path / "greeting.py"
    domain.write_text(DOMAIN)

    def body(one: Opened) -> None:
        at = one.at
        views = at.send("GET", "/v1/tools").json
        assert [view["name"] for view in views] == ["echo", "calc", "time_now", "greet"]
        assert views[3]["description"] == "Greet somebody, loudly or not."
        newest, old = (at.send("GET", f"/v1/tools/greet{query}") for query in ("", "?version=1.0.0"))
        assert (newest.json["version"], newest.json["tags"]) == ("2.0.0", ["new"])
        assert (old.json["version"], list(old.json["parameters"]["properties"])) == ("1.0.0", ["who"])
        assert at.send("GET", "/v1/tools/greet?version=2.0.0").headers["etag"] == newest.headers["etag"]
        assert at.send("GET", "/v1/tools/greet?other=1&version=1%2E0.0").json == old.json

        told = at.invoke("greet", {"args": {"name": "you", "loud": True}})
        assert result_of(told, 200)["result"] == "HELLO you"
        told = at.send("POST", "/v1/tools/greet:invoke?version=1.0.0", {"args": {"who": "you"}})
        assert result_of(told, 200)["result"] == "hi you"
        wrong = at.send("POST", "/v1/tools/greet:invoke?version=1.0.0", {"args": {"name": "you"}})
        issues = fails(wrong, 400, "tool.invalid_args")["details"]["issues"]
        assert {issue["path"] for issue in issues} == {"/who", "/name"}

        missing = at.send("GET", "/v1/tools/greet?version=3.0.0")
        refuses(missing, 404, "tool.not_found")
        assert missing.json["error"]["details"] == {"versions": ["2.0.0", "1.0.0"], "tool_name": "greet"}
        missing = at.send("POST", "/v1/tools/greet:invoke?version=3.0.0", {"args": {}})
        assert fails(missing, 404, "tool.not_found")["details"] == {
            "versions": ["2.0.0", "1.0.0"],
            "tool_name": "greet",
        }
        refuses(at.send("GET", "/v1/tools/nothing?version=1.0.0"), 404, "tool.not_found")
        for query in ("version=", "version=1.0.0&version=2.0.0", "version=%ff", "&".join(["a=b"] * 101)):
            refuses(at.send("GET", f"/v1/tools/greet?{query}"), 400, "request.invalid_shape")
            fails(
                at.send("POST", f"/v1/tools/greet:invoke?{query}", {"args": {}}), 400, "request.invalid_shape"
            )

        one.put(made("greet", "3.0.0", says="from three"))
        assert at.send("GET", "/v1/tools/greet").json["version"] == "3.0.0"
        one.take("greet")
        refuses(at.send("GET", "/v1/tools/greet"), 404, "tool.not_found")

    during(tmp_path, body, domains=["core", str(domain)])


def test_a_rule_is_for_every_version(tmp_path: Path) -> None:
    """What denies a tool by its name denies each of its versions, and so does reading only."""
    domain = tmp_path / "greeting.py"
    domain.write_text(DOMAIN)

    def body(one: Opened) -> None:
        for query in ("", "?version=1.0.0", "?version=2.0.0"):
            arguments = {"who": "you"} if "1.0" in query else {"name": "you"}
            called = one.at.send("POST", f"/v1/tools/greet:invoke{query}", {"args": arguments})
            fails(called, 403, "permission.denied")

    during(tmp_path, body, domains=[str(domain)], deny=("greet",))
    during(tmp_path, body, domains=[str(domain)], read_only=True)


def test_domains_may_share_a_name_and_not_a_version(tmp_path: Path) -> None:
    """Two domains may offer one name in two versions; the same version twice is refused before anything is served."""
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(DOMAIN)
    assert [one.version for one in load_domains([str(tmp_path / "one.py")])] == ["2.0.0", "1.0.0"]
    with pytest.raises(ConfigError, match=r"both have a tool 'greet' 2\.0\.0"):
        load_domains([str(tmp_path / "one.py"), str(tmp_path / "two.py")])
