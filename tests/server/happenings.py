"""A session in which everything happens, at random but in an order that can be, written by a real journal."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from jaato.agent.journal import Journal
from jaato.agent.state import State
from jaato.protocol.events import (
    AgentCreated,
    AgentOutput,
    AgentStatusChanged,
    BackgroundUpdated,
    ContextUpdated,
    ErrorRaised,
    MessageModel,
    MessageUser,
    PermissionRequested,
    PermissionResolved,
    PlanUpdated,
    Retry,
    SessionCreated,
    SessionUpdated,
    ToolActivated,
    ToolCallEnd,
    ToolCallStart,
    ToolOutput,
    TurnCompleted,
)
from jaato.protocol.events.turn import Permission
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Problem, Text, ToolResult, Usage
from jaato.protocol.specs import Plan, PlanStep
from jaato.storage.sqlite import SqliteStore

WORDS = "all is well ünïcode 日本 \n\t“quoted” and then some more".split(" ")


class Happenings:
    """A journal on a real store, and a hand that makes the next thing happen."""

    def __init__(self, directory: Path, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.store = SqliteStore(directory / "jaato.db")
        self.journal = Journal(self.store, State(session_id=new_id("s"), agent_id=new_id("a")))
        head = self.journal.head
        self.journal.begin(
            SessionCreated(**head(), workspace=str(directory), name="test"),
            AgentCreated(
                **head(), name="main", provider="p", model="m", system_prompt="be good", core_tools=["run"]
            ),
        )
        self.offsets: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.questions: list[tuple[str, str]] = []
        self.turn = ""

    def text(self, most: int = 8) -> str:
        """Some words."""
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, most)))

    def step(self) -> None:
        """The next thing happens."""
        {
            "delta": self._delta,
            "output": self._output,
            "message": self._message,
            "call": self._call,
            "question": self._question,
            "rest": self._rest,
        }[
            self.random.choices(
                ("delta", "output", "message", "call", "question", "rest"), (50, 20, 10, 10, 5, 5)
            )[0]
        ]()

    def record(self, kind: Any, **fields: Any) -> None:
        """A durable event."""
        self.journal.record(kind(**self.journal.head(), **fields))

    def show(self, kind: Any, **fields: Any) -> None:
        """An ephemeral event."""
        self.journal.show(kind(**self.journal.shown(), **fields))

    def _delta(self) -> None:
        source = self.random.choice(("model", "thinking"))
        offset = self.offsets.get(source, 0)
        text = self.text()
        self.show(AgentOutput, source=source, text=text, mode="append" if offset else "write", offset=offset)
        self.offsets[source] = offset + len(text)

    def _output(self) -> None:
        if not self.calls:
            self._call()
        call_id = self.random.choice(list(self.calls))
        text = self.text() * self.random.choice((1, 1, 1, 400))
        self.show(ToolOutput, call_id=call_id, text=text, offset=self.calls[call_id])
        self.calls[call_id] += len(text)

    def _message(self) -> None:
        if not self.turn:
            self.turn = new_id("t")
            message = Message("user", [Text(self.text(30))], id=new_id("m"))
            self.record(MessageUser, message=message, turn_id=self.turn)
        elif self.random.random() < 0.5:
            self.offsets.clear()
            message = Message("assistant", [Text(self.text(30))], id=new_id("m"))
            used = Usage(input_tokens=self.random.randint(1, 9), output_tokens=2)
            self.record(
                MessageModel,
                message=message,
                turn_id=self.turn,
                finish_reason="stop",
                usage=used,
                cost_usd=0.01,
            )
        else:
            self.offsets.clear()
            self.record(
                TurnCompleted,
                turn_id=self.turn,
                reason="stop",
                usage=Usage(),
                model_calls=1,
                tool_calls=0,
                duration_s=0.1,
            )
            self.turn = ""

    def _call(self) -> None:
        if len(self.calls) > 3:
            call_id = self.random.choice(list(self.calls))
            del self.calls[call_id]
            result = ToolResult(call_id, "run", True, [Text(self.text(60))])
            self.record(ToolCallEnd, call_id=call_id, tool="run", result=result, duration_s=0.2)
            return
        call_id = new_id("c")
        self.calls[call_id] = 0
        self.record(ToolCallStart, call_id=call_id, tool="run", arguments={"command": self.text()})

    def _question(self) -> None:
        if self.questions:
            question_id, call_id = self.questions.pop()
            yes = Permission("allowed", "answered y", "user_approved")
            self.record(
                PermissionResolved, question_id=question_id, call_id=call_id, answer="y", permission=yes
            )
            return
        self.questions.append((new_id("q"), new_id("c")))
        question_id, call_id = self.questions[-1]
        self.record(
            PermissionRequested,
            question_id=question_id,
            call_id=call_id,
            tool="run",
            arguments={"command": "ls"},
            digest="d",
            reason="r",
            options=["y", "n"],
        )

    def _rest(self) -> None:
        problem = Problem("provider_unreachable", self.text())
        match self.random.randint(0, 7):
            case 0:
                self.show(Retry, attempt=1, max_attempts=3, wait_s=0.1, error=problem)
                self.offsets.clear()
            case 1:
                self.record(ErrorRaised, error=problem)
            case 2:
                self.record(SessionUpdated, name=self.text(2), model=self.random.choice(("m", "n", None)))
            case 3:
                self.record(ToolActivated, tools=[self.random.choice(("a", "b", "c"))])
            case 4:
                step = PlanStep("1", self.text(), "in_progress")
                self.record(PlanUpdated, plan=Plan(self.random.choice("xy"), self.text(), [step], "active"))
            case 5:
                status = self.random.choice(("running", "completed"))
                self.record(BackgroundUpdated, task_id="b1", tool="run", plugin="cli", status=status)
            case 6:
                reason = self.random.choice((None, "waiting"))
                self.show(AgentStatusChanged, status=self.random.choice(("active", "blocked")), reason=reason)
            case _:
                tokens = self.random.randint(1, 10_000)
                self.show(
                    ContextUpdated, total_tokens=tokens, context_limit=20_000, percent_used=tokens / 200
                )
