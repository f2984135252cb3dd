"""Messages while plugins think about them: stopped, closed, several at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import ClassVar

import anyio
import pytest
from tests.kit import plan, provider_of, runtime, say
from tests.spec.documented import Enriching

from jaato.abc.plugin import Enrichment, Plugin, PromptEnrichmentResult
from jaato.errors import JaatoError
from jaato.runtime import enrichment
from jaato.runtime.plugins.registry import PluginRegistry


class Waiting(Enriching):
    """One that answers when it is told to."""

    def __init__(self, name: str, release: threading.Event) -> None:
        super().__init__(name)
        self.begun = threading.Event()
        self.release = release

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        self.begun.set()
        self.release.wait(30)
        return PromptEnrichmentResult(f"{prompt} late")


@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_message_that_is_being_enriched_can_be_stopped(tmp_path: Path, end: str) -> None:
    """A stop ends the turn before the model is asked, with the user's words in the log; closing takes no message."""
    release = threading.Event()
    plugin = Waiting("waiting", release)
    endings: list[str] = []

    async def main() -> None:
        made = runtime(tmp_path)
        made.registry.register_plugin(plugin, expose=True)
        try:
            async with anyio.create_task_group() as tasks:
                async with made.create(plan(tmp_path, [say("never")])) as live:

                    async def post(text: str) -> None:
                        try:
                            done = await live.post(text)
                            endings.append(f"{text} {done.reason}" if done else text)
                        except JaatoError:
                            endings.append("closed")

                    tasks.start_soon(post, "one")
                    tasks.start_soon(post, "two")
                    await anyio.to_thread.run_sync(plugin.begun.wait)
                    if end == "stop":
                        live.stop()
                        while len(endings) < 2:
                            await anyio.sleep(0.01)
                        assert [m.text for m in live.state.messages if m.role == "user"] == ["one", "two"]
                        assert provider_of(live).requests == []
                while len(endings) < 2:
                    await anyio.sleep(0.01)
        finally:
            release.set()
            made.close()

    anyio.run(main)
    assert endings == (["one cancelled", "two cancelled"] if end == "stop" else ["closed", "closed"])


def test_messages_posted_at_once_keep_their_order(tmp_path: Path) -> None:
    """The second waits while plugins think about the first."""

    class Slow(Enriching):
        def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
            time.sleep(0.05 if prompt == "one" else 0)
            return PromptEnrichmentResult(prompt)

    async def main() -> None:
        made = runtime(tmp_path)
        made.registry.register_plugin(Slow("slow"), expose=True)
        try:
            async with made.create(plan(tmp_path, [say("ok")] * 3)) as live:
                async with anyio.create_task_group() as tasks:
                    for text in ("one", "two", "three"):
                        tasks.start_soon(live.post, text)
                said = [m.text for m in live.state.messages if m.role == "user"]
                assert said == ["one", "two", "three"]
        finally:
            made.close()

    anyio.run(main)


def test_a_plugin_that_is_instant_needs_no_thread(tmp_path: Path) -> None:
    """It is asked on the loop, as the built-in session plugin is."""
    asked: list[threading.Thread] = []

    class Instant(Plugin):
        name: ClassVar[str] = "instant"
        enrichment: ClassVar[Enrichment] = Enrichment(instant=True)

        def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
            asked.append(threading.current_thread())
            return PromptEnrichmentResult(prompt)

    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(Instant(None), expose=True)  # type: ignore[arg-type]
    anyio.run(enrichment.enrich_prompt_async, "x", enrichment.enrichers(registry.everyone()), tmp_path)
    assert asked == [threading.current_thread()]
