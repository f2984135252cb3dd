"""`Agent`: answers by type."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.kit import say
from tests.runtime.agents import agent

from jaato.errors import MalformedReply
from jaato.providers.scripted import Answer, ScriptedProvider


@dataclasses.dataclass
class City:
    """A structured answer."""

    name: str
    people: int


class Town(msgspec.Struct):
    """Another kind of structured answer."""

    name: str
    people: int


@pytest.mark.parametrize("kind", [City, Town])
def test_structured_output_by_type(tmp_path: Path, kind: type) -> None:
    """The answer comes in the type asked for; one that does not fit is asked for again."""

    async def main() -> None:
        script: list[Answer] = [
            say('{"name": "Bern"}'),
            say('```json\n{"name": "Bern", "people": 140000}\n```'),
        ]
        async with agent(tmp_path, script) as live:
            result: Any = await live.run("A city, please.", output_type=kind)
            assert result.data == kind(name="Bern", people=140000)
            provider = live.provider
            assert isinstance(provider, ScriptedProvider)
            assert provider.requests[0].settings.response_schema is not None
            assert live.live.model.settings.response_schema is None

    anyio.run(main)


def test_structured_output_that_never_fits_is_a_typed_error(tmp_path: Path) -> None:
    """After three tries the caller gets MalformedReply."""

    async def main() -> None:
        async with agent(tmp_path, [say("no"), say("no"), say("no"), say("no")]) as live:
            with pytest.raises(MalformedReply, match="does not fit"):
                await live.run("A city, please.", output_type=City)

    anyio.run(main)
