"""The models of the API: the agent with the model of the settings or with a given one, and that model alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from msgspec.structs import replace

from jaato.abc.provider import Provider
from jaato.errors import JaatoError
from jaato.log import logger
from jaato.runtime.known_providers import NAMES
from jaato.runtime.provider_selection import pick_provider
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.server.openai.errors import RequestError

LOG = logger("server")
AGENT = "jaato"
"""The agent, with the provider and model of the settings."""
TASK = "jaato-task"
"""That model without the agent: for titles, tags and the like."""
LIST_TIMEOUT_S = 10.0
KNOWN_FOR_S = 60.0
MAX_LISTED = 500


class Choice(NamedTuple):
    """What a model's id stands for; None is that of the settings."""

    provider: str | None = None
    model: str | None = None


class Models:
    """The models that a server offers, listed by the provider of its settings."""

    def __init__(self, base: SessionOptions) -> None:
        self._base = base
        self._name = ""
        self._ids: list[str] = []
        self._listed_at = -KNOWN_FOR_S

    @asynccontextmanager
    async def open_provider(
        self, choice: Choice, workspace: Path | None = None
    ) -> AsyncIterator[tuple[Provider, str]]:
        """A provider and the name of its model, for a use apart from sessions. Raises `JaatoError`s."""
        place = workspace or Path.home()
        options = replace(
            self._base,
            workspace=place,
            provider=choice.provider or self._base.provider,
            model=choice.model or self._base.model,
        )
        provider, model = await pick_provider(options, settings_for(options, place), None)
        try:
            yield provider, model
        finally:
            if provider is not options.provider:
                with anyio.CancelScope(shield=True):
                    await provider.aclose()

    async def list(self) -> list[dict[str, Any]]:
        """The entries of the list of models; those of the provider are left out where it does not give them."""
        await self._refresh()
        made = int(time.time())
        return [
            {"id": name, "object": "model", "created": made, "owned_by": AGENT}
            for name in (AGENT, TASK, *(f"{self._name}/{model}" for model in self._ids))
        ]

    async def _refresh(self) -> None:
        if time.monotonic() - self._listed_at < KNOWN_FOR_S:
            return
        try:
            async with self.open_provider(Choice()) as (provider, _):
                self._name = provider.name
                with anyio.fail_after(LIST_TIMEOUT_S):
                    self._ids = [model.id for model in await provider.models()][:MAX_LISTED]
                self._listed_at = time.monotonic()
        except (JaatoError, OSError, TimeoutError) as error:
            LOG.info("The provider lists no models: %s", error)

    async def find(self, name: str) -> Choice:
        """What an id stands for. Raises `RequestError` for an unknown one."""
        if name in (AGENT, TASK):
            return Choice()
        provider, _, model = name.partition("/")
        await self._refresh()
        if model and provider == self._name:
            return Choice(None, model)
        if model and provider in NAMES:
            return Choice(provider, model)
        raise RequestError(
            404,
            f"There is no model {name[:200]!r}; use {AGENT!r}, or one of GET /v1/models as PROVIDER/MODEL.",
            "model_not_found",
            "model",
        )
