"""Traces: written as a flow goes, read with distrust, played again exactly."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import Refused, definition, shop
from tests.flow.using import Flown, flown, planned
from tests.kit import call, say

from jaato.errors import ConfigError
from jaato.runtime.flow.replay import ReplayMismatch, replay
from jaato.runtime.flow.result import fold
from jaato.runtime.flow.trace import (
    MAX_RECORDS,
    MAX_TRACE_BYTES,
    Begun,
    Ended,
    Recorder,
    StepBegun,
    read_trace,
)
from jaato.tools.redaction.redactor import Redactor

Line = dict[str, Any]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flown]:
    """A flow in which arguments were refused, a tool gave data, another failed, and a third was not come to."""

    def run(name: str, args: Any) -> Any:
        if name == "pump":
            raise Refused("The pump is broken.")
        return {"said": args["text"], "by": name}

    script = [
        say("Let me see."),
        planned("echo", "pump", "echo"),
        call("echo", words="x"),
        call("echo", text="x"),
        call("pump", text="y"),
        say("The pump is broken."),
    ]
    with shop(definition("echo"), definition("pump"), run=run) as it:
        yield anyio.run(flown, tmp_path_factory.mktemp("trace"), script, it.url)


def test_every_beginning_plays_again(done: Flown, tmp_path: Path) -> None:
    """A trace that was cut off anywhere, in the middle of a line too, plays as far as it goes and says that it was cut off;
    whole it gives the very run that wrote it, and is the user's alone."""
    content = done.trace.read_bytes()
    assert done.trace.stat().st_mode & 0o777 == 0o600
    assert replay(read_trace(done.trace)) == (done.run, True)
    assert fold(read_trace(done.trace).records) == done.run
    path = tmp_path / "cut.jsonl"
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    for number, end in enumerate(ends[:-1], 1):
        for cut in (end, end + 7):
            path.write_bytes(content[:cut])
            trace = read_trace(path)
            assert (len(trace.records), trace.torn, trace.ended) == (number, cut != end, None)
            run, whole = replay(trace)
            assert (run.status, whole) == ("interrupted", False)
            assert all(step.status != "running" for step in run.steps)


def lines_of(done: Flown) -> list[Line]:
    """The trace as data."""
    return [json.loads(line) for line in done.trace.read_text().splitlines()]


def the(kind: str, lines: list[Line], number: int = 0) -> Line:
    """The record of this kind, by its number among them."""
    return [line for line in lines if line["type"] == kind][number]


def without(kind: str, number: int = 0) -> Callable[[list[Line]], None]:
    """Takes a record away."""
    return lambda lines: lines.remove(the(kind, lines, number))


def done_early(lines: list[Line]) -> None:
    """Has the flow end well in the middle of its course."""
    del lines[6:-1]
    the("flow.ended", lines).update(status="ok")


CHANGES: list[Callable[[list[Line]], object]] = [
    lambda lines: the("flow.begun", lines).update(instruction="Another."),
    lambda lines: the("flow.begun", lines).update(max_steps=2),
    lambda lines: the("flow.offered", lines)["tools"][0].update(description="Another."),
    lambda lines: the("flow.offered", lines)["tools"].pop(),
    lambda lines: the("model.replied", lines).update(text='{"steps": []}'),
    lambda lines: the("model.replied", lines, 1).update(text='{"steps": []}'),
    lambda lines: the("model.replied", lines, 3)["call"].update(name="pump"),
    lambda lines: the("model.replied", lines, 4).update(attempt=2),
    lambda lines: the("flow.planned", lines)["steps"][0].update(tool="pump"),
    lambda lines: the("step.begun", lines, 1).update(purpose="another"),
    lambda lines: the("step.described", lines).update(parameters={"type": "object"}),
    lambda lines: the("step.described", lines).update(parameters={"type": 7}),
    lambda lines: the("step.described", lines).update(description="Another."),
    lambda lines: the("step.called", lines, 1)["result"]["structured"].update(said="z"),
    lambda lines: the("step.called", lines, 1)["arguments"].update(text="z"),
    lambda lines: the("step.called", lines, 1)["arguments"].pop("text"),
    lambda lines: the("step.called", lines, 2)["result"]["error"].update(message="It is well."),
    lambda lines: the("step.ended", lines, 1).update(status="failed"),
    lambda lines: the("step.ended", lines, 2).update(status="ok"),
    lambda lines: the("flow.ended", lines).update(status="ok"),
    lambda lines: the("flow.ended", lines).update(status="denied"),
    lambda lines: the("flow.ended", lines).update(error=None),
    lambda lines: the("flow.ended", lines).update(status="interrupted"),
    done_early,
    without("flow.offered"),
    without("flow.answering"),
    without("flow.planned"),
    without("model.replied", 3),
    without("step.described"),
    without("step.called"),
    without("step.ended", 2),
    lambda lines: lines.insert(8, the("step.called", lines)),
    lambda lines: lines.insert(-1, the("step.called", lines)),
]


def test_what_was_changed_does_not_play(done: Flown, tmp_path: Path) -> None:
    """A trace in which an instruction, a tool, a reply, a call, a result or an ending is another than it was does not play: the
    line is named."""
    path = tmp_path / "changed.jsonl"
    for number, change in enumerate(CHANGES):
        lines = lines_of(done)
        change(lines)
        assert lines != lines_of(done), number
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises((ReplayMismatch, ConfigError), match=r"[Ll]ine \d+|goes on") as caught:
            pytest.fail(f"change {number} plays: {replay(read_trace(path)).run}")
        assert len(str(caught.value)) < 2_000, number


def test_prompts_of_another_version(done: Flown, tmp_path: Path) -> None:
    """A trace of another version plays, whatever words that had for the model; one of another format is refused."""
    lines = lines_of(done)
    lines[0]["jaato_version"] = "0.0.1"
    for line in lines:
        if line["type"] == "model.replied":
            line["asked"] = "0" * 32
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert replay(read_trace(path)).whole
    lines[0]["format"] = 2
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match="format 2"):
        read_trace(path)


def test_what_is_no_trace(done: Flown, tmp_path: Path) -> None:
    """What is missing, huge, no file, no JSON, no record or no flow is said to be that, with its line, and nothing is read of
    what has no end."""
    first, second, *_ = done.trace.read_bytes().splitlines(keepends=True)
    [answering] = [one for one in done.trace.read_bytes().splitlines(keepends=True) if b"room_chars" in one]
    last = done.trace.read_bytes().splitlines(keepends=True)[-1]
    for content, words in (
        (b"", "is no trace"),
        (b"\n", "line 1 is no record"),
        (second, "is no trace"),
        (b"x" * 100, "is no trace"),
        (first + first, "begins twice"),
        (first + second + second, "begins twice"),
        (first + b"{}\n", "line 2 is no record"),
        (first + b'{"type":"flow.strange"}\n', "line 2 is no record"),
        (first + b'{"type":"model.replied","step_id":"x","attempt":1,"asked":""}\n', "never begun"),
        (first + b"\xff\xfe\n", "line 2 is no record"),
        (first + b"[" * 200_000 + b"\n", "line 2 is no record"),
        (
            first + b'{"type":"step.described","step_id":"x","parameters":' + b'{"a":' * 50_000 + b"\n",
            "line 2",
        ),
        (first + last + second, "goes on"),
        (first.replace(b'"max_steps":8', b'"max_steps":8000'), "such bounds"),
        (first.replace(b"six", b"six" * 400_000), "such bounds"),
        (first + answering.replace(b'"room_chars":24000', b'"room_chars":24000000'), "such room"),
        (first + second * MAX_RECORDS, "lines"),
    ):
        path = tmp_path / "wrong.jsonl"
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=words):
            read_trace(path)
    huge = tmp_path / "huge.jsonl"
    with huge.open("wb") as file:
        file.truncate(MAX_TRACE_BYTES + 1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for where in (huge, pipe, tmp_path, tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(ConfigError):
            read_trace(where)


def test_a_full_disk(tmp_path: Path) -> None:
    """Where there is no more room the trace ends with its last whole line, the flow hears of every record all the same, and
    says so; a file that is there is never written over."""
    begun = Begun(format=1, flow_id="s1", instruction="x", registries=[], max_steps=1, jaato_version="0.1.0")
    heard: list[object] = []
    path = tmp_path / "full.jsonl"
    recorder = Recorder(path, heard.append, Redactor.none())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    try:
        recorder(begun)
        recorder(StepBegun(step_id="plan", kind="plan", purpose="p" * 300))
        recorder(Ended(status="ok"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        recorder.close()
    assert len(heard) == len(recorder.records) == 3
    assert "ends early" in recorder.fault
    trace = read_trace(path)
    assert (trace.records, trace.torn) == ([begun], False)
    with pytest.raises(ConfigError, match="already"):
        Recorder(path, heard.append, Redactor.none())
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="already"):
        Recorder(link, heard.append, Redactor.none())
