"""What the tests of permissions stand on: a workspace, a gate, a way to step it, an asker with a script."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from jaato.abc.asker import Answer, Question
from jaato.protocol.specs import Access, SandboxProfile, ToolSpec
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Decision, Gate, Policy, Verdict
from jaato.tools.tool import Tool

C4 = pytest.mark.spec("C4", "Permissions")
S4 = pytest.mark.spec("S4", "9. Permission Responses Are Granular")
S1 = pytest.mark.spec("S1", "Permission Integration")


def nothing(_arguments: dict[str, Any], _call: Call) -> None:
    """Run nothing."""


def tool(
    name: str, access: Access = "execute", required: Iterable[str] = (), category: str = "", **more: Any
) -> Tool:
    """A tool to ask about."""
    names = list(required)
    schema = {"type": "object", "properties": {one: {} for one in names}, "required": names}
    return Tool(ToolSpec(name, "", schema, category=category, access=access), nothing, **more)


RUN = tool("run", "execute", ["command"], aliases={"cli_based_tool": {"cmd": "command"}}, confines=True)
FREE = tool("run", "execute", ["command"], aliases={"cli_based_tool": {"cmd": "command"}})
"""A tool of this name that starts commands without a sandbox, as an embedding program's own."""
READ = tool("readFile", "read", ["path"])
WRITE = tool("writeNewFile", "write", ["path", "content"], aliases={"writeFile": {}})
FETCH = tool("fetch_url", "network", ["url"])
NOOP = tool("noop")


PROFILES: frozenset[SandboxProfile] = frozenset(("read-only", "workspace-write"))


def enforced() -> frozenset[SandboxProfile]:
    """The profiles of a machine with a sandbox; nothing is started by these tests."""
    return PROFILES


class Script:
    """An asker that gives these answers in turn and keeps the questions; None at the end."""

    def __init__(self, *answers: str | Answer | Callable[[], Any] | None) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Answer | None:
        """The next answer."""
        self.questions.append(question)
        if not self.answers:
            return None
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer()
        return Answer(answer=answer, by="tester") if isinstance(answer, str) else answer


def call(tool: Tool, workspace: Path, call_id: str = "c1", /, **arguments: Any) -> Call:
    """A call of a tool."""
    return Call(call_id, tool.name, arguments, workspace=workspace)


def step(gate: Gate, one: Call, of: Tool) -> Decision:
    """Check a call without a loop."""
    waiting = gate.check(one, of)
    try:
        waiting.send(None)
    except StopIteration as done:
        decision: Decision = done.value
        return decision
    waiting.close()
    raise AssertionError("the check suspended")


def explain(command: str, workspace: Path, patterns: Iterable[str] = (), **document: Any) -> Verdict:
    """What would become of a shell command under these whitelist patterns."""
    policy = Policy.of({"whitelist": {"patterns": list(patterns)}, **document})
    gate = Gate(policy, workspace=workspace, profiles=enforced)
    return gate.explain(call(RUN, workspace, command=command), RUN)


def reach(command: str, workspace: Path, patterns: Iterable[str] = (), **document: Any) -> str:
    """What a shell command may reach unasked under these whitelist patterns; else `ask` or `deny`."""
    verdict = explain(command, workspace, patterns, **document)
    assert verdict.access is not None or verdict.effect == "deny"
    return verdict.access.profile if verdict.effect == "allow" and verdict.access else verdict.effect


def make_workspace(root: Path) -> Path:
    """A small repository with traps: links that lead out, a FIFO, a secret beside it."""
    work = root / "work"
    (work / "src").mkdir(parents=True)
    (work / "a.txt").write_text("foo\nbar\n")
    (work / "src" / "b.py").write_text("pass\n")
    (root / "secret").write_text("secret\n")
    (work / "link-out").symlink_to("/etc/passwd")
    (work / "link-dir").symlink_to("/etc")
    os.mkfifo(work / "fifo")
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(work)], check=True, env=environ)
    bare = work / "evil"
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "config").write_text("[core]\n\tfsmonitor = ./x\n")
    hooks = work / "hooked" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-index-change").write_text("#!/bin/sh\n")
    (work / "linked").mkdir()
    (work / "linked" / ".git").write_text("gitdir: ../evil\n")
    return work


def gate_of(tmp_path: Path, *answers: Any, **document: Any) -> tuple[Gate, Script]:
    """A gate with a policy file of its own in a workspace, and a scripted asker."""
    script = Script(*answers)
    state = tmp_path / "state"
    policy = Policy.load(tmp_path / ".jaato" / "permissions.json", workspace=tmp_path, state_dir=state)
    if document:
        policy = Policy.of(document)
    return Gate(policy, asker=script, workspace=tmp_path, profiles=enforced), script
