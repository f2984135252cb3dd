"""Spans in a local file: whole lines, bounded, shared by processes, and no harm where it cannot be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest
from tests.kit import say
from tests.tracing.spying import decoded, spans_of, traced
from tests.tracing.write_spans import span

from jaato.protocol.events import SystemMessage
from jaato.runtime.tracing.file import TraceFile
from jaato.runtime.tracing.outlet import SinkFault

ROOT = Path(__file__).parents[2]


def writer(*words: object) -> subprocess.Popen[str]:
    """A process that writes spans."""
    command = [sys.executable, "-m", "tests.tracing.write_spans", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_line_is_a_document_that_opentelemetry_reads(tmp_path: Path) -> None:
    """Each line of the file is one OTLP document with one span, as OpenTelemetry's own definitions have it; the file and
    its directory are its owner's alone."""

    async def main() -> None:
        async with traced(tmp_path, [say("x")], environ={"JAATO_TRACE_FILE": "deep/er/spans.jsonl"}) as live:
            await live.run("go")

    anyio.run(main)
    path = tmp_path / "work/deep/er/spans.jsonl"
    for line in path.read_bytes().splitlines():
        (resource,) = decoded(line).resource_spans
        named = resource.resource.attributes[0]
        assert (named.key, named.value.string_value) == ("service.name", "jaato")
        (one,) = resource.scope_spans[0].spans
        assert one.end_time_unix_nano >= one.start_time_unix_nano > 1_700_000_000_000_000_000
        assert (len(one.trace_id), len(one.span_id)) == (16, 8)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_processes_share_a_file_and_it_is_bounded(tmp_path: Path) -> None:
    """Two processes write into one file that is begun anew when full: every line is whole, neither file is larger than
    said, and nothing else is left."""
    path = tmp_path / "spans.jsonl"
    for process in [writer(path, 20_000, 400, who) for who in "ab"]:
        out, _ = process.communicate()
        assert (process.returncode, out) == (0, "")
    old = tmp_path / "spans.jsonl.1"
    assert sorted(tmp_path.iterdir()) == [path, old]
    assert 0 < path.stat().st_size <= 20_000
    assert 10_000 < old.stat().st_size <= 20_000
    newest = spans_of(path)[-1]
    assert newest.name in ("a 399", "b 399")
    spans_of(old)


def test_a_full_disk_tears_no_line(tmp_path: Path) -> None:
    """What does not fit is left out whole, and said; when there is room again, the next lines follow."""
    path = tmp_path / "spans.jsonl"
    process = writer(path, 10**9, 40, "a", 4_500)
    out, _ = process.communicate()
    assert out.startswith("File too large.")
    assert path.read_bytes().endswith(b"\n")
    before = len(spans_of(path))
    assert before in (10, 20, 30)
    TraceFile(path, 10**9, {}).send([span(7)], threading.Event())
    assert len(spans_of(path)) == before + 1


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    """After a process that died while it wrote, the next line stands alone; `jaato trace` passes over the broken one."""
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b'{"resourceSpans":[{"reso')
    TraceFile(path, 10**6, {}).send([span(1), span(2)], threading.Event())
    broken, *rest = path.read_bytes().splitlines()
    assert broken == b'{"resourceSpans":[{"reso'
    assert len(rest) == 2


@pytest.mark.parametrize("kind", ["directory", "below a file", "pipe", "no permission"])
def test_a_file_that_cannot_be_written_harms_nothing(tmp_path: Path, kind: str) -> None:
    """The turn goes on as if there were none, and whoever watches is told once, with the reason."""
    path = tmp_path / "there"
    match kind:
        case "directory":
            path.mkdir()
        case "below a file":
            path.write_text("")
            path = path / "spans.jsonl"
        case "pipe":
            os.mkfifo(path)
        case "no permission":
            path = Path("/proc/self/spans.jsonl")
    told: list[str] = []

    async def main() -> None:
        async with traced(tmp_path, [say("x"), say("y")], environ={"JAATO_TRACE_FILE": str(path)}) as live:
            for prompt in ("one", "two"):
                async for event in live.stream(prompt):
                    if isinstance(event, SystemMessage):
                        told.append(event.text)
            assert live.live.state.turns == 2

    anyio.run(main)
    assert len(told) == 1
    assert str(path) in told[0]
    with pytest.raises(SinkFault):
        TraceFile(path, 10**6, {}).send([span(1)], threading.Event())
