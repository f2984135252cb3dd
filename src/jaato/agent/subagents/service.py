"""The operations of the subagent tools, implemented with the session's supervisor."""

from __future__ import annotations

from typing import Any

from jaato.abc.subagents import SubagentRequest
from jaato.agent.inbox import Author
from jaato.agent.state import SharedValue
from jaato.agent.subagents.subagent import Subagent, SubagentError
from jaato.agent.subagents.supervisor import Supervisor
from jaato.protocol.events import MessageUser, MidTurnQueued, SharedUpdated
from jaato.protocol.messages import Source


class SubagentService:
    """`jaato.abc.subagents.Subagents` for the agents of one session."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def delegate(self, by: str, order: SubagentRequest) -> dict[str, Any]:
        """Give a task to a new subagent and, unless in the background, wait for its result."""
        supervisor = self._supervisor
        child = supervisor.made_by(by, order.call_id) if order.again else None
        if child is None:
            child = await supervisor.spawn(by, order)
            await supervisor.runner.start(child, order.task, once=order.call_id)
        elif child.suspended:
            await supervisor.runner.resume(child)
        if order.background:
            return child.report() | {"hint": HINT}
        return await supervisor.runner.see_through(self._subagent(by), child)

    async def continue_subagent(
        self, by: str, who: str, message: str, *, background: bool, call_id: str = "", again: bool = False
    ) -> dict[str, Any]:
        """Send a subagent another message; it continues its conversation."""
        child = self._supervisor.find(by, who)
        if again and self._is_delivered(by, child, call_id):
            if child.suspended:
                await self._supervisor.runner.resume(child)
        elif background or child.at_work or child.suspended:
            await self._give(child, message, "parent", call_id)
        else:
            self._supervisor.runner.check_open()
            await self._supervisor.runner.start(child, message, once=call_id)
        if background:
            return child.report() | {"hint": HINT}
        return await self._supervisor.runner.see_through(self._subagent(by), child)

    def _is_delivered(self, by: str, child: Subagent, call_id: str) -> bool:
        """Whether an interrupted call has already delivered its message."""
        state = self._supervisor.session_of(by).state
        events = self._supervisor.root.journal.store.read(state.session_id, state.started[call_id].seq)
        return any(
            isinstance(event, MessageUser | MidTurnQueued)
            and (event.agent_id, event.message.once) == (child.id, call_id)
            for event in events
        )

    async def _give(self, child: Subagent, message: str, source: Source, once: str = "") -> None:
        """Send an agent a message: queued while it works, else as its next task."""
        self._supervisor.runner.check_open()
        author = Author(once=once)
        if child.at_work:
            child.session.inbox.notify(message, source, author=author)
            return
        if child.suspended:
            child.session.inbox.notify(message, source, author=author)
            await self._supervisor.runner.resume(child)
            return
        await child.session.post(
            message, source=source, author=author, queue=True
        )  # recorded before the call reports it as sent
        if not child.at_work:
            await self._supervisor.runner.start(child, None)

    async def result(self, by: str, who: str, wait_s: float) -> dict[str, Any]:
        """The result of a subagent's task; waits up to `wait_s` for it."""
        child = self._supervisor.find(by, who)
        if child.at_work and wait_s > 0:
            await self._supervisor.runner.wait(self._subagent(by), child, wait_s)
        child.result_delivered = child.result_delivered or not child.at_work
        return child.report()

    async def cancel(self, by: str, who: str) -> dict[str, Any]:
        """Stop a subagent's task and those below it; it can be continued."""
        child = self._supervisor.find(by, who)
        running = child.at_work
        child.awaited += 1  # its parent needs no notification
        try:
            await self._supervisor.cancel(child)
        finally:
            child.awaited -= 1
        return child.report() | {"stopped": running}

    async def close_subagent(self, by: str, who: str) -> dict[str, Any]:
        """Close a subagent for good, with those below it."""
        child = self._supervisor.find(by, who)
        closed = [one.name for one in (child, *self._supervisor.below(child.id))]
        child.awaited += 1
        await self._supervisor.dismiss(child)
        return {"agent_id": child.id, "name": child.name, "status": "closed", "closed": closed}

    async def send(self, by: str, who: str, message: str) -> dict[str, Any]:
        """Let any agent of the session read a message: `parent`, `main`, or a subagent by id or name."""
        supervisor = self._supervisor
        above = list(supervisor.session_state.ancestors_of(by))
        target = {"parent": above[:1], "main": [supervisor.root_id]}.get(who.strip(), [])
        agent_id = target[0] if target else None
        if who.strip() == supervisor.root_id:
            agent_id = supervisor.root_id
        if (who.strip() == "parent" and agent_id is None) or agent_id == by:
            raise SubagentError("You are the main agent and have no parent; name one of your subagents.")
        sender = self._name(by)
        if agent_id == supervisor.root_id:
            supervisor.session_of(agent_id).inbox.notify(f"{sender} says: {message}", "child")
            return {"sent_to": "main", "agent_id": agent_id}
        everyone = list(supervisor.subagents.values())
        child = supervisor.subagents.get(agent_id or "") or supervisor.find(by, who, everyone)
        if child.id == by:
            raise SubagentError("That is you; name another agent.")
        from_above = by in supervisor.session_state.ancestors_of(child.id)
        if from_above:
            await self._give(child, message, "parent")
        elif child.at_work:
            child.session.inbox.notify(f"{sender} says: {message}", "child")
        else:
            raise SubagentError(
                f"{child.name} has ended its task, and only agents above it can give it another."
            )
        return {"sent_to": child.name, "agent_id": child.id, "status": child.status}

    def _subagent(self, agent_id: str) -> Subagent | None:
        return self._supervisor.subagents.get(agent_id)

    def _name(self, agent_id: str) -> str:
        child = self._supervisor.subagents.get(agent_id)
        return f"{child.name} ({child.id})" if child is not None else "main"

    def list_subagents(self, by: str) -> list[dict[str, Any]]:
        """The open subagents below an agent."""
        return [child.row() for child in self._supervisor.below(by)]

    def recent_messages(self, by: str, count: int) -> list[tuple[str, str]]:
        """The last texts of an agent's conversation, as pairs of role and text."""
        messages = self._supervisor.session_of(by).state.messages
        texts: list[tuple[str, str]] = [
            (message.role, message.text) for message in messages if message.role != "tool"
        ]
        return [one for one in texts if one[1]][-count:] if count > 0 else []

    def shared(self) -> dict[str, SharedValue]:
        """What the agents of the session share, by key."""
        return self._supervisor.session_state.shared

    def share(self, by: str, key: str, value: Any, *, gone: bool = False) -> int:
        """Let every agent see a value, or take it away; gives its version."""
        journal = self._supervisor.session_of(by).journal
        event = SharedUpdated(**journal.head(), key=key, value=None if gone else value, gone=gone)
        journal.record(event)
        return event.seq


HINT = "It works in the background and you will be told when it ends; get_subagent_result waits for it."
