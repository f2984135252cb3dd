"""The documents' code blocks run as the manifest says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.compat import preludes_architecture as architecture
from tests.compat import preludes_executor as executor
from tests.compat import preludes_plugins as plugins
from tests.compat.extract import SNIPPETS, Block, manifest
from tests.compat.stage import Names, Stage, run

ENTRIES = manifest()
PRELUDES: dict[str, Callable[[Stage], Iterator[Names]]] = {
    **executor.PRELUDES,
    **architecture.PRELUDES,
    **plugins.PRELUDES,
}
AFTER = {**executor.AFTER, **architecture.AFTER}
HEADINGS = {
    "Threshold-Based Triggering": "6. Proactive Garbage Collection",
    "Auto-background result": "Auto-Background",
    "Cancellation Propagation": "Subagent Coordination",
    "Check background task": "Auto-Background",
    "Configuration": "Configuration Methods",
    "Executing tools": "execute()",
    "Executor metadata tuple": "Executor Metadata",
    "Implementation": "10. Streaming with Cancellation Tokens",
    "Output callbacks": "Output Callbacks",
    "Parallel execution": "Output Callbacks",
    "Permission configuration": "Permission Integration",
    "Permission metadata in result": "Permission Integration",
    "Tool registration": "register(name, fn)",
}
"""The section of a block, where its own title is none."""
PROVES = {
    "architecture_12": "S3.client.2",
    "architecture_21": "S3.gc.1",
    "architecture_24": "S3.providers.2",
    "architecture_28": "S3.manual.2",
    "architecture_30": "S3.requirements.1",
    "architecture_31": "S3.requirements.3",
    "architecture_33": "S3.usage.1",
    "tool_executor_06": "S1.errors.2",
    "tool_executor_07": "S1.permission.1",
    "tool_executor_08": "S1.permission.3",
}
"""The sentence a block proves, with what its prelude checks."""
CHECKS = Path(__file__).with_name("test_printed_names.py").read_text()
SECTIONS = {"tool-executor": "S1", "architecture": "S3", "design-philosophy": "S4"}


def name_of(entry: dict[str, Any]) -> str:
    """The name of a block's file, without its ending."""
    return file_of(entry).partition(".")[0]


def file_of(entry: dict[str, Any]) -> str:
    """The name of a block's file."""
    return Block(entry["document"], entry["heading"], entry["index"], entry["language"], "").file_name


def cases(how: str) -> list[Any]:
    """The entries of one kind, each with its mark."""
    return [
        pytest.param(entry, id=name_of(entry), marks=mark_of(entry))
        for entry in ENTRIES
        if entry["how"].startswith(how)
    ]


def mark_of(entry: dict[str, Any]) -> pytest.MarkDecorator:
    """What a block's test proves."""
    heading = HEADINGS.get(entry["heading"], entry["heading"])
    return pytest.mark.spec(SECTIONS[entry["document"]], heading, PROVES.get(name_of(entry)))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stage:
    """An empty directory to be in, a home of its own, and no keys."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"):
        monkeypatch.delenv(variable, raising=False)
    return Stage(work, monkeypatch, capsys)


@pytest.mark.parametrize("entry", cases("runs"))
def test_a_block_runs_as_it_is_printed(entry: dict[str, Any], stage: Stage) -> None:
    """With nothing before it, the block runs and does what it says."""
    names = run(name_of(entry), {})
    AFTER.get(name_of(entry), dict)(names)


@pytest.mark.parametrize("entry", cases("prelude"))
def test_a_block_runs_after_its_prelude(entry: dict[str, Any], stage: Stage) -> None:
    """After what its manifest entry names, the block runs as it is printed and does what it says."""
    prelude = contextmanager(PRELUDES[entry["how"].removeprefix("prelude: ")])
    with prelude(stage) as names:
        expected = architecture.RAISES.get(name_of(entry))
        try:
            run(name_of(entry), names)
            raised = None
        except Exception as error:
            if expected is None:
                raise
            raised = type(error).__name__
        assert raised == expected


@pytest.mark.spec("S3", "Model Requirements", "S3.requirements.2")
def test_the_skipped_plugin_is_warned_of_in_the_printed_words(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning of a skipped plugin reads as the block's comment shows it."""
    with caplog.at_level(logging.WARNING), contextmanager(plugins.multimodal)(stage) as names:
        run("architecture_31", names)
    printed = "Plugin 'multimodal' skipped: model 'gemini-2.5-flash' not in ['gemini-3-pro*', "
    assert [record.getMessage().startswith(printed) for record in caplog.records] == [True]


def test_the_committed_blocks_are_the_recorded_ones() -> None:
    """Every block that is run or checked is committed with the digest the manifest records, and no other file is there."""
    recorded = {file_of(entry): entry["sha256"] for entry in ENTRIES if entry["how"] != "illustrates"}
    texts = {path.name: path.read_text() for path in SNIPPETS.iterdir() if path.is_file()}
    assert {name: Block("", "", 0, "", text).sha256 for name, text in texts.items()} == recorded


def test_every_entry_is_complete() -> None:
    """Each block has its kind; one that does not run as printed says why, and only later parts are left out."""
    for entry in ENTRIES:
        kind, _, prelude = entry["how"].partition(": ")
        assert kind in {"runs", "prelude", "checked", "illustrates"}
        assert (prelude in PRELUDES) == (kind == "prelude")
        assert kind != "checked" or file_of(entry) in CHECKS
        assert entry.get("reason") or kind == "runs"
        assert entry["part"] in {"kernel", "later"}
        if entry["language"] == "python" and kind == "illustrates":
            assert entry["part"] == "later"
            assert entry["reason"].startswith("comes with ")
    used = {entry["how"].removeprefix("prelude: ") for entry in ENTRIES}
    assert set(PRELUDES) <= used
