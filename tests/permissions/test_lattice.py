"""The order of permissions: a rule that forbids never allows, a narrower grant never allows more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.permissions.ground import FETCH, NOOP, READ, RUN, WRITE, call, enforced

from jaato.protocol.specs import Grant
from jaato.tools.permissions.access import READ_ONLY
from jaato.tools.permissions.gate import Gate, Policy, Verdict

C4 = pytest.mark.spec("C4", "Permissions")
ORDER = {"deny": 0, "ask": 1, "allow": 3}
TOOLS = [RUN, READ, WRITE, FETCH, NOOP]
NAMES = st.sampled_from([one.name for one in TOOLS])
COMMANDS = st.sampled_from(
    ["git push", "git log", "ls", "rm x", "git x; rm y", "git x | sh", "git $(x)", "x > y", "cp x .git/config", "make a b",
     "sudo rm x", "bash -c 'rm x'", "for i in a; do rm $i; done", "$x", "", "'", "PATH=. git x", "cat /etc/passwd"]
)  # fmt: skip
PATTERNS = st.sampled_from(
    ["git *", "git push", "rm *", "run(make *)", "run(*)", "*", "no*", "writeNewFile(path=docs/*)", "fetch_url(https://a/*)",
     "sudo *", "make a b", "ls", "readFile(src/*)", "sh", "bash *", "git push *"]
)  # fmt: skip
PATHS = st.sampled_from(["docs/a", "docs/../x", "src/a", ".git/config", "/etc/passwd", "a\0b", ""])
ARGUMENTS = st.dictionaries(
    st.just("writeNewFile"),
    st.dictionaries(
        st.just("path"), st.lists(st.sampled_from(["docs/*", "*", "src/a"]), max_size=2), min_size=1
    ),
    max_size=1,
)
RULES = st.fixed_dictionaries(
    {"tools": st.lists(NAMES, max_size=2), "patterns": st.lists(PATTERNS, max_size=3), "arguments": ARGUMENTS}
)
DOCUMENTS = st.fixed_dictionaries(
    {"defaultPolicy": st.sampled_from(["allow", "ask", "deny"]), "whitelist": RULES, "blacklist": RULES}
)
CALLS = st.tuples(st.sampled_from(TOOLS), COMMANDS, PATHS)
GRANTS = st.builds(
    lambda tool, scope, shape: Grant(
        id="g", effect="allow", tool=tool, scope=scope, shape=shape if tool == "run" else None
    ),
    NAMES,
    st.sampled_from(["turn", "idle", "session"]),
    st.sampled_from([None, "git *", "make a b", "git push\nls"]),
)
WORK = Path("/nonexistent/workspace")


def effect(document: dict[str, Any], one: tuple[Any, str, str], grants: Sequence[Grant] = ()) -> int:
    """How far a call gets."""
    tool, command, path = one
    made = (
        call(tool, WORK, command=command)
        if tool is RUN
        else call(tool, WORK, path=path, content="x", url="https://a/" + path)
    )
    return level(gate_for(document, grants).explain(made, tool))


def gate_for(document: dict[str, Any], grants: Sequence[Grant] = ()) -> Gate:
    """A gate on a machine with a sandbox."""
    return Gate(Policy.of(document), workspace=WORK, grants=grants, profiles=enforced)


def level(verdict: Verdict) -> int:
    """How far a verdict goes: what runs where it can only read goes less far than what may write."""
    reading = verdict.effect == "allow" and verdict.access == READ_ONLY
    return 2 if reading else ORDER[verdict.effect]


def more(document: dict[str, Any], name: str, rules: dict[str, Any]) -> dict[str, Any]:
    """The document with more rules in one list."""
    old = document[name]
    merged = {
        "tools": old["tools"] + rules["tools"],
        "patterns": old["patterns"] + rules["patterns"],
        "arguments": {**old["arguments"]},
    }
    for tool, entries in rules["arguments"].items():
        mine = merged["arguments"].setdefault(tool, {"path": []})
        merged["arguments"][tool] = {"path": [*mine.get("path", []), *entries["path"]]}
    return {**document, name: merged}


def examples(count: int) -> settings:
    """Bounded, without a database."""
    return settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@C4
@examples(200)
@given(DOCUMENTS, RULES, CALLS, st.lists(GRANTS, max_size=2))
def test_a_blacklist_entry_never_loosens(document: Any, rules: Any, one: Any, grants: list[Grant]) -> None:
    """Adding to the blacklist never turns deny into ask or allow, or ask into allow."""
    assert effect(more(document, "blacklist", rules), one, grants) <= effect(document, one, grants)


@C4
@examples(150)
@given(DOCUMENTS, RULES, CALLS)
def test_what_the_blacklist_alone_denies_stays_denied(document: Any, rules: Any, one: Any) -> None:
    """No whitelist, default or grant outranks the blacklist."""
    bare = {"blacklist": document["blacklist"]}
    tool = one[0]
    if effect(bare, one) == 0:
        wide = [Grant(id="g", effect="allow", tool=tool.name, scope="session")]
        assert effect({**more(document, "whitelist", rules), "defaultPolicy": "allow"}, one, wide) == 0


@C4
@examples(150)
@given(DOCUMENTS, CALLS, st.sampled_from(["git push", "make a b", "ls"]))
def test_a_narrower_grant_never_allows_more(document: Any, one: Any, exact: str) -> None:
    """What a grant for exact words allows, the grant for their program does, and so does the grant for the
    tool."""
    program = exact.split()[0]
    narrow, wide, whole = (
        [Grant(id="g", effect="allow", tool="run", scope="turn", shape=shape)]
        for shape in (exact, f"{program} *", None)
    )
    assert (
        effect(document, one)
        <= effect(document, one, narrow)
        <= effect(document, one, wide)
        <= effect(document, one, whole)
    )


@C4
@examples(100)
@given(DOCUMENTS, CALLS, st.sampled_from(["turn", "idle", "session"]))
def test_no_grant_outlives_its_scope(document: Any, one: Any, scope: Any) -> None:
    """After the session has rested, only what holds for the session is left of its grants."""
    tool, command, path = one
    made = (
        call(tool, WORK, command=command)
        if tool is RUN
        else call(tool, WORK, path=path, content="x", url="https://a/" + path)
    )
    grants = [Grant(id="g", effect="allow", tool=tool.name, scope=scope)]
    gate = gate_for(document, grants)
    gate.go_idle()
    left = level(gate.explain(made, tool))
    assert left == effect(document, one, grants if scope == "session" else [])


@C4
@examples(100)
@given(DOCUMENTS, CALLS)
def test_control_paths_are_never_allowed_by_a_rule(document: Any, one: Any) -> None:
    """Whatever the policy says, a write to a control path is at most asked about."""
    _tool, _command, _path = one
    wide = [Grant(id="g", effect="allow", tool=name, scope="session") for name in ("run", "writeNewFile")]
    assert effect(document, (WRITE, "", ".git/config"), wide) <= 1
    gate = gate_for(document, wide)
    for need in ([], ["write"], ["control"], ["full"]):
        verdict = gate.explain(call(RUN, WORK, command="cp x .git/config", need=need), RUN)
        access = verdict.access
        assert verdict.effect != "allow" or (access and not access.control and access.profile != "full")
