"""What the model must still know of what it does not read any more."""

from __future__ import annotations

from jaato.agent.compaction.answers import cut
from jaato.agent.state import State
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Text

MAX_TASKS, MAX_STEPS_CHARS, LEAST_STEP_CHARS, TITLE_CHARS = 50, 4_000, 12, 200
SIGNS = {"completed": "x", "in_progress": ">", "failed": "!", "skipped": "-", "pending": " "}


def note_of(state: State, gone: int) -> Message:
    """That something is missing, which tasks run, and the open plan with every step, long ones cut."""
    lines = [f"[system] {gone} earlier messages were left out to make room."]
    running = [task for task in state.tasks.values() if task.status == "running"]
    lines += [
        f"Background task {task.task_id} ({cut(task.tool, 64)}) still runs." for task in running[-MAX_TASKS:]
    ]
    plan = state.plan
    if plan is not None and plan.status in ("draft", "active"):
        room = max(LEAST_STEP_CHARS, MAX_STEPS_CHARS // max(1, len(plan.steps)))
        lines.append(f"Your open plan {plan.id}: {cut(plan.title, TITLE_CHARS)}")
        lines += [f"[{SIGNS[step.status]}] {step.id}: {cut(step.description, room)}" for step in plan.steps]
    return Message("user", [Text("\n".join(lines))], id=new_id("m"), source="system")
