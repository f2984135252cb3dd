"""The subagents of a session: made, bounded, stopped, and brought back after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from jaato.abc.subagents import Order
from jaato.agent.child import STOPPING_S, Child, CrewLimits, Ending, NoSubagent
from jaato.agent.family import Family, Member
from jaato.agent.labour import Labour
from jaato.agent.recovery import close_turn
from jaato.protocol.events import AgentCompleted, AgentCreated
from jaato.protocol.ids import new_id

if TYPE_CHECKING:
    from jaato.agent.session import Session

RESERVED = ("main", "parent", "all", "root")


class Recruiter(Protocol):
    """Makes the sessions of subagents, from what the agents of a runtime share."""

    limits: CrewLimits

    async def enlist(self, parent: Session, order: Order, name: str) -> dict[str, Any]:
        """The fields of the event with which the new agent begins. Raises `JaatoError`s for an order nobody can carry out."""
        ...

    async def outfit(self, session: Session, created: AgentCreated) -> None:
        """Give a session the provider it was made for, and what makes room in its context. Raises `ConfigError`."""
        ...

    def session(self, parent: Session, member: Member) -> Session:
        """A session for an agent of the log, not entered yet, which speaks with its parent's provider."""
        ...

    async def aclose(self) -> None:
        """Let go of the providers that were made for subagents."""
        ...


class Crew:
    """The open subagents of one root session. The log says what became of them; here is what runs."""

    def __init__(self, root: Session) -> None:
        self.root = root
        self.children: dict[str, Child] = {}
        self.labour = Labour(self, root)
        self.closed = False
        self._making = 0

    @property
    def limits(self) -> CrewLimits:
        """How many there may be."""
        return self.root.recruiter.limits if self.root.recruiter is not None else CrewLimits()

    @property
    def family(self) -> Family:
        """What the log says of all agents."""
        return self.root.journal.family

    @property
    def root_id(self) -> str:
        """The id of the agent the session belongs to."""
        return self.root.state.agent_id

    # --- who is there ------------------------------------------------------------------------------------------

    def session_of(self, agent_id: str) -> Session:
        """The session of an open agent; the root's for its own id."""
        child = self.children.get(agent_id)
        return child.session if child is not None else self.root

    def below(self, agent_id: str) -> list[Child]:
        """The open subagents of an agent at any depth, in the order they were made."""
        if agent_id == self.root_id:
            return list(self.children.values())
        return [child for child in self.children.values() if agent_id in self.family.above(child.id)]

    def find(self, by: str, who: str, among: Sequence[Child] | None = None) -> Child:
        """The open subagent of `by` that is meant: its id, name, or an id's unique beginning. Raises `NoSubagent`."""
        who = who.strip()
        known = self.below(by) if among is None else among
        named = [child for child in known if who in (child.id, child.name)]
        named = named or [child for child in known if len(who) > 3 and child.id.startswith(who)]
        if len(named) == 1:
            return named[0]
        raise NoSubagent(self._unknown(by, who, known))

    def _unknown(self, by: str, who: str, known: Sequence[Child]) -> str:
        import difflib

        for agent_id, member in self.family.members.items():
            if who == agent_id and member.closed:
                return f"The subagent {who} is closed; its result cannot be had any more. Delegate the task again."
            if who == agent_id and by not in self.family.above(agent_id):
                return f"The agent {who} is not below you; list_active_subagents shows those that are."
        words = {word: child for child in known for word in (child.name, child.id)}
        close = difflib.get_close_matches(who[:200], words, 3, 0.5)
        if close:
            return f"No subagent {who[:80]!r}; did you mean {', '.join(close)}?"
        names = ", ".join(f"{child.name} ({child.id})" for child in known[:8])
        return f"No subagent {who[:80]!r}; there {'are ' + names if names else 'is none'}."

    def refuse_if_closed(self) -> None:
        """Raise `NoSubagent` when the session is about to end."""
        if self.closed:
            raise NoSubagent("The session is closing; nothing new begins in it.")

    # --- making ------------------------------------------------------------------------------------------------

    async def spawn(self, by: str, order: Order) -> Child:
        """A new subagent of `by`, without a task yet. Raises `NoSubagent` where a bound is reached."""
        recruiter = self.root.recruiter
        if recruiter is None or self.closed:
            raise NoSubagent("This session makes no subagents (any more); do the task yourself.")
        depth = len(list(self.family.above(by))) + 1
        if depth > self.limits.depth:
            raise NoSubagent(
                f"Subagents may nest {self.limits.depth} deep, and you are at that depth; do the task yourself. "
                "The setting subagent_depth says how deep."
            )
        self._making += 1
        try:
            await self._make_room()
            parent, agent_id = self.session_of(by), new_id("a")
            fields = await recruiter.enlist(parent, order, self._free_name(order))
            self.refuse_if_closed()
            journal = self.root.journal
            made = AgentCreated(
                **journal.head(agent_id), parent_agent_id=by, call_id=order.call_id, task=order.task, **fields
            )
            journal.record(made)
            return await self._join(self.family.members[agent_id], parent, depth)
        finally:
            self._making -= 1

    async def _make_room(self) -> None:
        """Let the oldest go that has ended and whose result is known. Raises `NoSubagent` where nobody can go."""
        while len(self.children) + self._making > self.limits.open:
            done = [one for one in self.children.values() if not one.at_work and one.told]
            leaf = next((one for one in done if not self.below(one.id)), None)
            if leaf is None:
                raise NoSubagent(
                    f"This session has {len(self.children)} open subagents, and {self.limits.open} is the most. Read "
                    "results with get_subagent_result, or close some with close_subagent."
                )
            await self.dismiss(leaf)

    def _free_name(self, order: Order) -> str:
        taken = {*RESERVED, *(child.name for child in self.children.values())}
        wanted = (order.name or order.profile or "").strip() or f"agent-{len(self.family.members) + 1}"
        name, number = wanted, 2
        while name in taken:
            name, number = f"{wanted}-{number}", number + 1
        return name

    def made_by(self, by: str, call_id: str) -> Child | None:
        """The subagent that a call has made in an earlier process; None if it came to none. Raises `NoSubagent` when it
        is closed by now."""
        for agent_id, member in reversed(self.family.members.items()):
            made = member.created
            if made is not None and made.call_id == call_id and made.parent_agent_id == by:
                if agent_id in self.children:
                    return self.children[agent_id]
                raise NoSubagent(f"The subagent {made.name} ({agent_id}) is closed; delegate the task again.")
        return None

    async def _join(self, member: Member, parent: Session, depth: int) -> Child:
        recruiter, created = self.root.recruiter, member.created
        assert recruiter is not None
        assert created is not None
        session = recruiter.session(parent, member)
        child = Child(member, created, session, parent, depth)
        child.ended.set()
        session.resumable = self.root.resumable
        self.children[child.id] = child
        await session.__aenter__()
        return child

    # --- ends --------------------------------------------------------------------------------------------------

    async def all_done(self) -> None:
        """Wait until no subagent has a task."""
        while working := self.working():
            await working[0].ended.wait()

    def working(self) -> list[Child]:
        """The subagents that have a task."""
        return [child for child in self.children.values() if child.at_work]

    def stop_below(self, agent_id: str) -> None:
        """End the tasks of all its subagents, at any depth."""
        if self.children:
            for child in self.below(agent_id):
                child.stop()

    async def cancel(self, child: Child) -> None:
        """End its task and those below it, and wait until they have ended."""
        for one in [child, *self.below(child.id)]:
            one.stop()
        with anyio.move_on_after(STOPPING_S):
            for one in [child, *self.below(child.id)]:
                await one.ended.wait()

    async def dismiss(self, child: Child) -> None:
        """Close a subagent and those below it, the lowest first."""
        await self.cancel(child)
        for one in [*reversed(self.below(child.id)), child]:
            if self.children.pop(one.id, None) is None:
                continue
            await one.session.__aexit__(None, None, None)
            journal = one.session.journal
            journal.record(
                AgentCompleted(**journal.head(), success=one.status == "completed", reason="closed")
            )

    async def close(self) -> None:
        """The session ends: every task is stopped, every session left; they can be gone on with when it is opened again."""
        self.closed = True
        if not self.children:
            return
        for child in reversed(self.children.values()):
            child.stop()
        with anyio.move_on_after(STOPPING_S, shield=True):
            for child in self.children.values():
                await child.ended.wait()
        for child in reversed(list(self.children.values())):
            await child.session.__aexit__(None, None, None)
        if self.root.recruiter is not None:
            await self.root.recruiter.aclose()

    async def restore(self) -> None:
        """Bring back the subagents of a log that is opened again. A task that was under way waits to be gone on with;
        where nobody could, it is interrupted."""
        if not self.family.members or self.root.recruiter is None or self.root.journal.store.read_only:
            return
        for agent_id, member in list(self.family.members.items()):
            created = member.created
            if created is None or member.closed:
                continue
            above = created.parent_agent_id or ""
            if above != self.root_id and above not in self.children:
                continue  # what it belonged to is lost
            child = await self._join(member, self.session_of(above), len(list(self.family.above(agent_id))))
            begun = created.task is not None or child.session.state.messages
            if self.root.resumable and (begun if member.completed is None else member.tasked):
                child.suspended = True
            elif member.completed is None:
                self.forsake(child, "interrupted", LOST)

    # --- what an earlier process has left ------------------------------------------------------------------------

    @property
    def suspended(self) -> list[Child]:
        """The subagents whose tasks wait to be gone on with, parents first."""
        return [child for child in self.children.values() if child.suspended]

    def awaited_by_root(self) -> list[Child]:
        """Those of them that open calls of the root wait for, with all below them; parents first."""
        found: dict[str, Child] = {}
        for child in self.suspended:
            above = list(self.family.above(child.id))
            if any(agent_id in found for agent_id in above) or self._awaited(child, [self.root_id]):
                found[child.id] = child
        return list(found.values())

    def _awaited(self, child: Child, above: Iterable[str]) -> bool:
        """Whether an open call of one of these agents goes on with its task."""
        states = [self.session_of(agent_id).state for agent_id in above]
        return any(call_id in child.member.given_by for state in states for call_id in state.open_calls)

    async def take_up(self) -> None:
        """Go on with what was cut off, but for the tasks that calls go on with when they are made again."""
        for child in self.suspended:
            if child.suspended and not self._awaited(child, self.family.above(child.id)):
                await self.labour.resume(child)

    def forsake(self, child: Child, ending: Ending, why: str) -> None:
        """Nobody goes on with a task that was cut off. Raises `StoreError`."""
        close_turn(child.session)
        child.suspended = child.told = False
        self.labour.record_end(child, ending, why)


LOST = "Interrupted: the program ended while it worked. Nothing was repeated; continue_subagent goes on."
