"""How the embedded model reads a long prompt: it shows how far it is, can be stopped, and continues from there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pexpect
import pytest
from tests.cli.environment import CliEnvironment
from tests.cli.terminal import talking
from tests.local.test_provider import asked, chunks_of
from tests.local.tools import READ

from jaato.abc.provider import PromptProgress
from jaato.providers.local.engine import BATCH_TOKENS, Engine, Event, Job
from jaato.providers.local.provider import LocalProvider
from jaato.settings import environment

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WORDS = 320
LONG = "word " * WORDS
"""A token for each word: what the model still reads after the test of stopping, and enough to be shown."""
FEW_TOOLS = 'disabled_plugins = ["cli", "environment", "file_edit", "filesystem", "todo"]'
"""The fixed prompt has a third of the tokens; reading all of it takes the small model longer than any other test."""


def test_stopped_reading_ends_within_a_batch(small_model: Path) -> None:
    """After the stop no further event comes, and the engine reads at most the batch that had begun and one more."""
    engine = Engine(small_model, context_tokens=2048, threads=1, states=None)
    body = {
        "messages": [{"role": "user", "content": LONG}],
        "max_tokens": 2,
        "stream": True,
        "return_progress": True,
    }

    def read(stop_at: int | None) -> list[Event]:
        seen: list[Event] = []
        over = threading.Event()

        def on_event(event: Event) -> None:
            if "prompt_progress" in event:
                seen.append(event["prompt_progress"])
                if len(seen) == stop_at:
                    job.stop.set()

        job = Job(body, [], on_event, lambda _failure: over.set())
        engine.submit(job)
        assert over.wait(60)
        return seen

    try:
        first = read(stop_at=3)
        assert [event["processed"] for event in first] == [0, BATCH_TOKENS, 2 * BATCH_TOKENS]
        second = read(stop_at=None)
        assert second[0]["cache"] <= first[-1]["processed"] + 2 * BATCH_TOKENS < second[0]["total"]
        assert second[-1]["processed"] == second[-1]["total"]
    finally:
        engine.close()


def test_reading_is_shown_where_it_takes_long(shallow_model: Path) -> None:
    """A long prompt is shown batch by batch up to its end; one that is in memory, or short, is not."""

    async def main() -> None:
        provider = LocalProvider(shallow_model, context_tokens=2048, threads=1)
        chunks = await chunks_of(provider, asked(LONG, max_output_tokens=3))
        shown = [chunk for chunk in chunks if isinstance(chunk, PromptProgress)]
        assert len(shown) > WORDS // BATCH_TOKENS
        assert [chunk.done for chunk in shown] == sorted({chunk.done for chunk in shown})
        assert shown[-1].done == shown[-1].total > WORDS
        again = await chunks_of(provider, asked(LONG, max_output_tokens=3))
        assert not [chunk for chunk in again if isinstance(chunk, PromptProgress)]
        await provider.aclose()

    anyio.run(main)


def test_reading_continues_where_it_was_stopped(shallow_model: Path, tmp_path: Path) -> None:
    """A cancelled reading of the fixed prompt is kept, for a new process to continue; the finished one replaces it."""

    async def main() -> None:
        began: list[int] = []
        for stops in (True, False):
            provider = LocalProvider(shallow_model, cache_dir=tmp_path, context_tokens=2048, threads=1)
            with anyio.CancelScope() as scope:
                async for chunk in provider.stream(asked("Hi", (READ,), max_output_tokens=3)):
                    if isinstance(chunk, PromptProgress):
                        began.append(chunk.done)
                        if stops and chunk.done:
                            scope.cancel()
            await provider.aclose()
            names = [path.stem for path in (tmp_path / "prompts").iterdir()]
            assert [name.endswith("-begun") for name in names] == [stops]
            if stops:
                stopped_at = began.pop()
                began.clear()
        assert began[0] >= stopped_at
        provider = LocalProvider(shallow_model, cache_dir=tmp_path, context_tokens=2048, threads=1)
        chunks = await chunks_of(provider, asked("Hi", (READ,), max_output_tokens=3))
        assert not [chunk for chunk in chunks if isinstance(chunk, PromptProgress)]
        await provider.aclose()

    anyio.run(main)


def test_ctrl_c_stops_the_reading(shallow_model: Path, tmp_path: Path) -> None:
    """`jaato run` at a terminal shows the reading on one line, which Ctrl-C ends; the next one begins where it stopped."""
    desk = CliEnvironment(tmp_path)
    desk.env["JAATO_LOCAL_MODEL"] = str(shallow_model)
    reading = r"\r\x1b\[Kreading the prompt \[[#.]+\] +(\d+)% ([\d,]+) of [\d,]+ tokens"
    parts: list[int] = []
    for _ in range(2):
        with talking(desk, "--provider", "local", "Hi", command="run", term="xterm", fresh=True) as terminal:
            terminal.expect(reading)
            parts.append(int(terminal.match[1]))
            terminal.expect(reading)
            terminal.kill(signal.SIGINT)
            terminal.expect(pexpect.EOF)
            terminal.close()
            assert terminal.exitstatus == 130
    assert parts[0] == 0 < parts[1]


def test_the_demo_reads_the_prompt_once(shallow_model: Path, tmp_path: Path) -> None:
    """The first run of the demo begins with a question that has the fixed prompt read and kept, and shows how far it is."""
    environ = {
        "PATH": environment()["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "OLLAMA_HOST": "127.0.0.1:9",
        "JAATO_LOCAL_MODEL": str(shallow_model),
    }
    config = tmp_path / ".config" / "jaato" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(FEW_TOOLS)
    demo = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with demo:
        prompts = tmp_path / ".cache" / "jaato" / "prompts"
        deadline = time.monotonic() + 120
        while not list(prompts.glob("*.state")) and demo.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(demo.pid, signal.SIGINT)
        out, err = demo.communicate(timeout=60)
    assert [path.stem.endswith("-begun") for path in prompts.iterdir()] == [False]
    assert "Once only" in out
    assert re.search(r"^reading the prompt: 50 % of [\d,]+ tokens$", err, re.MULTILINE)
    assert not list(tmp_path.glob("jaato-demo-*"))
