"""A policy in use: a change of its file only tightens, whoever made it; a person's own answers add what they say."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.permissions.ground import C4, FETCH, NOOP, READ, RUN, WRITE, Script, call, enforced, step
from tests.permissions.policies import LOOSE, allowed, file_of, load
from tests.permissions.test_lattice import DOCUMENTS, ORDER, examples

from jaato.protocol.specs import Grant
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.permissions.policy_document import RuleSet
from jaato.tools.permissions.rules import ToolRules
from jaato.tools.permissions.trust import Trust

PROBES: tuple[tuple[Any, dict[str, str]], ...] = (
    *(
        (RUN, {"command": text})
        for text in ("git push", "git log", "rm x", "make a b", "ls", "$x", "git x | sh")
    ),
    *((WRITE, {"path": path, "content": ""}) for path in ("docs/a", "src/a", ".git/config")),
    *((READ, {"path": path}) for path in ("src/a", "/etc/passwd")),
    (FETCH, {"url": "https://a/b"}),
    (NOOP, {}),
)
SHAPES = st.sampled_from(["git *", "make a b", "rm *", None])
GIVEN = st.builds(
    lambda effect, tool, shape: Grant(
        id=f"{effect}-{tool}-{shape}", effect=effect, tool=tool, scope="always", shape=shape if tool == "run" else None
    ),
    st.sampled_from(["allow", "deny"]),
    st.sampled_from(["run", "noop", "writeNewFile"]),
    SHAPES,
)  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("file"), DOCUMENTS, st.booleans()),
    st.tuples(st.just("elsewhere"), GIVEN),
    st.tuples(st.just("answer"), GIVEN),
    st.tuples(st.just("revoke"), st.integers(0, 3)),
    st.sampled_from([("absent",), ("damaged",), ("empty book",)]),
)


def effects(policy: Policy, work: Path) -> list[int]:
    """How far each probe gets. What only the lack of a sandbox denies is a question wherever somebody is asked."""
    gate = Gate(policy, workspace=work)
    verdicts = [gate.explain(call(tool, work, **arguments), tool) for tool, arguments in PROBES]
    return [ORDER["ask" if one.method == "no_sandbox" else one.effect] for one in verdicts]


def trust(work: Path) -> None:
    """Vouch for the file as another process of the user does."""
    path = work / ".jaato" / "permissions.json"
    Trust(work / "state").add(path, path.read_bytes())


def change(work: Path, one: Any) -> None:
    """Do to the files what another process can do."""
    path = work / ".jaato" / "permissions.json"
    match one:
        case ("file", document, trusted):
            file_of(work, document)
            if trusted:
                trust(work)
        case ("elsewhere", grant):
            other = load_again(work)
            if other is not None:
                other.remember(grant_in(work, grant))
        case ("absent",):
            path.unlink(missing_ok=True)
        case ("damaged",):
            file_of(work, b"{")
        case ("empty book",):
            (work / "state" / "grants.json").unlink(missing_ok=True)


def load_again(work: Path) -> Policy | None:
    """The policy of a new session; None where the file is damaged."""
    try:
        return load(work)
    except Exception:
        return None


def grant_in(work: Path, grant: Grant) -> Grant:
    """The same grant, for this workspace."""
    return Grant(
        id=grant.id,
        effect=grant.effect,
        tool=grant.tool,
        scope="always",
        shape=grant.shape,
        workspace=str(work.resolve()),
    )


@C4
@examples(50)
@given(DOCUMENTS, st.booleans(), st.lists(STEPS, max_size=8))
def test_a_policy_in_use_is_only_tightened_by_its_files(first: Any, trusted: bool, steps: list[Any]) -> None:
    """Whatever happens to the permission file, to trust and to the book of grants, no call gets further than before: only
    an answer given here adds what it says; and what is taken away is taken away here, too."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        file_of(work, first)
        if trusted:
            trust(work)
        policy = load(work)
        before = effects(policy, work)
        for one in steps:
            added: dict[str, Any] = {"blacklist": {}, "whitelist": {}}
            if one[0] == "answer":
                try:
                    policy.remember(grant_in(work, one[1]))
                except Exception:
                    policy.reload()
                if one[1].effect == "allow":
                    shape = one[1].shape
                    line = {"tools": [one[1].tool]} if shape is None else {"patterns": [f"run({shape})"]}
                    added["whitelist"] = line
            elif one[0] == "revoke":
                mine = policy.grants()[one[1] : one[1] + 1]
                if policy.locked is not None or any(grant.effect == "deny" for grant in mine):
                    continue
                for grant in mine:
                    policy.forget(grant.id)
            else:
                change(work, one)
            after = effects(policy, work)
            alone = effects(Policy.of(added), work)
            most = [max(old, new) for old, new in zip(before, alone, strict=True)]
            assert all(now <= limit for now, limit in zip(after, most, strict=True)), (one, before, after)
            fresh = load_again(work)
            if fresh is not None:
                assert all(now <= new for now, new in zip(after, effects(fresh, work), strict=True)), one
            before = after


PATHS = st.sampled_from(["docs/*", "src/*", "*"])
CONDITIONS = st.dictionaries(st.sampled_from(["path", "content"]), st.lists(PATHS, max_size=2), min_size=1)


@C4
@examples(100)
@given(CONDITIONS, CONDITIONS, PATHS, PATHS)
def test_what_two_whitelists_have_in_common_is_covered_by_both(
    one: Any, other: Any, path: str, content: str
) -> None:
    """Argument rules of two whitelists, taken together, allow nothing that either does not."""

    def rules(conditions: Any) -> RuleSet:
        globs = {name: tuple(texts) for name, texts in conditions.items()}
        return RuleSet(arguments={"writeNewFile": globs})

    def covers(whitelist: RuleSet) -> bool:
        found = ToolRules.of(WRITE, RuleSet(), whitelist)
        return found.allows({"path": path, "content": content}, "path", "/nonexistent") is not None

    both = rules(one) & rules(other)
    assert not covers(both) or (covers(rules(one)) and covers(rules(other)))
    assert rules(one) & rules(one) == rules(one)


@C4
@pytest.mark.parametrize("command", ["make test", "git push"])
def test_a_file_that_is_written_and_trusted_meanwhile_allows_nothing_here(
    tmp_path: Path, command: str
) -> None:
    """What an allowed command can do to the policy's files does not loosen the session that runs it; a new one reads it."""
    here = load(tmp_path)
    file_of(tmp_path, LOOSE)
    trust(tmp_path)
    here.reload()
    assert not allowed(here, tmp_path, command)
    assert here.default == "ask"
    assert here.channel.type is None
    verdict = Gate(here, workspace=tmp_path).explain(call(NOOP, tmp_path), NOOP)
    assert "counts in the next one" in verdict.reason
    assert allowed(load(tmp_path), tmp_path, command)


@C4
def test_an_answer_here_adds_its_line_and_no_other(tmp_path: Path) -> None:
    """`always` is written into a file that another process has loosened and trusted, and adds what was answered only."""
    gate = Gate(load(tmp_path), asker=Script("a"), workspace=tmp_path, profiles=enforced)
    file_of(tmp_path, {"whitelist": {"patterns": ["run(rm *)"]}})
    trust(tmp_path)
    assert step(gate, call(RUN, tmp_path, command="make x", need=["write"]), RUN).allowed
    assert allowed(gate.policy, tmp_path, "make x")
    assert not allowed(gate.policy, tmp_path, "rm x")


@C4
def test_what_is_removed_stays_removed(tmp_path: Path) -> None:
    """An allowance taken out of the file ends at once, and does not return when the line does."""
    loose = {"whitelist": {"patterns": ["run(make *)", "run(git commit *)"]}}
    file_of(tmp_path, loose)
    trust(tmp_path)
    here = load(tmp_path)
    assert allowed(here, tmp_path, "make x")
    file_of(tmp_path, {"whitelist": {"patterns": ["run(git commit *)"]}})
    trust(tmp_path)
    here.reload()
    assert allowed(here, tmp_path, "git commit -m x")
    assert not allowed(here, tmp_path, "make x")
    file_of(tmp_path, loose)
    trust(tmp_path)
    here.reload()
    assert not allowed(here, tmp_path, "make x")
    assert allowed(load(tmp_path), tmp_path, "make x")


@C4
def test_a_refusal_ends_where_it_is_revoked(tmp_path: Path) -> None:
    """`never` holds in a running session until it is revoked there; taking the line out of the file does not end it."""
    here = Gate(load(tmp_path), asker=Script("never", "y", "y"), workspace=tmp_path)
    one = call(NOOP, tmp_path)
    assert not step(here, one, NOOP).allowed
    path = tmp_path / ".jaato" / "permissions.json"
    document = json.loads(path.read_bytes())
    grant = here.grants()[0]
    file_of(tmp_path, {**document, "blacklist": {}})
    assert not step(here, one, NOOP).allowed
    file_of(tmp_path, document)
    here.policy.reload()
    here.revoke(grant.id)
    assert step(here, one, NOOP).allowed


@C4
def test_trust_given_in_the_session_is_adopted_by_it(tmp_path: Path) -> None:
    """A person who vouches for the file within the session lets it allow what it says."""
    here = load(tmp_path)
    file_of(tmp_path, {"whitelist": {"patterns": ["run(make *)"]}})
    here.reload()
    assert not allowed(here, tmp_path, "make x")
    here.trust()
    assert allowed(here, tmp_path, "make x")
