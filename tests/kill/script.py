"""A session's script with side effects of every kind, for a daemon that is killed in the middle of it."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from itertools import takewhile

from tests.kill.fuse import FUSE
from tests.kit import call, calls, say

from jaato.abc.provider import Chunk, ModelRequest, TextDelta
from jaato.errors import ProviderError
from jaato.protocol.messages import Message, Text, ToolResult
from jaato.protocol.specs import ModelInfo
from jaato.providers.scripted import Step, pieces, reply_of
from jaato.tools.call import Call
from jaato.tools.tool import tool

LEDGER = "ledger"
"""In the workspace: one line for every time a tool has run, its call and the name of its effect."""
ALLOWED = ("quiet", "in_thread")
ASKED = re.compile(r"\b(act|part) (\w+)")
TASK = re.compile(r"\bb[0-9A-HJKMNP-TV-Z]{26}\b")


def mark(call: Call, name: str) -> str:
    """The effect itself; death may come before it and after it."""
    FUSE.burn()
    line = f"{call.id} {name}\n".encode()
    file = os.open(call.workspace / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line)
    os.close(file)
    FUSE.burn()
    return f"did {name}"


@tool(core=True, access="write")
async def effect(name: str, *, call: Call) -> str:
    """Leave a mark; the user is asked first."""
    return mark(call, name)


@tool(core=True, access="write")
async def quiet(name: str, *, call: Call) -> str:
    """Leave a mark; nobody is asked."""
    return mark(call, name)


@tool(core=True, access="write")
def in_thread(name: str, *, call: Call) -> str:
    """Leave a mark from a worker thread."""
    return mark(call, name)


TOOLS = (effect, quiet, in_thread)


def several(kind: str, name: str, count: int) -> Step:
    """As many parallel effects."""
    return calls(*[(kind, {"name": f"{name}{number}"}) for number in range(count)])


def look(request: ModelRequest) -> Step:
    """Read what the newest background task has come to."""
    said = " ".join(text_of(message) for message in request.messages)
    return call("get_background_output", task_id=(TASK.findall(said) or ["b"])[-1])


ACTS: dict[str, list[Step | Callable[[ModelRequest], Step]]] = {
    "talk": [say("Hello, and a few more words, which come in pieces.", chunks=3)],
    "one": [call("effect", name="one"), say("done")],
    "wide": [several("quiet", "wide", 8), say("done")],
    "asked": [several("effect", "asked", 4), say("done")],
    "threads": [several("in_thread", "thread", 6), say("done")],
    "clear": [
        call("request_clarification", context="which?", questions=["this one?", "or that?"]),
        call("quiet", name="clear"),
        say("done"),
    ],
    "plan": [
        call("createPlan", title="much", steps=["a", "b"]),
        calls(("setStepStatus", {"step_id": "1", "status": "completed"}), ("quiet", {"name": "planned"})),
        call("addStep", description="c"),
        call("completePlan"),
        say("done"),
    ],
    "back": [
        call("start_background", tool="quiet", args={"name": "back"}),
        look,
        call("start_background", tool="in_thread", args={"name": "back2"}),
        say("done"),
    ],
    "hand": [
        calls(("delegate", {"task": "part one", "name": "one"}), ("quiet", {"name": "beside"})),
        say("done"),
    ],
    "hands": [
        calls(
            ("delegate", {"task": "part two", "name": "two", "background": True}),
            ("delegate", {"task": "part three", "name": "three"}),
        ),
        call("get_subagent_result", agent_id="two"),
        call("set_shared_state", key="so far", value=1),
        say("done"),
    ],
    "files": [
        call("create_waypoint", description="before"),
        calls(
            ("writeNewFile", {"path": "a", "content": "first\n"}),
            ("writeNewFile", {"path": "b", "content": "first\n"}),
        ),
        call("updateFile", path="a", old="first", new="first, second"),
        call("create_waypoint", description="between"),
        call("updateFile", path="b", old="first", new="first, second"),
        call("restore_waypoint", waypoint_id="w2"),
        say("done"),
    ],
    "shell": [call("run", command=f'echo "$$ shell" >> {LEDGER}', need=["write"]), say("done")],
    "queued": [several("quiet", "before", 2), several("effect", "while", 2), say("not heard")],
    "extra": [call("quiet", name="extra"), say("done")],
    "long": [*[several("quiet", f"long{round_}_", 2) for round_ in range(48)], say("done")],
    "forked": [call("effect", name="forked"), several("quiet", "forked", 3), say("done")],
}
"""By what the user says: `act NAME`."""

PARTS: dict[str, list[Step | Callable[[ModelRequest], Step]]] = {
    "one": [several("effect", "part_one", 2), call("quiet", name="part_one"), say("one is done")],
    "two": [several("quiet", "part_two", 3), call("effect", name="part_two"), say("two is done")],
    "three": [
        calls(("delegate", {"task": "part deep", "name": "deep"}), ("quiet", {"name": "part_three"})),
        say("three is done"),
    ],
    "deep": [call("quiet", name="part_deep"), say("deep is done")],
}
"""By what a subagent is told: `part NAME`."""


class Player:
    """A model that says the lines of the last thing it was asked: a function of the conversation alone, so that it goes on
    in another process as it would have in this one."""

    name = "scripted"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """The next line."""
        since = list(takewhile(lambda message: not asked(message), reversed(request.messages)))
        opening = asked(request.messages[-1 - len(since)])
        script = (ACTS if opening[0] == "act" else PARTS)[opening[1]]
        at = sum(message.role == "assistant" for message in since)
        if at >= len(script) and request.messages[-1].source in ("system", "child"):
            script = [*script, *[say("noted")] * (at + 1 - len(script))]  # woken by work in the background
        if at >= len(script):
            raise ProviderError(f"{opening} has no line {at}.", provider=self.name)
        line = script[at]
        FUSE.burn()
        step = line if isinstance(line, Step) else line(request)
        for piece in pieces(step.text, step.chunks):
            yield TextDelta(piece)
            FUSE.burn()
        yield reply_of(step)

    def model_info(self, model: str) -> ModelInfo:
        """A model with room enough."""
        return ModelInfo(id=model, provider=self.name, context_limit=1_000_000)

    async def models(self) -> list[ModelInfo]:
        """The one model there is."""
        return [self.model_info("script")]

    async def aclose(self) -> None:
        """Nothing is open."""


def asked(message: Message) -> tuple[str, ...]:
    """What a message asks for: `act` or `part`, and which."""
    if message.role != "user" or message.source not in ("user", "parent"):
        return ()
    found = ASKED.search(message.text)
    return (found[1], found[2]) if found else ()


def text_of(message: Message) -> str:
    """The text of a message and of the results in it."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    return message.text + "".join(
        part.text for result in results for part in result.content if isinstance(part, Text)
    )
