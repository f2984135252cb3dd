"""The gate: precedence, every answer, scopes, waiting prompts, binding, stepping without a loop."""

# ruff: noqa: E501

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.permissions.ground import FETCH, NOOP, READ, RUN, WRITE, Script, call, step, tool

from jaato.abc.asker import ANSWERS, Answer, Question
from jaato.errors import ConfigError
from jaato.protocol.specs import Grant
from jaato.tools.permissions import Decision, Gate, Policy, digest_of

C4 = pytest.mark.spec("C4", "Permissions")
S4 = pytest.mark.spec("S4", "9. Permission Responses Are Granular")
S1 = pytest.mark.spec("S1", "Permission Integration")


def gate_of(tmp_path: Path, *answers: Any, **document: Any) -> tuple[Gate, Script]:
    """A gate with a policy file of its own in a workspace, and a scripted asker."""
    script = Script(*answers)
    state = tmp_path / "state"
    policy = Policy.load(tmp_path / ".jaato" / "permissions.json", workspace=tmp_path, state_dir=state)
    if document:
        policy = Policy.of(document)
    return Gate(policy, asker=script, workspace=tmp_path), script


@C4
def test_no_policy_means_ask_and_nobody_means_deny(tmp_path: Path) -> None:
    """Without a policy a tool that does more than read is asked about; with nobody to ask it is denied,
    and told how."""
    gate = Gate(Policy(), workspace=tmp_path)
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.permission.method) == (False, "no_channel")
    assert "--allow 'noop'" in decision.permission.reason
    assert step(gate, call(RUN, tmp_path, command="make x"), RUN).permission.reason.count("run(make x)") == 1


@C4
@pytest.mark.parametrize("default", ["ask", "deny"])
def test_reading_tools_are_allowed_by_default(tmp_path: Path, default: str) -> None:
    """Reading tools are allowed by default, and tools their plugin approves; others are not."""
    gate = Gate(Policy.of({"defaultPolicy": default}), workspace=tmp_path)
    assert step(gate, call(READ, tmp_path, path="x"), READ).allowed
    approved = tool("plan", auto_approved=True)
    assert step(gate, call(approved, tmp_path), approved).permission.method == "auto_approved"
    for other in (NOOP, WRITE, FETCH, RUN):
        assert not step(gate, call(other, tmp_path, command="make"), other).allowed


@C4
@pytest.mark.parametrize("rule", [{"tools": ["noop"]}, {"patterns": ["no*"]}, {"patterns": ["noop(*)"]}])
def test_blacklist_wins_over_everything(tmp_path: Path, rule: dict[str, Any]) -> None:
    """No whitelist, default, approval by the plugin, grant or answer outranks the blacklist."""
    policy = Policy.of({"defaultPolicy": "allow", "whitelist": {"tools": ["noop"]}, "blacklist": rule})
    grants = [
        Grant(id="g", effect="allow", tool="noop", scope=scope) for scope in ("turn", "idle", "session")
    ]
    loose = tool("noop", "read", auto_approved=True)
    script = Script("y")
    gate = Gate(policy, asker=script, workspace=tmp_path, grants=grants)
    decision = step(gate, call(loose, tmp_path), loose)
    assert (decision.allowed, decision.permission.method, script.questions) == (False, "blacklist", [])


@C4
def test_blacklisted_alias_is_the_tool(tmp_path: Path) -> None:
    """A rule under another name of a tool, with that name's arguments, is a rule for the tool."""
    deny = {"arguments": {"cli_based_tool": {"cmd": ["rm *"]}}}
    gate = Gate(Policy.of({"defaultPolicy": "allow", "blacklist": deny}), workspace=tmp_path)
    assert step(gate, call(RUN, tmp_path, command="make"), RUN).allowed
    assert not step(gate, call(RUN, tmp_path, command="rm x"), RUN).allowed


@C4
@pytest.mark.parametrize(
    "command",
    ["rm -rf x", "ls; rm x", "/bin/rm x", "sudo rm x", "r''m x", "'rm' x", "\\rm x", "ls | xargs rm x", "bash -c 'rm x'",
     "sh -c 'ls; rm x'", "if true; then rm x; fi", "echo $(rm x)", "find . -exec rm {} +", "eval rm x", "env A=1 rm x", "rm",
     "cat <<EOF\n$(rm x)\nEOF", "r\\\nm x", "ls; rm \\\n-rf x", "(rm x)", "f() { rm x; }; f", "nohup rm x &", "bash -c \"bash -c 'rm x'\"", "timeout 1 rm x"],
)  # fmt: skip
def test_blacklisted_command_is_found_in_any_disguise(tmp_path: Path, command: str) -> None:
    """A blacklisted command is denied in a chain, a wrapper, a substitution, a construct, quoted or with
    its path."""
    policy = Policy.of(
        {"defaultPolicy": "allow", "whitelist": {"tools": ["run"]}, "blacklist": {"patterns": ["rm *"]}}
    )
    assert (
        step(Gate(policy, workspace=tmp_path), call(RUN, tmp_path, command=command), RUN).permission.method
        == "blacklist"
    )


@C4
@pytest.mark.parametrize(
    "command",
    ["make \\\n all", "for i in a b; do echo $i; done", "[ -f x ] && rm x", "x=$(date); echo $x", "cat > f <<'E'\nhi\nE",
     "make 2>&1 | tee out", "if ls; then pwd; fi", "python3 - <<E\nprint(1)\nE", "! test -f x", "sleep 1 &"],
)  # fmt: skip
def test_a_grant_for_the_whole_tool_covers_what_the_parser_understands(tmp_path: Path, command: str) -> None:
    """Where everything is allowed, loops, substitutions, here-documents and redirections are too."""
    for document in ({"defaultPolicy": "allow"}, {"whitelist": {"tools": ["run"]}}):
        gate = Gate(Policy.of(document), workspace=tmp_path)
        assert gate.explain(call(RUN, tmp_path, command=command), RUN).effect == "allow"


@C4
@pytest.mark.parametrize("command", ["$x y", "$(echo rm) x", "r\x00m", "bad 'quote"])
def test_a_wide_grant_does_not_cover_what_could_hide_from_the_blacklist(tmp_path: Path, command: str) -> None:
    """With a blacklist in force, a program that the shell computes is asked about even when the whole tool
    is allowed."""
    policy = Policy.of({"whitelist": {"tools": ["run"]}, "blacklist": {"patterns": ["rm *"]}})
    assert Gate(policy, workspace=tmp_path).explain(call(RUN, tmp_path, command=command), RUN).effect == "ask"


@C4
def test_whitelist_arguments_hold_for_every_spelling_of_a_path(tmp_path: Path) -> None:
    """An argument rule covers a path only if it also does when normalised and with its links followed."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "out").symlink_to("/etc")
    rule = {"arguments": {"writeNewFile": {"path": ["docs/*"]}}}
    gate = Gate(Policy.of({"whitelist": rule}), workspace=tmp_path)

    def effect(path: str) -> str:
        return gate.explain(call(WRITE, tmp_path, path=path, content=""), WRITE).effect

    assert effect("docs/a.md") == "allow"
    for path in ("docs/../x", "docs/out/passwd", "/docs/a", "src/a", "docs/../.git/config", "docs/\0"):
        assert effect(path) == "ask", path


@C4
def test_patterns_over_arguments_are_read_argument_by_argument(tmp_path: Path) -> None:
    """`tool(name=glob)` is held against that argument, so that the text of another one cannot fake it."""
    gate = Gate(
        Policy.of({"whitelist": {"patterns": ["writeNewFile(path=docs/*)", "fetch_url(https://a/*)"]}}),
        workspace=tmp_path,
    )
    assert gate.explain(call(WRITE, tmp_path, path="docs/a", content="x"), WRITE).effect == "allow"
    assert gate.explain(call(WRITE, tmp_path, path="x", content=", path=docs/a"), WRITE).effect == "ask"
    assert gate.explain(call(FETCH, tmp_path, url="https://a/x"), FETCH).effect == "allow"
    assert gate.explain(call(FETCH, tmp_path, url="https://b/https://a/x"), FETCH).effect == "ask"


@S1
@S4
@pytest.mark.parametrize(
    ("answer", "allowed", "method"),
    [("y", True, "user_approved"), ("yes", True, "user_approved"), ("YES ", True, "user_approved"),
     ("n", False, "user_denied"), ("no", False, "user_denied"), ("a", True, "user_approved"),
     ("always", True, "user_approved"), ("t", True, "turn"), ("turn", True, "turn"), ("i", True, "idle"),
     ("idle", True, "idle"), ("once", True, "user_approved"), ("never", False, "user_denied"), ("all", True, "user_approved")],
)  # fmt: skip
def test_every_answer(tmp_path: Path, answer: str, allowed: bool, method: str) -> None:
    """Each documented answer, in each spelling, decides the call and says how."""
    gate, script = gate_of(tmp_path, answer)
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.permission.method) == (allowed, method)
    assert decision.permission.decision == ("allowed" if allowed else "denied")
    assert script.questions[0].options == ANSWERS


@S4
@pytest.mark.parametrize(
    ("answer", "same", "after_turn", "after_idle"),
    [("y", 1, 1, 1), ("once", 1, 1, 1), ("all", 1, 1, 1), ("n", 1, 1, 1), ("t", 0, 1, 1), ("i", 0, 0, 1), ("a", 0, 0, 0),
     ("never", 0, 0, 0)],
)  # fmt: skip
def test_how_long_an_answer_holds(
    tmp_path: Path, answer: str, same: int, after_turn: int, after_idle: int
) -> None:
    """`turn` ends with the response, `idle` with the session's rest, `always` and `never` do not end."""
    gate, script = gate_of(tmp_path, answer, "n", "n", "n")
    step(gate, call(NOOP, tmp_path), NOOP)

    def asked() -> int:
        before = len(script.questions)
        step(gate, call(NOOP, tmp_path, "c2", other=1), NOOP)
        return len(script.questions) - before

    assert asked() == same
    gate.end_turn()
    assert asked() == after_turn
    gate.go_idle()
    assert asked() == after_idle


@C4
def test_comment_denies_and_tells_the_model_why(tmp_path: Path) -> None:
    """`c TEXT` denies the call and hands the text on."""
    gate, _ = gate_of(tmp_path, Answer(answer="c", comment="use the other file"))
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.comment) == (False, "use the other file")
    assert "use the other file" in decision.permission.reason


@C4
def test_edited_arguments_are_not_asked_about_again_but_only_exactly_these(tmp_path: Path) -> None:
    """The user's own arguments pass the second check once; anything else, and the blacklist, is judged
    anew."""
    gate, script = gate_of(tmp_path, Answer(answer="e", arguments={"command": "make b"}), "n")
    one = call(RUN, tmp_path, command="make a")
    decision = step(gate, one, RUN)
    assert (decision.allowed, decision.arguments) == (True, {"command": "make b"})
    one.arguments = {"command": "make c"}
    assert not step(gate, one, RUN).allowed
    assert len(script.questions) == 2
    one.arguments = {"command": "make b"}
    assert step(gate, one, RUN).allowed
    assert len(script.questions) == 2
    assert not step(gate, one, RUN).allowed
    assert len(script.questions) == 3


@C4
def test_edited_arguments_meet_the_blacklist(tmp_path: Path) -> None:
    """What the user typed is still held against the blacklist."""
    gate, _ = gate_of(
        tmp_path, Answer(answer="e", arguments={"command": "rm x"}), blacklist={"patterns": ["rm *"]}
    )
    one = call(RUN, tmp_path, command="make a")
    decision = step(gate, one, RUN)
    assert decision.arguments is not None
    one.arguments = decision.arguments
    assert step(gate, one, RUN).permission.method == "blacklist"


@C4
def test_unknown_answers_are_asked_again_and_then_denied(tmp_path: Path) -> None:
    """An answer nobody knows never allows: it is asked again, three times in all."""
    gate, script = gate_of(tmp_path, "maybe", "", Answer(answer="e"), "y")
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert [("is no answer" in one.reason) for one in script.questions] == [False, True, True]
    gate, script = gate_of(tmp_path, "what", "y")
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed


@C4
def test_timeout_and_silence(tmp_path: Path) -> None:
    """An asker out of time denies as `timeout`, one that has nobody as `no_channel`."""

    def late() -> Answer:
        raise TimeoutError

    gate, _ = gate_of(tmp_path, late, None)
    assert step(gate, call(NOOP, tmp_path), NOOP).permission.method == "timeout"
    assert step(gate, call(NOOP, tmp_path), NOOP).permission.method == "no_channel"


@C4
def test_a_grant_on_a_command_covers_its_structure(tmp_path: Path) -> None:
    """What the question shows is exactly what a lasting answer allows."""
    gate, script = gate_of(tmp_path, "t", "n", "n", "n", "n")
    assert step(gate, call(RUN, tmp_path, command="git commit -m x && pytest -q | tail -n 3"), RUN).allowed
    assert script.questions[0].shape == "git commit *\npytest *"

    def allowed(command: str) -> bool:
        return step(gate, call(RUN, tmp_path, command=command), RUN).allowed

    assert allowed("pytest tests; git commit -m 'y'")
    for command in ("git commit -m x; rm y", "git commit -m $(x)", "git push", "pytest > x"):
        assert not allowed(command)


@C4
@pytest.mark.parametrize("answer", ["a", "t", "i"])
@pytest.mark.parametrize(
    ("tool_", "arguments"),
    [(WRITE, {"path": ".git/hooks/pre-commit", "content": ""}), (WRITE, {"path": "x/../.jaato/permissions.json", "content": ""}),
     (WRITE, {"path": ".MCP.json", "content": ""}), (WRITE, {"path": "link/config", "content": ""}),
     (WRITE, {"path": "hard", "content": ""}), (WRITE, {"path": "~/.bashrc", "content": ""}),
     (WRITE, {"edits": [{"path": ".git/config"}]}), (WRITE, {"pattern_root": "**/*"}),
     (RUN, {"command": "cp x .git/hooks/pre-commit"}), (RUN, {"command": "echo x > .mcp.json"}),
     (RUN, {"command": "cd .git && cp ../x hooks/a"}), (RUN, {"command": "tee link/config"}), (RUN, {"command": "cp x hard"}),
     (RUN, {"command": "git config core.hooksPath x"}), (RUN, {"command": "cp x .jaato/permissions.json"}),
     (RUN, {"command": "python3 -c 'open(\".git/hooks/x\", \"w\")'"}), (RUN, {"command": "cp x .g'i't/config"})],
    ids=str,
)  # fmt: skip
def test_control_paths_are_written_for_one_call_only(
    tmp_path: Path, answer: str, tool_: Any, arguments: dict[str, Any]
) -> None:
    """No whitelist, default or lasting answer covers writing a control path: each call of it is asked
    about."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("")
    (tmp_path / "link").symlink_to(".git")
    (tmp_path / "hard").hardlink_to(tmp_path / ".git" / "config")
    script = Script(answer, "n")
    policy = Policy.of(
        {"defaultPolicy": "allow", "whitelist": {"tools": ["run", "writeNewFile"], "patterns": ["*"]}}
    )
    session = [Grant(id=name, effect="allow", tool=name, scope="session") for name in ("run", "writeNewFile")]
    gate = Gate(policy, asker=script, workspace=tmp_path, grants=session)
    one = call(tool_, tmp_path)
    one.arguments = arguments
    assert gate.explain(one, tool_).method == "control_path"
    assert step(gate, one, tool_).allowed
    assert script.questions[0].shape is None
    assert gate.grants() == session
    assert not step(gate, one, tool_).allowed


@C4
def test_digest_binds_tool_arguments_and_directory(tmp_path: Path) -> None:
    """Two calls have one digest only if tool, arguments and directory are the same."""
    base = digest_of(call(NOOP, tmp_path, a=1, b=[1, {"x": "\ud800"}]))
    assert base == digest_of(call(NOOP, tmp_path, "other", b=[1, {"x": "\ud800"}], a=1))
    others = [
        call(READ, tmp_path, a=1, b=[1, {"x": "\ud800"}]),
        call(NOOP, tmp_path / "x", a=1, b=[1, {"x": "\ud800"}]),
        call(NOOP, tmp_path, a=2),
    ]
    assert base not in {digest_of(one) for one in others}
    assert len(base) == 64


@C4
def test_a_once_grant_is_for_one_exact_call(tmp_path: Path) -> None:
    """An approval kept over a restart lets exactly that call through, once."""
    one = call(NOOP, tmp_path, a=1)
    grant = Grant(id="g", effect="allow", tool="noop", scope="once", shape=digest_of(one))
    gate = Gate(Policy(), workspace=tmp_path, grants=[grant])
    assert not step(gate, call(NOOP, tmp_path, a=2), NOOP).allowed
    assert step(gate, one, NOOP).permission.method == "once"
    assert not step(gate, one, NOOP).allowed


@C4
def test_grants_can_be_listed_and_revoked(tmp_path: Path) -> None:
    """Grants are objects with an origin; a revoked one no longer holds, here or in the file."""
    began: list[Grant] = []
    ended: list[Grant] = []
    policy = Policy.load(
        tmp_path / ".jaato" / "permissions.json", workspace=tmp_path, state_dir=tmp_path / "state"
    )
    gate = Gate(
        policy, asker=Script("a", "t"), workspace=tmp_path, on_grant=began.append, on_revoke=ended.append
    )
    step(gate, call(RUN, tmp_path, command="make x"), RUN)
    step(gate, call(NOOP, tmp_path), NOOP)
    assert [(one.tool, one.scope, one.shape, one.created_by) for one in gate.grants()] == [
        ("run", "always", "make x", "tester"), ("noop", "turn", None, "tester")
    ]  # fmt: skip
    assert all(one.evidence and one.created_at and one.workspace == str(tmp_path) for one in began)
    for one in gate.grants():
        gate.revoke(one.id)
    assert gate.grants() == []
    assert ended == began
    assert not step(gate, call(RUN, tmp_path, command="make x"), RUN).allowed
    with pytest.raises(ConfigError, match="no grant 'g'"):
        gate.revoke("g")


class Door:
    """An asker for sessions: each question waits until the test answers it."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.answers: list[str] = []
        self.open = 0

    async def ask(self, question: Question) -> Answer:
        """The next answer, after everyone else had a chance to run."""
        self.open += 1
        assert self.open == 1, "two prompts at once"
        self.questions.append(question)
        await anyio.wait_all_tasks_blocked()
        self.open -= 1
        return Answer(answer=self.answers.pop(0))


def together(tmp_path: Path, commands: list[str], answers: list[str]) -> tuple[list[bool], int]:
    """Check these commands at once; tells which were allowed, and how many questions it took."""
    door = Door()
    door.answers = answers
    results: dict[int, Decision] = {}

    async def main() -> None:
        lock = anyio.Lock()

        @asynccontextmanager
        async def turnstile() -> AsyncIterator[None]:
            async with lock:
                yield

        def enter() -> AbstractAsyncContextManager[None]:
            return turnstile()

        gate = Gate(Policy(), asker=door, workspace=tmp_path, turnstile=enter)

        async def one(index: int, command: str) -> None:
            results[index] = await gate.check(call(RUN, tmp_path, f"c{index}", command=command), RUN)

        async with anyio.create_task_group() as group:
            for index, command in enumerate(commands):
                group.start_soon(one, index, command)
        later = Gate(Policy(), workspace=tmp_path)
        assert not (await later.check(call(RUN, tmp_path, command="make z"), RUN)).allowed

    anyio.run(main)
    return [results[index].allowed for index in range(len(commands))], len(door.questions)


@pytest.mark.spec("S0", "Parallel Tool Execution")
def test_prompts_come_one_at_a_time(tmp_path: Path) -> None:
    """Eight calls that wait are asked about one after the other."""
    assert together(tmp_path, [f"make {n}" for n in range(8)], ["y"] * 8) == ([True] * 8, 8)


@S4
def test_all_allows_what_is_pending_and_nothing_else(tmp_path: Path) -> None:
    """`all` settles every waiting question, but not one about a control path."""
    commands = [*(f"make {n}" for n in range(7)), "cp x .git/config"]
    assert together(tmp_path, commands, ["all", "n"]) == ([True] * 7 + [False], 2)


@C4
def test_a_grant_settles_the_waiting_questions_it_covers(tmp_path: Path) -> None:
    """After `turn` for one of several waiting calls, those it covers are not asked about."""
    commands = ["pytest a", "pytest b", "make x", "pytest c"]
    assert together(tmp_path, commands, ["t", "n"]) == ([True, True, False, True], 2)


@S4
def test_all_is_nothing_lasting(tmp_path: Path) -> None:
    """A call that comes after `all` is asked about."""
    gate, script = gate_of(tmp_path, "all", "n")
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert gate.grants() == []
    assert len(script.questions) == 2


def test_an_asker_that_fails_never_allows(tmp_path: Path) -> None:
    """An exception of the asker reaches the caller, and nothing is left waiting."""

    def broken() -> Answer:
        raise RuntimeError("gone")

    gate, _ = gate_of(tmp_path, broken, "all")
    with pytest.raises(RuntimeError, match="gone"):
        step(gate, call(NOOP, tmp_path), NOOP)
    assert gate._waiting == []


def test_the_gate_needs_no_loop_and_no_threads() -> None:
    """Importing the gate loads neither an event loop nor threads."""
    code = "import sys, jaato.tools.permissions as p; print(sorted({'asyncio','anyio','threading','concurrent'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path[:] = " + repr(sys.path) + "; " + code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_arguments_of_run_are_part_of_the_command(tmp_path: Path) -> None:
    """`args` are judged with the command; a program with a blank in its name is asked about."""
    gate = Gate(Policy.of({"whitelist": {"patterns": ["git push *"]}}), workspace=tmp_path)

    def effect(command: str, args: Any) -> str:
        return gate.explain(call(RUN, tmp_path, command=command, args=args), RUN).effect

    assert effect("git", ["push", "a;b"]) == "allow"
    assert effect("git", ["pull"]) == "ask"
    assert effect("git push", ["x"]) == "ask"
    assert effect("git", "push") == "ask"
