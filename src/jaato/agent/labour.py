"""The work of subagents: each task in its own coroutine, bounded in number, told to the parent when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from jaato.agent.child import STOPPING_S, Child, Ending, NoSubagent, ending_of
from jaato.agent.compose import Author
from jaato.agent.places import Places
from jaato.agent.suspension import take_up
from jaato.errors import JaatoError
from jaato.protocol.events import AgentCompleted, AgentStatusChanged
from jaato.protocol.messages import Source
from jaato.tools.call import CURRENT

if TYPE_CHECKING:
    from jaato.agent.crew import Crew
    from jaato.agent.session import Session

TOLD_CHARS = 4_000
"""How much of a result a parent is told unasked; get_subagent_result has all of it."""
SUMMARY_CHARS = 500
STOPPED: tuple[Ending, str] = ("cancelled", "It was stopped.")
BROKEN: tuple[Ending, str] = ("failed", "It broke off; the program's log says why.")


class Labour:
    """Runs the tasks of a session's subagents beside the turns of those who gave them."""

    def __init__(self, crew: Crew, root: Session) -> None:
        self._crew = crew
        self._root = root
        self._places: Places | None = None

    @property
    def places(self) -> Places:
        """Where those at work are counted."""
        if self._places is None:
            self._places = Places(self._crew.limits.at_once)
        return self._places

    async def resume(self, child: Child) -> None:
        """Go on with a task that was cut off. Raises as `start`."""
        begun = child.session.state.open_turn is not None or child.member.last_turn is not None
        task = None if begun or child.member.tasked else child.created.task
        await self.start(child, task, once=child.created.call_id)

    async def start(self, child: Child, text: str | None, source: Source = "parent", once: str = "") -> None:
        """Give an idle subagent a task; without one it goes on with its turn, or with what it was told. Raises
        `NoSubagent` when the session is closed."""
        self._crew.refuse_if_closed()
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
                self._ended(child, ending, problem)

        try:
            await self._root.background(body)
        except BaseException:
            self._ended(child, *STOPPED)
            raise

    async def _work(self, child: Child, text: str | None, source: Source, once: str) -> tuple[Ending, str]:
        timeout_s = child.bounds.timeout_s
        turn = None
        try:
            with anyio.move_on_after(timeout_s) as scope:
                await self.places.enter(child)
                if self._root.recruiter is not None:
                    await self._root.recruiter.outfit(child.session, child.created)
                if text is not None:
                    turn = await child.session.post(text, source=source, by=Author(once=once))
                else:
                    turn = await take_up(child.session) or child.member.last_turn
                while turn is not None and turn.reason == "stop":
                    await self._await_below(child)
                    if not child.session.inbox:
                        break
                    turn = await child.session.heed()
        except JaatoError as error:
            return "failed", str(error)
        if scope.cancelled_caught:
            return "failed", f"It did not finish within {timeout_s:g} s and was stopped."
        return ending_of(turn)

    async def _await_below(self, child: Child) -> None:
        """A task is not done while those it was shared with work on it."""
        for one in self._crew.below(child.id):
            if one.at_work:
                async with self.places.aside(child):
                    await one.ended.wait()

    def _ended(self, child: Child, ending: Ending, problem: str) -> None:
        """Its task is over, whatever happened."""
        self.places.leave(child)
        self._crew.stop_below(child.id)
        well = ending == "completed"
        text = child.last_text() if well else problem
        child.told = child.awaited > 0
        try:
            self.record_end(child, ending, text)
        finally:
            child.ended.set()
        journal = child.session.journal
        status = AgentStatusChanged(
            **journal.shown(), status="done" if well else "error", reason=None if well else problem
        )
        journal.show(status)

    def record_end(self, child: Child, ending: Ending, text: str) -> None:
        """Record how a task ended, in one commit with the message to its parent, if that is not waiting for it."""
        journal = child.session.journal
        done = AgentCompleted(
            **journal.head(),
            success=ending == "completed",
            summary=text[:SUMMARY_CHARS] or None,
            reason=ending,
        )
        if child.told:
            journal.record(done)
            return
        cut = len(text) > TOLD_CHARS
        more = f" … (get_subagent_result has all {len(text)} characters)" if cut else ""
        said = f"The subagent {child.name} ({child.id}): {ending}.\n{text[:TOLD_CHARS]}{more}"
        child.parent.notice(said, "child", done)
        child.told = not cut

    async def wait(self, by: str, child: Child, wait_s: float | None = None) -> None:
        """Until it has no task, at most so long; `by` gives its place away meanwhile."""
        child.awaited += 1
        try:
            async with self.places.aside(self._crew.children.get(by)):
                with anyio.move_on_after(wait_s):
                    await child.ended.wait()
        finally:
            child.awaited -= 1

    async def see_through(self, by: str, child: Child) -> dict[str, Any]:
        """Wait for a task to its end; when the waiting is cancelled, so is the task. Raises `NoSubagent` with what went
        wrong in it."""
        try:
            await self.wait(by, child)
        except BaseException:
            child.stop()
            with anyio.move_on_after(STOPPING_S, shield=True):
                await child.ended.wait()
            raise
        child.told = True
        report = child.report()
        if child.status == "failed":
            said = f" It said before: {report['result'][:1_000]}" if report.get("result") else ""
            raise NoSubagent(f"The subagent {child.name} ({child.id}) failed: {report['error']}{said}")
        return report
