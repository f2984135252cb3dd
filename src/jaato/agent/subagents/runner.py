"""Runs the tasks of subagents as coroutines; slots limit how many run at once, and parents are notified of results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from jaato.agent.background_tasks import BackgroundGroup
from jaato.agent.inbox import Author
from jaato.agent.subagents.subagent import (
    STOPPING_S,
    AgentSession,
    Ending,
    Subagent,
    SubagentError,
    ending_of,
)
from jaato.errors import JaatoError
from jaato.protocol.events import AgentCompleted, AgentStatusChanged
from jaato.protocol.messages import Source
from jaato.tools.call import CURRENT

NOTICE_CHARS = 4_000
"""Characters of a result in the notification to the parent; get_subagent_result has all of it."""
SUMMARY_CHARS = 500
STOPPED: tuple[Ending, str] = ("cancelled", "It was stopped.")
BROKEN: tuple[Ending, str] = ("failed", "It broke off; the program's log says why.")


class Slots:
    """Concurrency limit for working subagents. An agent that waits for another one frees its slot, so that the leaves of the
    tree can always run."""

    def __init__(self, limit: int) -> None:
        self._free = anyio.Semaphore(limit)

    async def enter(self, child: Subagent) -> None:
        """Wait for a free slot."""
        await self._free.acquire()
        child.has_slot = True

    def leave(self, child: Subagent) -> None:
        """Free the agent's slot: it has ended, or waits."""
        if child.has_slot:
            child.has_slot = False
            self._free.release()

    @asynccontextmanager
    async def aside(self, child: Subagent | None) -> AsyncIterator[None]:
        """Free the agent's slot while it waits for others; None is the root, which has no slot."""
        if child is None:
            yield
            return
        child.waits += 1
        self.leave(child)
        try:
            yield
        finally:
            child.waits -= 1
        if not child.waits and child.at_work and not child.has_slot:
            await self.enter(child)


class SubagentRunner:
    """Runs the tasks of a session's subagents beside the turns of those who gave them. `below` gives the open subagents
    of an agent, at any depth."""

    def __init__(
        self,
        root: AgentSession,
        group: BackgroundGroup,
        at_once: int,
        below: Callable[[str], list[Subagent]],
    ) -> None:
        self._root = root
        self._group = group
        self._below = below
        self.slots = Slots(at_once)
        self.is_closed = False

    def check_open(self) -> None:
        """Raise `SubagentError` when the session is about to end."""
        if self.is_closed:
            raise SubagentError("The session is closing; nothing new begins in it.")

    async def resume(self, child: Subagent) -> None:
        """Resume an interrupted task. Raises as `start`."""
        begun = child.session.state.open_turn is not None or child.record.last_turn is not None
        task = None if begun or child.record.has_new_task else child.created.task
        await self.start(child, task, once=child.created.call_id)

    async def start(
        self, child: Subagent, text: str | None, source: Source = "parent", once: str = ""
    ) -> None:
        """Start a task of an idle subagent; without a text it resumes its turn, or runs its queued messages. Raises
        `SubagentError` when the session is closed."""
        self.check_open()
        child.begin()

        async def body() -> None:
            CURRENT.set(None)  # the call that began it is not the one it works in
            ending, problem = BROKEN[0], BROKEN[1]
            try:
                with child.scope:
                    try:
                        ending, problem = await self._work(child, text, source, once)
                    except anyio.get_cancelled_exc_class():
                        ending, problem = STOPPED
                        raise
            finally:
                self._finish(child, ending, problem)

        try:
            await self._group.start(body)
        except BaseException:
            self._finish(child, *STOPPED)
            raise

    async def _work(self, child: Subagent, text: str | None, source: Source, once: str) -> tuple[Ending, str]:
        timeout_s = child.bounds.timeout_s
        turn = None
        try:
            with anyio.move_on_after(timeout_s) as scope:
                await self.slots.enter(child)
                session = child.session
                session.model.streaming = self._root.model.streaming
                _ = session.model.provider  # one that cannot be opened fails the task, before its first turn
                if text is not None:
                    turn = await child.session.post(text, source=source, author=Author(once=once))
                else:
                    turn = await child.session.resume_task() or child.record.last_turn
                while turn is not None and turn.reason == "stop":
                    await self._await_below(child)
                    if not child.session.inbox.messages:
                        break
                    turn = await child.session.run_queued()
        except JaatoError as error:
            return "failed", str(error)
        if scope.cancelled_caught:
            return "failed", f"It did not finish within {timeout_s:g} s and was stopped."
        return ending_of(turn)

    async def _await_below(self, child: Subagent) -> None:
        """Wait for the subagents below: a task has not ended while they work."""
        for one in self._below(child.id):
            if one.at_work:
                async with self.slots.aside(child):
                    await one.ended.wait()

    def _finish(self, child: Subagent, ending: Ending, problem: str) -> None:
        """Record the end of a task, stop the subagents below, and free the slot."""
        self.slots.leave(child)
        for one in self._below(child.id):
            one.stop()
        well = ending == "completed"
        text = child.last_text() if well else problem
        child.result_delivered = child.awaited > 0
        try:
            self.record_end(child, ending, text)
        finally:
            child.ended.set()
        journal = child.session.journal
        status = AgentStatusChanged(
            **journal.shown(), status="done" if well else "error", reason=None if well else problem
        )
        journal.show(status)

    def record_end(self, child: Subagent, ending: Ending, text: str) -> None:
        """Record how a task ended, in one commit with the message to its parent, if that is not waiting for it."""
        journal = child.session.journal
        done = AgentCompleted(
            **journal.head(),
            success=ending == "completed",
            summary=text[:SUMMARY_CHARS] or None,
            reason=ending,
        )
        if child.result_delivered:
            journal.record(done)
            return
        cut = len(text) > NOTICE_CHARS
        more = f" … (get_subagent_result has all {len(text)} characters)" if cut else ""
        notice = f"The subagent {child.name} ({child.id}): {ending}.\n{text[:NOTICE_CHARS]}{more}"
        child.parent.inbox.notify(notice, "child", done)
        child.result_delivered = not cut

    async def wait(self, by: Subagent | None, child: Subagent, wait_s: float | None = None) -> None:
        """Wait for the end of its task, up to `wait_s`; `by`, None for the root, frees its slot meanwhile."""
        child.awaited += 1
        try:
            async with self.slots.aside(by):
                with anyio.move_on_after(wait_s):
                    await child.ended.wait()
        finally:
            child.awaited -= 1

    async def see_through(self, by: Subagent | None, child: Subagent) -> dict[str, Any]:
        """Wait for a task; when the waiting is cancelled, so is the task. Raises `SubagentError` for one that failed."""
        try:
            await self.wait(by, child)
        except BaseException:
            child.stop()
            with anyio.move_on_after(STOPPING_S, shield=True):
                await child.ended.wait()
            raise
        child.result_delivered = True
        report = child.report()
        if child.status == "failed":
            partial = f" Its output before: {report['result'][:1_000]}" if report.get("result") else ""
            raise SubagentError(f"The subagent {child.name} ({child.id}) failed: {report['error']}{partial}")
        return report
