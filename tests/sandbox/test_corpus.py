"""A thousand commands of ordinary work, in thirty projects: how often somebody is asked, beside asking for each.

`corpus.tsv` has a project and its mode on a line with `#`, below it a command a line: what it does (`r` reads, `w` writes in the
workspace, `n` needs hosts), the answer that its user gives if asked, the hosts, the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.permissions.ground import RUN, Script, call, enforced, step

from jaato.protocol.specs import Mode
from jaato.tools.permissions.access import READ_ONLY
from jaato.tools.permissions.gate import Gate, Policy

CORPUS = Path(__file__).with_name("corpus.tsv")
MODES: dict[str, Mode] = {"ask": "ask", "accept-edits": "accept-edits", "auto": "auto"}


@dataclass
class Project:
    """One project of the corpus: its commands as (kind, answer, hosts, command)."""

    name: str
    mode: Mode
    commands: list[tuple[str, str, list[str], str]] = field(default_factory=list)


def projects() -> Iterator[Project]:
    """The corpus."""
    found: Project | None = None
    for line in CORPUS.read_text().splitlines():
        if line.startswith("# "):
            if found is not None:
                yield found
            name, _, mode = line[2:].partition(": ")
            found = Project(name, MODES[mode])
            continue
        kind, answer, hosts, command = line.split("\t", 3)
        assert found is not None
        found.commands.append((kind, answer, hosts.split(",") if hosts else [], command))
    if found is not None:
        yield found


def questions_of(project: Project, place: Path) -> int:
    """How many questions the user of a project answers, over a session for every ten commands."""
    workspace = place / "work"
    workspace.mkdir()
    asked = 0
    for start in range(0, len(project.commands), 10):
        policy = Policy.load(
            workspace / ".jaato" / "permissions.json", workspace=workspace, state_dir=place / "state"
        )
        script = Script()
        gate = Gate(
            policy.with_flags(mode=project.mode), asker=script, workspace=workspace, profiles=enforced
        )
        for kind, answer, hosts, command in project.commands[start : start + 10]:
            script.answers = [answer]
            before = len(script.questions)
            given = {"r": [], "w": ["write"], "n": ["write", *(f"net:{host}" for host in hosts)]}[kind]
            more = {"need": given, "reason": "it writes"} if given else {}
            decision = step(gate, call(RUN, workspace, command=command, **more), RUN)
            assert decision.allowed, command
            assert decision.permission.access is not None
            if kind == "r" and project.mode != "auto":
                assert decision.permission.access == READ_ONLY, command
                assert len(script.questions) == before, command
            elif kind != "r":
                assert decision.permission.access.profile == "workspace-write", command
                assert decision.permission.access.domains == tuple(hosts), command
        asked += len(script.questions)
    return asked


@pytest.mark.slow
def test_ordinary_work_asks_a_fifth_as_often_as_asking_for_each(tmp_path: Path) -> None:
    """At least four of five questions are spared; the share is printed."""
    total = asked = 0
    for project in projects():
        place = tmp_path / project.name
        place.mkdir()
        total += len(project.commands)
        asked += questions_of(project, place)
    print(f"{asked} questions for {total} commands: {100 - 100 * asked / total:.1f} % fewer")
    assert total >= 1_000
    assert asked <= total / 5, f"{asked} questions for {total} commands"
