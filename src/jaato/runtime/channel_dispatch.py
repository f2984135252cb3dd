"""Permission questions go to the channel that the policy names, without the secrets of the arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol, cast

from jaato.abc.asker import Answer, Asker, Question
from jaato.agent.event_redaction import redact_struct
from jaato.agent.questions import Questions
from jaato.errors import InvalidArguments, JaatoError
from jaato.log import logger
from jaato.settings import Settings
from jaato.tools.network.addresses import AllowedHosts
from jaato.tools.permissions.gate import Policy
from jaato.tools.permissions.policy_document import Channel
from jaato.tools.redaction.redactor import Redactor

LOG = logger("permission")
OUTSIDE = ("webhook", "file")
"""The channels that lead out of the process; `console` and `queue` are those of the program that embeds jaato."""


class OutsideChannel(Protocol):
    """A channel that a loop can wait for."""

    def ask_async(self, question: Question) -> Awaitable[Answer | None]: ...


class ChannelDispatcher:
    """Puts each question to the questions, where every client sees it, and to the policy's channel; the first answer counts."""

    def __init__(
        self,
        questions: Questions,
        policy: Policy,
        secrets: Redactor,
        state_dir: Path,
        environ: Mapping[str, str],
        allow: list[str],
    ) -> None:
        self._questions = questions
        self._policy = policy
        self._secrets = secrets
        self._state_dir = state_dir
        self._environ = environ
        self._allow = allow
        self._made: tuple[Channel, OutsideChannel | None] = (Channel(), None)

    async def ask(self, question: Question) -> Answer | None:
        """The first answer; None when there is no responder. Raises `TimeoutError` past its deadline."""
        channel = self._channel()
        if channel is None:
            return await self._questions.ask(question)
        question = self._questions.as_asked(question)
        leave = self._questions.add_responder()
        task = asyncio.get_running_loop().create_task(self._outside(channel, question, leave))
        try:
            answer = await self._questions.ask(question)
        finally:
            task.cancel()
            await asyncio.wait([task])
            leave()
        if answer is None and not task.cancelled() and task.result():
            raise TimeoutError
        return answer

    async def _outside(self, channel: OutsideChannel, question: Question, leave: Callable[[], None]) -> bool:
        """Ask the channel; one that fails or times out is removed as a responder. Returns whether it timed out."""
        answer: Answer | None = None
        late = False
        try:
            answer = await channel.ask_async(redact_struct(question, self._secrets))
        except TimeoutError:
            LOG.warning("The permission channel has not answered the question %s in time", question.id)
            late = True
        if answer is None or not self._respond(question, answer):
            leave()
        return late

    def _respond(self, question: Question, answer: Answer) -> bool:
        """Give the answer of the channel; edited arguments that do not fit the tool deny the call."""
        try:
            return self._questions.respond(question.id, answer)
        except InvalidArguments as error:
            LOG.warning(
                "The permission channel edited the arguments of a call to what is not valid: %s", error
            )
            denial = Answer(answer="c", comment=f"the edit is not valid: {error}", by=answer.by)
            return self._questions.respond(question.id, denial)

    def _channel(self) -> OutsideChannel | None:
        """The channel of the policy as it is now."""
        wanted = self._policy.channel
        if wanted.type not in OUTSIDE:
            return None
        if self._made[0] != wanted:
            self._made = (wanted, self._open(wanted))
        return self._made[1]

    def _open(self, wanted: Channel) -> OutsideChannel | None:
        from jaato.plugins.permission.channels import ChannelContext, make_channel
        from jaato.plugins.permission.webhook_file_channels import WebhookNetwork

        def places() -> ChannelContext:
            return ChannelContext(
                self._state_dir, WebhookNetwork(self._environ, AllowedHosts.of(self._allow))
            )

        try:
            return cast("OutsideChannel", make_channel(wanted.type or "", wanted, places))
        except JaatoError as error:
            LOG.warning("The permission channel cannot be used: %s", error)
            return None


def dispatcher_for(
    questions: Questions, policy: Policy, secrets: Redactor, state_dir: Path | None, settings: Settings | None
) -> Asker:
    """Who is asked: the questions, and what the policy names beside it."""
    if state_dir is None or settings is None:
        return questions
    return ChannelDispatcher(questions, policy, secrets, state_dir, settings.environ, settings["allow_hosts"])


class MaskedAsker:
    """Passes questions on masked. The answer still is bound to the digest of the real arguments."""

    def __init__(self, asker: Asker, secrets: Redactor) -> None:
        self._asker = asker
        self._secrets = secrets

    def ask(self, question: Question) -> Answer | Awaitable[Answer | None] | None:
        """The answer of the other one."""
        return self._asker.ask(redact_struct(question, self._secrets))
