"""Answers, grants and rules that change at the wrong moment, and people who answer strangely or not at all."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import FETCH, FREE, NOOP, WRITE, Script, call, step

from jaato.abc.asker import Answer, Question
from jaato.plugins.permission import PermissionPlugin
from jaato.plugins.permission.channels import Pending
from jaato.protocol.specs import Grant
from jaato.tools.permissions.gate import Gate, Policy

C4 = pytest.mark.spec("C4", "Permissions")
PAST, FUTURE = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


def load(root: Path) -> Policy:
    """The policy of a workspace, with a state directory of its own."""
    return Policy.load(root / ".jaato" / "permissions.json", workspace=root, state_dir=root / "state")


def forbid(root: Path, *tools: str) -> Callable[[], str]:
    """An answer of yes that comes after somebody has written these tools into the blacklist."""

    def answer() -> str:
        (root / ".jaato").mkdir(exist_ok=True)
        (root / ".jaato" / "permissions.json").write_text(json.dumps({"blacklist": {"tools": list(tools)}}))
        return "t"

    return answer


@C4
def test_a_rule_made_while_a_question_is_open_outranks_its_answer(tmp_path: Path) -> None:
    """Nothing outranks the blacklist, neither an answer to a question that was asked before the rule was there."""
    gate = Gate(load(tmp_path), asker=Script(forbid(tmp_path, "noop")), workspace=tmp_path)
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert not decision.allowed
    assert decision.permission.method == "blacklist"
    assert gate.grants() == []


@C4
def test_a_question_about_a_file_that_broke_meanwhile_is_not_answered_yes(tmp_path: Path) -> None:
    """When the policy file is damaged while a question is open, the call waits for its repair."""

    def damage() -> str:
        (tmp_path / ".jaato").mkdir()
        (tmp_path / ".jaato" / "permissions.json").write_text("{")
        return "y"

    gate = Gate(load(tmp_path), asker=Script(damage), workspace=tmp_path)
    assert step(gate, call(NOOP, tmp_path), NOOP).permission.method == "policy_invalid"


@C4
def test_an_answer_is_for_the_arguments_that_were_shown(tmp_path: Path) -> None:
    """Arguments that change while the question is open are not what was allowed."""
    one = call(FREE, tmp_path, command="make a")

    def swap() -> str:
        one.arguments["command"] = "rm -rf src"
        return "y"

    decision = step(Gate(Policy.of({}), asker=Script(swap), workspace=tmp_path), one, FREE)
    assert not decision.allowed
    assert "changed" in decision.permission.reason


@C4
def test_a_rule_of_another_process_holds_within_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long turn does not go on under rules that somebody has changed meanwhile."""
    gate = Gate(load(tmp_path), asker=Script("t"), workspace=tmp_path)
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed
    forbid(tmp_path, "noop")()
    monkeypatch.setattr("jaato.tools.permissions.policy.FRESH_S", -1.0)
    assert step(gate, call(NOOP, tmp_path), NOOP).permission.method == "blacklist"


@C4
def test_a_grant_ends_when_it_expires(tmp_path: Path) -> None:
    """A permission holds until its moment and not a call longer; one whose moment is unreadable does not hold."""
    ended: list[Grant] = []

    def gate_with(expires: str | None, effect: Any = "allow") -> Gate:
        grant = Grant(id="g", effect=effect, tool="noop", scope="session", expires=expires)
        return Gate(Policy.of({}), workspace=tmp_path, grants=[grant], on_revoke=ended.append)

    def outcome(gate: Gate) -> str:
        return gate.explain(call(NOOP, tmp_path), NOOP).method

    assert [outcome(gate_with(one)) for one in (None, FUTURE, PAST, "soon", "2001-01-01")] == [
        "session", "session", "default", "default", "default",
    ]  # fmt: skip
    assert [grant.expires for grant in ended] == [PAST, "soon", "2001-01-01"]
    assert outcome(gate_with("soon", "deny")) == "blacklist"
    assert outcome(gate_with(PAST, "deny")) == "default"


@C4
@pytest.mark.parametrize("trusted", [True, False])
def test_a_lasting_grant_ends_when_it_expires(tmp_path: Path, trusted: bool) -> None:
    """The line of an expired grant in the file counts no longer, whether the file is trusted or not."""
    gate = Gate(load(tmp_path), asker=Script("a"), workspace=tmp_path)
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed
    if not trusted:
        path = tmp_path / ".jaato" / "permissions.json"
        document = json.loads(path.read_bytes())
        document["whitelist"]["tools"].append("other")
        path.write_text(json.dumps(document))
    book = tmp_path / "state" / "grants.json"
    for expires, method in ((FUTURE, "whitelist"), (PAST, "default")):
        document = json.loads(book.read_bytes())
        document["grants"][0]["expires"] = expires
        book.write_text(json.dumps(document))
        assert Gate(load(tmp_path), workspace=tmp_path).explain(call(NOOP, tmp_path), NOOP).method == method


@C4
def test_a_grant_holds_in_a_workspace_that_is_reached_by_a_link(tmp_path: Path) -> None:
    """The same directory under another name is the same workspace: nobody is asked twice."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    script = Script("t")
    gate = Gate(Policy.of({}), asker=script, workspace=tmp_path / "link")
    for _ in range(2):
        assert step(gate, call(FREE, tmp_path / "link", command="make a"), FREE).allowed
    assert len(script.questions) == 1


@C4
@pytest.mark.parametrize("answer", ["t", "i", "a"])
def test_a_word_of_several_lines_does_not_smuggle_a_pattern_into_a_grant(tmp_path: Path, answer: str) -> None:
    """Each line of a shape is a pattern, so a command with a line break in a word gets no lasting answer."""
    script = Script(answer, "n")
    gate = Gate(load(tmp_path), asker=script, workspace=tmp_path)
    assert step(gate, call(FREE, tmp_path, command='mytool "x\nrm *\ny"'), FREE).allowed
    assert script.questions[0].shape is None
    assert gate.grants() == []
    assert not step(gate, call(FREE, tmp_path, command="rm -rf src"), FREE).allowed


@C4
def test_two_spellings_of_the_command_argument_are_asked_about(tmp_path: Path) -> None:
    """A call with `command` and `cmd` is not judged by the one while the other runs."""
    plugin = PermissionPlugin(workspace=tmp_path, state_dir=tmp_path / "state", channel=Script())
    allowed, said = plugin.check_permission("cli_based_tool", {"command": "ls", "cmd": "rm -rf src"})
    assert (allowed, said["method"]) == (False, "no_channel")


@C4
def test_an_asker_that_fails_allows_nothing_and_blocks_nobody(tmp_path: Path) -> None:
    """When whoever is asked dies, the call does not run, and the next question is put as if nothing had been."""

    def die() -> str:
        raise ConnectionResetError("gone")

    gate = Gate(Policy.of({}), asker=Script(die, "y"), workspace=tmp_path)
    with pytest.raises(ConnectionResetError):
        step(gate, call(NOOP, tmp_path), NOOP)
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed


@C4
@pytest.mark.parametrize(
    "word",
    ["", " ", "yy", "yes please", "\uff39", "ye\u200bs", "y\x00", "a\n t", "always!", "None", "true", "0"],
)
def test_what_only_resembles_a_yes_is_none(tmp_path: Path, word: str) -> None:
    """Consent is one of the answers and nothing that looks like one."""
    script = Script(*[word] * 5)
    decision = step(Gate(Policy.of({}), asker=script, workspace=tmp_path), call(NOOP, tmp_path), NOOP)
    assert not decision.allowed
    assert len(script.questions) == 3


@C4
def test_a_question_in_a_queue_is_settled_once_by_many_at_once() -> None:
    """Of two clients that answer at the same moment one is heard, and it stays so."""
    question = Question(id="q", call_id="c", tool="noop", arguments={}, digest="", reason="")
    for _ in range(50):
        pending = Pending(question)
        gun = threading.Barrier(3)

        def shoot(word: str, pending: Pending = pending, gun: threading.Barrier = gun) -> None:
            gun.wait()
            pending.answer(word)

        threads = [threading.Thread(target=shoot, args=(word,)) for word in ("y", "n")]
        for thread in threads:
            thread.start()
        gun.wait()
        first = pending.wait(60)
        for thread in threads:
            thread.join()
        assert isinstance(first, Answer)
        assert pending.wait(0) == first


@C4
@pytest.mark.parametrize(
    ("pattern", "url", "covered"),
    [
        ("https://*.example.com/*", "https://a.example.com/x", True),
        ("https://*.example.com/*", "https://evil.com/.example.com/", False),
        ("https://*.example.com/*", "https://evil.com?.example.com/", False),
        ("https://*.example.com/*", "https://evil.com#.example.com/", False),
        ("https://*.example.com/*", "https://evil.com\\.example.com/", False), ("https://*.com/*", "https://a.com@evil.org.com/", False),
        ("https://example.com/docs/*", "https://example.com/docs/../admin", False),
        ("https://example.com/docs/*", "https://example.com/docs/a?b=../c", True),
        ("https://example.com/docs/*", "https://example.com/docs/%2e%2e/admin", False),
        ("https://example.com/docs/*", "https://example.com/docs/..%2Fadmin", False),
        ("https://example.com/docs/*", "https://example.com/docs/%252e%252e%252fadmin", False),
        ("https://example.com/*", "https://EXAMPLE.com/a", False), ("https://example.com*", "https://example.com.evil.org/", False),
        ("https://example.com*", "https://example.com/x", False), ("*", "https://any.where/../x", True), ("https://*", "http://a/", False),
        ("http*://example.com/*", "https://example.com/a", True), ("https://example.com/*", "https://example.com/a/../b", True),
    ],
)  # fmt: skip
def test_a_pattern_for_a_url_stays_in_its_host_and_path(
    tmp_path: Path, pattern: str, url: str, covered: bool
) -> None:
    """A `*` in the host crosses no border of the host, and `..` in any spelling leads nowhere."""
    policy = Policy.of({"whitelist": {"patterns": [f"fetch_url(url={pattern})"]}})
    verdict = Gate(policy, workspace=tmp_path).explain(call(FETCH, tmp_path, url=url), FETCH)
    assert verdict.effect == ("allow" if covered else "ask"), verdict


@C4
def test_a_line_break_in_a_path_hides_nothing(tmp_path: Path) -> None:
    """A path is judged as one, whatever characters its names have."""
    os.mkdir(tmp_path / "src")
    os.mkdir(tmp_path / "src" / "a\n")
    policy = Policy.of(
        {
            "blacklist": {"patterns": ["writeNewFile(secrets/*)"]},
            "whitelist": {"patterns": ["writeNewFile(src/*)"]},
        }
    )
    gate = Gate(policy, workspace=tmp_path)

    def method(path: str) -> str:
        return gate.explain(call(WRITE, tmp_path, path=path, content="x\n"), WRITE).method

    assert method("src/a\n/b") == "whitelist"
    assert method("src/a\n/../../x") == "default"
    assert method("src/a\n/../../.bashrc") == "control_path"
    assert method(".git/hooks/a\nb") == "control_path"
    assert method("src/a\n/../../secrets/x") == "blacklist"
