"""The course of a flow: tools found, a plan, its steps, the answer. Knows neither model nor registry, so that a trace can
take their places."""

from __future__ import annotations

from collections.abc import Callable

from jaato.errors import JaatoError, LimitReached, MalformedReply
from jaato.protocol.messages import Problem
from jaato.runtime.flow import words
from jaato.runtime.flow.calling import ATTEMPTS, Calling
from jaato.runtime.flow.parts import Hands, Notes, Tools
from jaato.runtime.flow.planning import Plan, plan_of
from jaato.runtime.flow.records import Answering, AnyRecord, Begun, Offer, PlanMade, Planned
from jaato.runtime.flow.words import Ask, Exchange, Told
from jaato.tools.call import problem_of

PLAN_STEP, CHAT_STEP = "plan", "chat"


class NoTools(JaatoError):
    """None of the registries can be asked."""

    code = "registry_failed"


class Course:
    """One flow under way. `note` hears every record."""

    def __init__(self, begun: Begun, tools: Tools, note: Callable[[AnyRecord], object]) -> None:
        self._begun = begun
        self._tools = tools
        self._notes = Notes(note)
        self._offers: list[Offer] = []
        self._room_chars = words.LEAST_ROOM_CHARS

    @property
    def instruction(self) -> str:
        """What is to be done."""
        return self._begun.instruction

    async def find(self) -> Problem | None:
        """Begin, and learn which tools there are; why the flow cannot go on, where none of the registries answers."""
        self._notes.note(self._begun)
        self._notes.begin(PLAN_STEP, "plan")
        offered = await self._tools.offered(self._begun.instruction)
        self._notes.note(offered)
        self._offers = offered.tools
        if self._offers or len(offered.problems) < len(self._begun.registries):
            return None
        problem = problem_of(NoTools(" ".join(offered.problems)))
        self._notes.end(PLAN_STEP, "failed", problem)
        return problem

    async def take(self, answering: Answering, hands: Hands) -> Problem | None:
        """Plan, take the steps, answer; the problem of the step that failed. Raises `ProviderError`, `LimitReached`."""
        self._notes.note(answering)
        room = self._room_chars = answering.room_chars
        steps = await self._plan(hands, words.shown(self._offers, room))
        told: list[Told] = []
        for number, planned in enumerate(steps, 1):
            told.append(await self._step(hands, f"step-{number}", planned, told))
            if told[-1].problem is not None:
                break
        self._notes.begin(CHAT_STEP, "chat")
        prompt = words.chat_prompt(self._begun.instruction, told, room)
        await self._notes.ask(hands, Ask(CHAT_STEP, 1, words.ANSWERER, prompt))
        self._notes.end(CHAT_STEP, "ok")
        return told[-1].problem if told else None

    async def _step(self, hands: Hands, step_id: str, planned: Planned, told: list[Told]) -> Told:
        registry = next(offer.registry for offer in self._offers if offer.name == planned.tool)
        self._notes.begin(step_id, "tool", planned, registry)
        prompt = words.call_prompt(self._begun.instruction, told, planned, self._room_chars)
        return await Calling(self._notes, self._tools, hands, step_id, planned).run(prompt)

    # --- planning ----------------------------------------------------------------------------------------------

    async def _plan(self, hands: Hands, offers: list[Offer]) -> list[Planned]:
        """The steps to take. Raises `MalformedReply`, `LimitReached` when the second plan will not do either."""
        steps: list[Planned] = []
        if offers:
            most = self._begun.max_steps
            prompt = words.plan_prompt(self._begun.instruction, offers)
            ask = Ask(PLAN_STEP, 1, words.PLANNER % most, prompt, schema=words.plan_schema(offers, most))
            plan = await self._planned(hands, ask, {offer.name for offer in offers})
            steps = plan.steps
        self._notes.note(PlanMade(steps=steps))
        self._notes.end(PLAN_STEP, "ok")
        return steps

    async def _planned(self, hands: Hands, ask: Ask, names: set[str]) -> Plan:
        for attempt in range(1, ATTEMPTS + 1):
            ask = ask._replace(attempt=attempt)
            said = await self._notes.ask(hands, ask)
            plan = plan_of(said.text, names, self._begun.max_steps)
            if not plan.problems:
                return plan
            ask = ask._replace(before=(Exchange(said, words.no_plan(plan.problems)),))
        why = f"The plan cannot be carried out, and neither could the one before: {'; '.join(plan.problems)}."
        error = (
            LimitReached(f"{why} max_steps (--max-steps) allows more.")
            if plan.too_long
            else MalformedReply(why)
        )
        self._notes.end(PLAN_STEP, "failed", problem_of(error))
        raise error
