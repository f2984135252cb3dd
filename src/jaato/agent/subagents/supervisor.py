"""Supervises the subagents of a session: spawns, bounds and stops them, and restores them after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import anyio

from jaato.abc.subagents import SubagentRequest
from jaato.agent.background_tasks import BackgroundGroup
from jaato.agent.state import SessionState, SubagentRecord
from jaato.agent.subagents.runner import SubagentRunner
from jaato.agent.subagents.subagent import (
    STOPPING_S,
    AgentSession,
    Ending,
    Subagent,
    SubagentError,
    SubagentLimits,
)
from jaato.protocol.events import AgentCompleted, AgentCreated
from jaato.protocol.ids import new_id

RESERVED = ("main", "parent", "all", "root")


class SubagentFactory(Protocol):
    """Makes the sessions of subagents, from what the agents of a runtime share."""

    limits: SubagentLimits

    async def prepare(
        self, root: AgentSession, parent_id: str, order: SubagentRequest, name: str
    ) -> dict[str, Any]:
        """The fields of the event with which the new agent begins. Raises `JaatoError`s for an invalid order."""
        ...

    def create(self, supervisor: Supervisor, parent_id: str, record: SubagentRecord) -> AgentSession:
        """A session for an agent of the log, not entered yet."""
        ...

    async def aclose(self) -> None:
        """Let go of the providers that were made for subagents."""
        ...


class Supervisor:
    """The open subagents of one root session; their history is in the log."""

    def __init__(
        self,
        root: AgentSession,
        factory: SubagentFactory | None,
        group: BackgroundGroup,
        *,
        keep_interrupted_turns: bool,
    ) -> None:
        self.root = root
        self.subagents: dict[str, Subagent] = {}
        self._factory = factory
        self._keep_interrupted_turns = keep_interrupted_turns
        self.limits = factory.limits if factory is not None else SubagentLimits()
        self.runner = SubagentRunner(root, group, self.limits.at_once, self.below)
        self._making = 0

    @property
    def session_state(self) -> SessionState:
        """What the log says of all agents."""
        return self.root.journal.session_state

    @property
    def root_id(self) -> str:
        """The id of the agent the session belongs to."""
        return self.root.state.agent_id

    # --- who is there ------------------------------------------------------------------------------------------

    def session_of(self, agent_id: str) -> AgentSession:
        """The session of an open agent; the root's for its own id."""
        child = self.subagents.get(agent_id)
        return child.session if child is not None else self.root

    def below(self, agent_id: str) -> list[Subagent]:
        """The open subagents of an agent at any depth, in the order they were made."""
        if agent_id == self.root_id:
            return list(self.subagents.values())
        return [
            child
            for child in self.subagents.values()
            if agent_id in self.session_state.ancestors_of(child.id)
        ]

    def find(self, by: str, who: str, among: Sequence[Subagent] | None = None) -> Subagent:
        """The open subagent of `by` that is meant: its id, name, or an id's unique beginning. Raises `SubagentError`."""
        who = who.strip()
        known = self.below(by) if among is None else among
        named = [child for child in known if who in (child.id, child.name)]
        named = named or [child for child in known if len(who) > 3 and child.id.startswith(who)]
        if len(named) == 1:
            return named[0]
        raise SubagentError(self._unknown_error(by, who, known))

    def _unknown_error(self, by: str, who: str, known: Sequence[Subagent]) -> str:
        import difflib

        for agent_id, record in self.session_state.subagents.items():
            if who == agent_id and record.is_closed:
                return f"The subagent {who} is closed; its result cannot be had any more. Delegate the task again."
            if who == agent_id and by not in self.session_state.ancestors_of(agent_id):
                return f"The agent {who} is not below you; list_active_subagents shows those that are."
        words = {word: child for child in known for word in (child.name, child.id)}
        close = difflib.get_close_matches(who[:200], words, 3, 0.5)
        if close:
            return f"No subagent {who[:80]!r}; did you mean {', '.join(close)}?"
        names = ", ".join(f"{child.name} ({child.id})" for child in known[:8])
        return f"No subagent {who[:80]!r}; there {'are ' + names if names else 'is none'}."

    # --- making ------------------------------------------------------------------------------------------------

    async def spawn(self, by: str, order: SubagentRequest) -> Subagent:
        """A new subagent of `by`, without a task yet. Raises `SubagentError` where a bound is reached."""
        factory = self._factory
        if factory is None or self.runner.is_closed:
            raise SubagentError("This session makes no subagents (any more); do the task yourself.")
        depth = len(list(self.session_state.ancestors_of(by))) + 1
        if depth > self.limits.depth:
            raise SubagentError(
                f"Subagents may nest {self.limits.depth} deep, and you are at that depth; do the task yourself. "
                "The setting subagent_depth says how deep."
            )
        self._making += 1
        try:
            await self._make_room()
            agent_id = new_id("a")
            fields = await factory.prepare(self.root, by, order, self._free_name(order))
            self.runner.check_open()
            journal = self.root.journal
            made = AgentCreated(
                **journal.head(agent_id), parent_agent_id=by, call_id=order.call_id, task=order.task, **fields
            )
            journal.record(made)
            return await self._join(self.session_state.subagents[agent_id], by, depth)
        finally:
            self._making -= 1

    async def _make_room(self) -> None:
        """Evict the oldest subagent that has ended and whose result was delivered. Raises `SubagentError` if there is none."""
        while len(self.subagents) + self._making > self.limits.open:
            done = [one for one in self.subagents.values() if not one.at_work and one.result_delivered]
            leaf = next((one for one in done if not self.below(one.id)), None)
            if leaf is None:
                raise SubagentError(
                    f"This session has {len(self.subagents)} open subagents, and {self.limits.open} is the most. Read "
                    "results with get_subagent_result, or close some with close_subagent."
                )
            await self.dismiss(leaf)

    def _free_name(self, order: SubagentRequest) -> str:
        taken = {*RESERVED, *(child.name for child in self.subagents.values())}
        wanted = (
            order.name or order.profile or ""
        ).strip() or f"agent-{len(self.session_state.subagents) + 1}"
        name, number = wanted, 2
        while name in taken:
            name, number = f"{wanted}-{number}", number + 1
        return name

    def made_by(self, by: str, call_id: str) -> Subagent | None:
        """The subagent that a call has made in an earlier process; None if it came to none. Raises `SubagentError` when it
        is closed by now."""
        for agent_id, record in reversed(self.session_state.subagents.items()):
            made = record.created
            if made is not None and made.call_id == call_id and made.parent_agent_id == by:
                if agent_id in self.subagents:
                    return self.subagents[agent_id]
                raise SubagentError(
                    f"The subagent {made.name} ({agent_id}) is closed; delegate the task again."
                )
        return None

    async def _join(self, record: SubagentRecord, parent_id: str, depth: int) -> Subagent:
        factory, created = self._factory, record.created
        assert factory is not None
        assert created is not None
        session = factory.create(self, parent_id, record)
        above = self.subagents.get(parent_id)
        child = Subagent(
            record, created, session, self.session_of(parent_id), above.name if above else "main", depth
        )
        self.subagents[child.id] = child
        await session.__aenter__()
        return child

    # --- ends --------------------------------------------------------------------------------------------------

    async def all_done(self) -> None:
        """Wait until no subagent has a task."""
        while working := self.working():
            await working[0].ended.wait()

    def working(self) -> list[Subagent]:
        """The subagents that have a task."""
        return [child for child in self.subagents.values() if child.at_work]

    def stop_below(self, agent_id: str) -> None:
        """End the tasks of all its subagents, at any depth."""
        if self.subagents:
            for child in self.below(agent_id):
                child.stop()

    async def cancel(self, child: Subagent) -> None:
        """End its task and those below it, and wait until they have ended."""
        for one in [child, *self.below(child.id)]:
            one.stop()
        with anyio.move_on_after(STOPPING_S):
            for one in [child, *self.below(child.id)]:
                await one.ended.wait()

    async def dismiss(self, child: Subagent) -> None:
        """Close a subagent and those below it, the lowest first."""
        await self.cancel(child)
        for one in [*reversed(self.below(child.id)), child]:
            if self.subagents.pop(one.id, None) is None:
                continue
            await one.session.__aexit__(None, None, None)
            journal = one.session.journal
            journal.record(
                AgentCompleted(**journal.head(), success=one.status == "completed", reason="closed")
            )

    async def close(self) -> None:
        """Stop every task and close every session; they can be resumed when the session is opened again."""
        self.runner.is_closed = True
        if not self.subagents:
            return
        for child in reversed(self.subagents.values()):
            child.stop()
        with anyio.move_on_after(STOPPING_S, shield=True):
            for child in self.subagents.values():
                await child.ended.wait()
        for child in reversed(list(self.subagents.values())):
            await child.session.__aexit__(None, None, None)
        if self._factory is not None:
            await self._factory.aclose()

    async def restore(self) -> None:
        """Restore the subagents of a resumed log. A running task becomes suspended, or interrupted where it cannot be
        resumed."""
        if not self.session_state.subagents or self._factory is None or self.root.journal.store.read_only:
            return
        for agent_id, record in list(self.session_state.subagents.items()):
            created = record.created
            if created is None or record.is_closed:
                continue
            above = created.parent_agent_id or ""
            if above != self.root_id and above not in self.subagents:
                continue  # what it belonged to is lost
            child = await self._join(record, above, len(list(self.session_state.ancestors_of(agent_id))))
            begun = created.task is not None or child.session.state.messages
            if self._keep_interrupted_turns and (begun if record.completed is None else record.has_new_task):
                child.suspended = True
            elif record.completed is None:
                self.forsake(child, "interrupted", LOST)

    # --- what an earlier process has left ------------------------------------------------------------------------

    @property
    def suspended(self) -> list[Subagent]:
        """The subagents whose tasks are interrupted and can be resumed, parents first."""
        return [child for child in self.subagents.values() if child.suspended]

    def awaited_by_root(self) -> list[Subagent]:
        """Those of them that open calls of the root wait for, with all below them; parents first."""
        found: dict[str, Subagent] = {}
        for child in self.suspended:
            above = list(self.session_state.ancestors_of(child.id))
            if any(agent_id in found for agent_id in above) or self._is_awaited(child, [self.root_id]):
                found[child.id] = child
        return list(found.values())

    def _is_awaited(self, child: Subagent, above: Iterable[str]) -> bool:
        """Whether an open call of one of these agents waits for its task."""
        states = [self.session_of(agent_id).state for agent_id in above]
        return any(
            call_id in child.record.assigning_calls for state in states for call_id in state.open_calls
        )

    async def take_up(self) -> None:
        """Resume interrupted tasks, except those that resumed calls take up themselves."""
        for child in self.suspended:
            if child.suspended and not self._is_awaited(child, self.session_state.ancestors_of(child.id)):
                await self.runner.resume(child)

    def forsake(self, child: Subagent, ending: Ending, why: str) -> None:
        """Give up an interrupted task. Raises `StoreError`."""
        child.session.close_turn()
        child.suspended = child.result_delivered = False
        self.runner.record_end(child, ending, why)


LOST = "Interrupted: the program ended while it worked. Nothing was repeated; continue_subagent goes on."
