"""Questions of a session as requests to the editor: permissions, and the model's questions as forms or choices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from acp.exceptions import RequestError
from acp.helpers import update_agent_thought_text
from acp.schema import PermissionOption, ToolCallUpdate

from acp import schema
from jaato.acp.calls import (
    Content,
    diff_contents,
    kind_of,
    locations_of,
    output_content,
    raw_value,
    title_of,
)
from jaato.acp.capabilities import Capabilities
from jaato.acp.diffs import parse_diff
from jaato.cli.output.answers import late_answer_text
from jaato.cli.output.console import one_line, visible
from jaato.cli.repl.questions import local_time
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError
from jaato.protocol.events import ClarificationQuestion, PermissionRequested
from jaato.protocol.frames import Settled
from jaato.tools.permissions.access import access_lines

MAX_NAME_CHARS = 120
MAX_QUESTION_CHARS = 300
NO_ANSWER = "no-answer"
ANSWERS: dict[str, tuple[str, Any, str]] = {
    "allow_once": ("y", "allow_once", "Allow"),
    "allow_always": ("a", "allow_always", "Always allow"),
    "reject_once": ("n", "reject_once", "Deny"),
    "reject_always": ("never", "reject_always", "Always deny"),
}
"""By option: the answer, its kind, and its name."""
Question = PermissionRequested | ClarificationQuestion


class Editor(Protocol):
    """What is asked of the editor: the library's connection."""

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        """Have the user choose."""

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        """Have the user fill in a form."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Send an update."""


class Questions:
    """Asks the editor the pending questions of a session; who answers first counts, and the others are withdrawn."""

    def __init__(
        self,
        session: RemoteSession,
        editor: Editor,
        withdraw: Callable[[str], Coroutine[Any, Any, None]],
        *,
        name_of: Callable[[str], str],
        capabilities: Capabilities,
    ) -> None:
        self._session = session
        self._editor = editor
        self._withdraw = withdraw
        self._name_of = name_of
        self._capabilities = capabilities
        self._tasks: dict[str, tuple[Question, asyncio.Task[None]]] = {}
        self._answered: set[str] = set()
        """The questions that were answered here and whose events have not arrived."""

    def ask(self, question: Question) -> None:
        """Ask a question, in a task of its own."""
        if question.question_id not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._ask(question))
            self._tasks[question.question_id] = (question, task)

    async def resolve(self, question_id: str) -> bool:
        """A question was answered: its request is withdrawn if it was by another client; whether it was."""
        question, task = self._tasks.pop(question_id, (None, None))
        if question_id in self._answered:
            self._answered.discard(question_id)
            return False
        if question is not None and task is not None and not task.done():
            task.cancel()
            await self._withdraw(question.call_id)
        return True

    async def keep(self, pending: dict[str, Question]) -> None:
        """Set the questions that are pending now, after a reconnection."""
        for question_id in [one for one in self._tasks if one not in pending]:
            await self.resolve(question_id)
        for question in pending.values():
            self.ask(question)

    async def stop(self, *, withdraw: bool) -> None:
        """Ask nothing more; with `withdraw` the editor is sent that open questions need no answer any more."""
        asked, self._tasks = self._tasks, {}
        for question, task in asked.values():
            if task.cancel() and withdraw:
                await self._withdraw(question.call_id)

    async def _ask(self, question: Question) -> None:
        try:
            match question:
                case PermissionRequested():
                    answer, comment = await self._ask_permission(question)
                    self._answered.add(question.question_id)
                    await self._report(
                        await self._session.allow(
                            question.question_id, answer, comment=comment, digest=question.digest
                        )
                    )
                case ClarificationQuestion():
                    answers = await self._ask_clarification(question)
                    if answers is not None:
                        self._answered.add(question.question_id)
                        await self._report(await self._session.clarify(question.question_id, answers))
        except (JaatoError, ConnectionError):
            # another client answered, or one of the connections is lost: the question stays pending
            self._answered.discard(question.question_id)

    async def _report(self, settled: Settled) -> None:
        """Show the answer of another client that came first, if one did."""
        if not settled.accepted and settled.answer:
            text = f"{late_answer_text(settled.by, settled.answer)}\n"
            await self._editor.session_update(self._session.id, update_agent_thought_text(text))

    async def _ask_permission(self, question: PermissionRequested) -> tuple[str, str | None]:
        """The answer to a permission question, and why it is denied where the editor could not ask."""
        workspace = self._session.state.workspace
        call = ToolCallUpdate(
            tool_call_id=question.call_id,
            title=title_of(question.tool, question.arguments, self._name_of(question.agent_id)),
            kind=kind_of(question.tool),
            status="pending",
            locations=locations_of(question.arguments, workspace),
            raw_input=raw_value(question.arguments),
            content=permission_content(question, workspace),
        )
        try:
            chosen = await self._choose(call, permission_options(question))
        except RequestError as error:
            return "c", f"The editor could not ask: {one_line(str(error), MAX_NAME_CHARS)}."
        except ValueError:
            return "c", "The editor's answer could not be understood."
        return (ANSWERS[chosen][0] if chosen in ANSWERS else "n"), None

    async def _choose(self, call: ToolCallUpdate, options: list[PermissionOption]) -> str:
        """The option that the user chose; empty when the request was cancelled."""
        response = await self._editor.request_permission(self._session.id, call, options)
        outcome = response.outcome
        return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else ""

    async def _ask_clarification(self, question: ClarificationQuestion) -> list[str | None] | None:
        """The answers to the model's questions; None leaves them to another client."""
        try:
            if self._capabilities.has_forms:
                return await self._fill_form(question)
            if not all(one.get("choices") for one in question.questions) and self._has_other_client():
                return None
            return [await self._choose_answer(question, one) for one in question.questions]
        except (RequestError, ValueError):
            return None if self._has_other_client() else [None] * len(question.questions)

    def _has_other_client(self) -> bool:
        """Whether another client of the session answers questions."""
        info = self._session.info
        return info is not None and sum(client.answers for client in info.clients) > 1

    async def _choose_answer(self, question: ClarificationQuestion, one: dict[str, Any]) -> str | None:
        """One of the choices of a question, each asked for by itself where the editor shows no names of options; an open
        question has no answer here."""
        choices = [str(choice) for choice in one.get("choices") or []]
        title = one_line(str(one.get("question", "")), MAX_QUESTION_CHARS)
        if self._capabilities.shows_names:
            found = await self._choose_one(question, title, choices)
            return None if found is None else choices[found]
        for choice in choices:
            asked = one_line(f"{title} {choice}", MAX_QUESTION_CHARS)
            if await self._choose_one(question, asked, ["Yes"]) is not None:
                return choice
        return None

    async def _choose_one(
        self, question: ClarificationQuestion, title: str, choices: list[str]
    ) -> int | None:
        """The number of the chosen one; None for no answer."""
        if not choices:
            return None
        options = [
            PermissionOption(option_id=str(number), name=one_line(choice, MAX_NAME_CHARS), kind="allow_once")
            for number, choice in enumerate(choices)
        ]
        options.append(PermissionOption(option_id=NO_ANSWER, name="No answer", kind="reject_once"))
        call = ToolCallUpdate(
            tool_call_id=question.call_id,
            title=title,
            kind="other",
            status="pending",
            content=list(output_content(question.context, fenced=False)),
        )
        chosen = await self._choose(call, options)
        return next((number for number in range(len(choices)) if chosen == str(number)), None)

    async def _fill_form(self, question: ClarificationQuestion) -> list[str | None]:
        """The answers in a form of the editor, one field for each question."""
        fields: dict[str, Any] = {}
        for number, one in enumerate(question.questions, 1):
            choices = [str(choice) for choice in one.get("choices") or []]
            fields[f"answer_{number}"] = schema.ElicitationStringPropertySchema(
                type="string",
                title=one_line(str(one.get("question", "")), MAX_QUESTION_CHARS),
                default=one.get("default"),
                enum=choices or None,
            )
        mode = schema.ElicitationFormSessionMode(
            session_id=self._session.id,
            tool_call_id=question.call_id or None,
            requested_schema=schema.ElicitationSchema(type="object", properties=fields),
        )
        message = visible(question.context) or "The agent asks:"
        response = await self._editor.create_elicitation(message, mode)
        content = getattr(response, "content", None) or {}
        answers = [content.get(name) for name in fields]
        return [None if answer in (None, "") else str(answer) for answer in answers]


def permission_options(question: PermissionRequested) -> list[PermissionOption]:
    """The options of a permission question; the lasting ones only where the answer can outlast the call."""
    options = []
    for option, (_, kind, name) in ANSWERS.items():
        if kind.endswith("_always"):
            if not question.shape:
                continue
            name = one_line(f"{name}: {question.shape.replace(chr(10), '; ')}", MAX_NAME_CHARS)  # noqa: PLW2901
        options.append(PermissionOption(option_id=option, name=name, kind=kind))
    return options


def permission_content(question: PermissionRequested, workspace: str) -> list[Content]:
    """What a call would change, what a yes opens, and why the question is asked."""
    diffs: list[Content] = list(diff_contents(list(parse_diff(question.preview)), workspace))
    command = question.arguments.get("command")
    shown = output_content(command) if isinstance(command, str) else []
    lines = [f"- {line}" for line in (access_lines(question.access) if question.access is not None else [])]
    words = ["Yes allows:", *lines, ""] if lines else []
    words.append(f"Asked because {question.reason}")
    if question.deadline:
        words.append(f"Denied at {local_time(question.deadline)} without an answer.")
    return [*diffs, *shown, *output_content("\n".join(words), fenced=False)]
