"""Permission questions as they go to whoever answers: without the secrets of the arguments."""

from __future__ import annotations

from collections.abc import Awaitable

from jaato.abc.asker import Answer, Asker, Question
from jaato.agent.masking import masked_struct
from jaato.tools.secrets import Secrets


class MaskedAsker:
    """Passes questions on masked. The answer still is bound to the digest of the real arguments."""

    def __init__(self, asker: Asker, secrets: Secrets) -> None:
        self._asker = asker
        self._secrets = secrets

    def ask(self, question: Question) -> Answer | Awaitable[Answer | None] | None:
        """The answer of the other one."""
        return self._asker.ask(masked_struct(question, self._secrets))
