"""What a command may reach: unasked it can only read, a rule opens the workspace, and more is a question of its own."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import (
    C4,
    NOOP,
    READ,
    RUN,
    Script,
    call,
    enforced,
    gate_of,
    step,
    tool,
)

from jaato.abc.asker import Answer
from jaato.agent.subagents.permission_gate import SubagentGate
from jaato.protocol.specs import AgentBounds, Grant, SandboxAccess
from jaato.tools.permissions.access import FULL, READ_ONLY, WORKSPACE_WRITE
from jaato.tools.permissions.gate import Decision, Gate, Policy

EDIT = tool("updateFile", "write", ["path"], category="filesystem")
SPAWN = tool("shell_spawn", "execute", ["command"], confines=True)
PLAN = tool("startPlan", "read")
ODD = [
    "ls",
    "rm -rf /",
    "eval $x",
    "$(cat a) > b",
    "for i in a; do $i; done",
    "(((",
    "curl x | sh",
    "x" * 20_000,
]


def run(gate: Gate, workspace: Path, command: str, *need: str, of: Any = RUN, **more: Any) -> Decision:
    """What becomes of a command."""
    if need:
        more["need"] = list(need)
    return step(gate, call(of, workspace, command=command, **more), of)


def opened(decision: Decision) -> SandboxAccess | None:
    """What an allowed call may reach."""
    assert decision.allowed, decision
    return decision.permission.access


@C4
@pytest.mark.parametrize("of", [RUN, SPAWN])
@pytest.mark.parametrize("command", ODD)
def test_a_command_that_no_rule_covers_runs_where_it_can_only_read(
    tmp_path: Path, command: str, of: Any
) -> None:
    """Nobody is asked, whatever it is and whatever it computes; a default that denies denies it."""
    gate, script = gate_of(tmp_path)
    assert opened(run(gate, tmp_path, command, of=of)) == READ_ONLY
    assert script.questions == []
    denying = Gate(Policy.of({"defaultPolicy": "deny"}), workspace=tmp_path, profiles=enforced)
    assert run(denying, tmp_path, command, of=of).permission.method == "default"


@C4
def test_a_grant_opens_the_workspace_and_what_is_open_for_the_session(tmp_path: Path) -> None:
    """Rules, grants and a default that allows mean workspace-write, with the hosts and directories of the session; all of
    the machine only where the user has said so."""
    session = SandboxAccess("workspace-write", ("pypi.org",), ("/srv/data",))
    grant = Grant(id="g", effect="allow", tool="run", scope="session", shape="make *")
    for document, grants in (
        ({"whitelist": {"patterns": ["make *"]}}, ()),
        ({"whitelist": {"tools": ["run"]}}, ()),
        ({}, (grant,)),
        ({"defaultPolicy": "allow"}, ()),
    ):
        for access in (WORKSPACE_WRITE, session, FULL):
            policy = Policy.of(document).with_flags(access=access)
            gate = Gate(policy, workspace=tmp_path, grants=grants, profiles=enforced)
            assert opened(run(gate, tmp_path, "make test")) == access
            assert opened(run(gate, tmp_path, "make test", "write")) == access


@C4
def test_a_question_shows_what_it_opens_and_why(tmp_path: Path) -> None:
    """Profile, each host, each directory, control files, and the model's reason on one line; a yes opens exactly that."""
    gate, script = gate_of(tmp_path, "y")
    needs = ("net:pypi.org", "net:files.example:8443", "dir:/srv/data", "control")
    decision = run(gate, tmp_path, "make x", *needs, reason="install\nthe\x1b[2J tools")
    wanted = SandboxAccess("workspace-write", ("pypi.org", "files.example:8443"), ("/srv/data",), True)
    assert opened(decision) == script.questions[0].access == wanted
    reason = script.questions[0].reason
    for text in ("writing in the workspace", "pypi.org, files.example:8443", "/srv/data", "control files"):
        assert text in reason
    assert '"install the [2J tools"' in reason
    assert reason.isprintable()
    assert script.questions[0].shape is None


@C4
@pytest.mark.parametrize(("word", "lasts"), [("y", False), ("once", False), ("t", True), ("a", True)])
def test_a_grant_remembers_what_it_opens(tmp_path: Path, word: str, lasts: bool) -> None:
    """It covers later calls of that shape that need no more, in this process and, if it is for good, in the next one."""
    gate, script = gate_of(tmp_path, word)
    wanted = SandboxAccess("workspace-write", ("pypi.org",), ("/srv/data",))
    first = run(gate, tmp_path, "mytool fetch; mytool put", "net:pypi.org", "dir:/srv/data")
    assert opened(first) == wanted
    gates = [gate]
    if word == "a":
        policy = Policy.load(
            tmp_path / ".jaato" / "permissions.json", workspace=tmp_path, state_dir=tmp_path / "state"
        )
        gates.append(Gate(policy, asker=script, workspace=tmp_path, profiles=enforced))
    for one in gates:
        asked = len(script.questions)
        assert run(one, tmp_path, "mytool put", "net:pypi.org").allowed is lasts
        assert run(one, tmp_path, "mytool put", "dir:/srv/data/x").allowed is lasts
        assert len(script.questions) == asked + (0 if lasts else 2)
        assert not run(one, tmp_path, "mytool put", "net:evil.example").allowed
        assert not run(one, tmp_path, "mytool put", "dir:/srv").allowed
        assert not run(one, tmp_path, "mytool put", "control").allowed
        assert not run(one, tmp_path, "mytool put; other", "net:pypi.org").allowed
        assert opened(run(one, tmp_path, "mytool put")) == (wanted if lasts else READ_ONLY)
        assert opened(run(one, tmp_path, "mytool other")) == READ_ONLY


@C4
def test_a_line_of_two_grants_reaches_what_both_open(tmp_path: Path) -> None:
    """A program does not get another one's hosts by standing beside it."""
    grants = [
        Grant(id="a", effect="allow", tool="run", scope="session", shape="pip *",
              access=SandboxAccess("workspace-write", ("pypi.org", "*.b.example"))),
        Grant(id="b", effect="allow", tool="run", scope="session", shape="mytool *"),
        Grant(id="c", effect="allow", tool="run", scope="session", shape="uv *",
              access=SandboxAccess("full", ("pypi.org", "x.b.example"), control=True)),
    ]  # fmt: skip
    gate = Gate(Policy(), workspace=tmp_path, grants=grants, profiles=enforced)
    assert opened(run(gate, tmp_path, "pip x && mytool y")) == WORKSPACE_WRITE
    both = SandboxAccess("workspace-write", ("pypi.org", "x.b.example"))
    assert opened(run(gate, tmp_path, "pip x; uv y")) == both
    assert opened(run(gate, tmp_path, "uv y")) == both


@C4
@pytest.mark.parametrize("need", ["control", "full"])
@pytest.mark.parametrize("word", ["a", "t", "i"])
def test_control_files_and_no_sandbox_are_for_one_call(tmp_path: Path, need: str, word: str) -> None:
    """No answer to such a question lasts, and none for everything that waits settles it."""
    gate, script = gate_of(tmp_path, word, "n")
    access = opened(run(gate, tmp_path, "make x", need))
    assert access == (FULL if need == "full" else SandboxAccess("workspace-write", control=True))
    assert gate.grants() == []
    assert not run(gate, tmp_path, "make x", need).allowed
    assert [one.shape for one in script.questions] == [None, None]


@C4
def test_edited_arguments_are_judged_again(tmp_path: Path) -> None:
    """What the user makes of a call decides what it reaches, not what was asked before."""
    edited = {"command": "make b"}
    gate, _ = gate_of(tmp_path, Answer(answer="e", arguments=edited))
    one = call(RUN, tmp_path, command="make a", need=["full"])
    decision = step(gate, one, RUN)
    assert decision.arguments == edited
    one.arguments = edited
    assert opened(step(gate, one, RUN)) == READ_ONLY


@C4
def test_everything_allowed_is_allowed_inside_the_sandbox(tmp_path: Path) -> None:
    """`--yes` opens neither hosts nor directories nor control files; the refusal names the flags that do."""
    policy = Policy.of({"defaultPolicy": "allow"})
    gate = Gate(policy, workspace=tmp_path, profiles=enforced)
    for need, flag in (
        ("net:pypi.org", "--allow-domain pypi.org"),
        ("dir:/srv", "--add-dir /srv"),
        ("full", "--sandbox full"),
        ("control", "one call"),
    ):
        decision = run(gate, tmp_path, "make x", need)
        assert decision.permission.method == "no_channel"
        assert flag in decision.permission.reason
    session = SandboxAccess("workspace-write", ("*.pypi.org",), ("/srv",))
    wide = Gate(policy.with_flags(access=session), workspace=tmp_path, profiles=enforced)
    assert opened(run(wide, tmp_path, "make x", "net:x.pypi.org", "dir:/srv/a")) == session


@C4
def test_without_a_sandbox_every_command_asks(tmp_path: Path) -> None:
    """Whatever was granted; a yes means everything, and says so; `--yes` denies commands with the remedy, and with
    `--sandbox full` both are as if there were no sandbox."""
    rules = {"whitelist": {"patterns": ["make *"]}}
    script = Script("t", "y")
    gate = Gate(Policy.of(rules), asker=script, workspace=tmp_path)
    for command in ("make x", "ls"):
        assert opened(run(gate, tmp_path, command)) == script.questions[-1].access == FULL
        assert "no sandbox" in script.questions[-1].reason
        assert script.questions[-1].shape is None
    assert gate.grants() == []
    alone = run(Gate(Policy.of(rules), workspace=tmp_path), tmp_path, "make x")
    assert alone.permission.method == "no_channel"
    everything = Policy.of({"defaultPolicy": "allow"})
    denied = run(Gate(everything, workspace=tmp_path), tmp_path, "make x")
    assert denied.permission.method == "no_sandbox"
    assert "--sandbox full" in denied.permission.reason
    for policy in (Policy.of(rules), everything):
        free = Gate(policy.with_flags(access=FULL), workspace=tmp_path)
        assert opened(run(free, tmp_path, "make x")) == FULL
    script = Script("t")
    free = Gate(Policy().with_flags(access=FULL), asker=script, workspace=tmp_path)
    for _ in range(2):
        assert opened(run(free, tmp_path, "make x")) == FULL
    assert len(script.questions) == 1


@C4
@pytest.mark.parametrize(
    ("need", "right"),
    [
        ("write", True), ("full", True), ("control", True), ("net:pypi.org", True), ("net:*.npmjs.org", True), ("net:*", True),
        ("net:a.example:8443", True), ("net:[::1]:80", True), ("net:10.0.0.1", True), ("dir:/srv/x", True), ("Write", False), ("", False),
        ("net:", False), ("net:a b", False), ("net:a.example:0", False), ("net:a.example:99999", False), ("net:http://a", False),
        ("net:a/b", False), ("net:a\n", False), ("net:*.*.a", False), ("dir:", False), ("dir:x", False), ("dir:~/x", False), ("dir:/a\0b", False),
        ("dir:/a\nb", False), ("full:", False), ("write:/x", False), ("read", False), (5, False), (None, False), ("dir:/" + "x" * 5_000, False),
    ],
)  # fmt: skip
def test_what_can_be_asked_for(tmp_path: Path, need: Any, right: bool) -> None:
    """An entry of `need` is understood or refused, never guessed at."""
    gate, script = gate_of(tmp_path, "y")
    decision = step(gate, call(RUN, tmp_path, command="make x", need=[need]), RUN)
    assert decision.allowed is right
    if not right:
        assert (decision.permission.method, script.questions) == ("invalid", [])
        assert "dir:/ABSOLUTE/PATH" in decision.permission.reason


@C4
def test_a_directory_is_asked_for_by_where_it_leads(tmp_path: Path) -> None:
    """A link does not open another directory than the question shows."""
    (tmp_path / "link").symlink_to("/srv")
    gate, script = gate_of(tmp_path, "y")
    assert opened(run(gate, tmp_path, "make x", f"dir:{tmp_path}/link/../srv/./x")) == SandboxAccess(
        "workspace-write", paths=("/srv/x",)
    )
    assert "/srv/x" in script.questions[0].reason


@C4
@pytest.mark.parametrize(
    "place",
    ["/", "~", "~/..", "{root}", "{root}/state", "{root}/state/x", "/proc/self", "/run/x", "{root}/link"],
)
def test_no_answer_opens_what_no_flag_opens(tmp_path: Path, place: str) -> None:
    """The machine, the home, jaato's own state and what is above the workspace are not asked about: what would be opened by
    them is everything, and is called so."""
    work = tmp_path / "w"
    work.mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "state")
    script = Script("a", "a")
    gate = Gate(Policy(), asker=script, workspace=work, protected=[tmp_path / "state"], profiles=enforced)
    path = place.replace("~", str(Path.home())).format(root=tmp_path)
    decision = run(gate, work, "make x", f"dir:{path}")
    assert (decision.permission.method, script.questions) == ("invalid", [])
    assert "cannot be opened" in decision.permission.reason
    assert run(gate, work, "make x", f"dir:{work}").allowed


@C4
def test_a_grant_does_not_follow_a_link_that_came_later(tmp_path: Path) -> None:
    """A directory that was opened for good opens nothing when a link has taken its place."""
    (tmp_path / "data").mkdir()
    gate, script = gate_of(tmp_path / "w", "a", None)
    (tmp_path / "w").mkdir()
    assert opened(run(gate, tmp_path / "w", "mytool put", f"dir:{tmp_path}/data")) is not None
    (tmp_path / "data").rename(tmp_path / "old")
    (tmp_path / "data").symlink_to("/srv")
    assert opened(run(gate, tmp_path / "w", "mytool put")) == WORKSPACE_WRITE
    assert not run(gate, tmp_path / "w", "mytool put", f"dir:{tmp_path}/data").allowed
    assert script.questions[-1].access == SandboxAccess("workspace-write", paths=("/srv",))


@C4
def test_a_rule_that_forbids_is_above_the_sandbox(tmp_path: Path) -> None:
    """A forbidden command does not run where it can only read either, and asking for more changes nothing; what computes
    its commands is asked about, and a yes opens no more than it would have reached."""
    rules = {"blacklist": {"patterns": ["run(rm *)"]}}
    gate, script = gate_of(tmp_path, "t", None, **rules)
    assert run(gate, tmp_path, "rm x").permission.method == "blacklist"
    assert run(gate, tmp_path, "rm x", "full").permission.method == "blacklist"
    assert opened(run(gate, tmp_path, 'eval "$(cat a)"')) == script.questions[0].access == READ_ONLY
    assert gate.grants() == []
    assert run(gate, tmp_path, 'eval "$(cat a)"').permission.method == "no_channel"
    assert opened(run(gate, tmp_path, "ls")) == READ_ONLY


@C4
def test_a_tool_that_executes_reaches_what_commands_reach_that_rules_allow(tmp_path: Path) -> None:
    """A process that an allowed call of another tool starts gets the workspace and what is open for the session."""
    session = SandboxAccess("workspace-write", ("pypi.org",))
    policy = Policy.of({"whitelist": {"tools": ["noop"]}}).with_flags(access=session)
    gate = Gate(policy, workspace=tmp_path, profiles=enforced)
    assert opened(step(gate, call(NOOP, tmp_path), NOOP)) == session
    script = Script("y")
    gate = Gate(Policy().with_flags(access=session), asker=script, workspace=tmp_path, profiles=enforced)
    assert opened(step(gate, call(NOOP, tmp_path), NOOP)) == session
    assert opened(step(gate, call(READ, tmp_path, path="x"), READ)) is None


@C4
def test_a_subagent_that_only_reads_runs_commands_that_can_only_read(tmp_path: Path) -> None:
    """Whatever the gate above it allows; and what its own bounds forbid cannot be computed."""
    above = Gate(Policy.of({"defaultPolicy": "allow"}), workspace=tmp_path, profiles=enforced)
    assert opened(run(SubagentGate(above, AgentBounds()), tmp_path, "make x")) == WORKSPACE_WRITE
    reading = SubagentGate(above, AgentBounds(read_only=True))
    assert opened(run(reading, tmp_path, "make x")) == READ_ONLY
    assert reading.explain(call(RUN, tmp_path, command="make x"), RUN).access == READ_ONLY
    assert not run(reading, tmp_path, "make x", "write").allowed
    forbidding = SubagentGate(above, AgentBounds(deny=["run(rm *)"]))
    assert opened(run(forbidding, tmp_path, "make x")) == WORKSPACE_WRITE
    assert not run(forbidding, tmp_path, "rm x").allowed
    assert not run(forbidding, tmp_path, "eval $x").allowed
