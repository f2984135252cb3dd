"""`jaato trace`: spans of a session or a file, for people, browsers and collectors."""

from __future__ import annotations

import html.parser
import json
import shutil
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.kit import call, say
from tests.tracing.spying import decoded, stored, traced

from jaato.cli import trace
from jaato.cli.arguments.parser import make_parser
from jaato.cli.trace_lines import Symbols, lines_of, symbols
from jaato.cli.trace_page import page
from jaato.cli.trace_tree import Trace, traces_of
from jaato.errors import ConfigError, SessionNotFound
from jaato.protocol.events import MessageUser, now
from jaato.runtime.tracing.otlp import document, spans_in
from jaato.runtime.tracing.spans import Span
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose sessions are below it, and a session of two turns."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    async def main() -> None:
        script = [call("run", command="touch x", need=["write"]), say("One."), say("Two.")]
        state = tmp_path / "state/jaato"
        async with traced(
            tmp_path, script, state_dir=state, on_permission=lambda _: "y", name="both"
        ) as live:
            await live.run("go")
            await live.run("again")

    anyio.run(main)
    return tmp_path


def run(home: Path, *words: str) -> int:
    """`jaato trace` in this process."""
    args = make_parser().parse_args(["trace", "--workspace", str(home / "work"), *words])
    return trace.main(args)


def test_a_session_is_shown_as_trees(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Every turn is a tree with a line for each span: its name, its bar, its length, its tokens; the session is named or
    the newest here, and spans of its file look the same."""
    assert run(home) == 0
    text = capsysbinary.readouterr().out.decode()
    lines = [line for line in text.splitlines() if line]
    assert [line.split("[")[0].rstrip() for line in lines if "[" in line] == [
        "invoke_agent main",
        "  chat script",
        "  permission run",
        "  execute_tool run",
        "  chat script",
        "invoke_agent main",
        "  chat script",
    ]
    assert "200 + 20 tokens" in text
    assert "allowed" in text
    assert run(home, "both") == 0
    assert capsysbinary.readouterr().out.decode() == text
    assert run(home, "--from", str(home / "work/spans.jsonl")) == 0
    assert capsysbinary.readouterr().out.decode() == text
    assert run(home, "--last", "1") == 0
    one = capsysbinary.readouterr()
    assert one.out.decode().count("invoke_agent") == 1
    assert "1 turns before these" in one.err.decode()


def test_a_session_at_work_is_shown(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """What goes on is said to go on, and is left out of OTLP, where only what has ended can be."""
    store = SqliteStore(home / "state/jaato/jaato.db")
    session_id = store.find("both")
    first = next(event for event in store.read(session_id) if isinstance(event, MessageUser))
    last = store.last_seq(session_id)
    store.append([msgspec.structs.replace(first, seq=last + 1, turn_id="t2", timestamp=now())])
    store.close()
    assert run(home, "both", "--last", "1") == 0
    assert "goes on" in capsysbinary.readouterr().out.decode()
    assert run(home, "both", "--json") == 0
    assert len(capsysbinary.readouterr().out.splitlines()) == 2


def test_a_session_is_otlp(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """--json gives a document for each turn on a line, as a collector's file receiver reads it; contents only when asked."""
    assert run(home, "both", "--json") == 0
    out = capsysbinary.readouterr().out
    assert len(out.splitlines()) == 2
    found = [span for line in out.splitlines() for span in spans_in(line)]
    session_id = str(found[0].attributes["gen_ai.conversation.id"])
    shutil.copytree(home / "state/jaato", home / "copy/state")
    whole = stored(home / "copy", session_id)
    assert {span.span_id for span in found} == {span.span_id for span in whole}
    assert sum(len(decoded(line).resource_spans[0].scope_spans[0].spans) for line in out.splitlines()) == 7
    assert b"One." not in out
    assert run(home, "both", "--json", "--content") == 0
    assert b"One." in capsysbinary.readouterr().out


def test_a_session_is_a_page(home: Path) -> None:
    """--html writes a page that is complete in itself and has every span."""
    place = home / "trace.html"
    assert run(home, "both", "--html", str(place)) == 0
    text = place.read_text()
    html.parser.HTMLParser().feed(text)
    assert text.count("<tr ") == 7
    assert "<script" not in text
    assert "://" not in text


def test_what_is_not_there_is_said(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """No such session, no such file, a file of something else: a sentence each."""
    with pytest.raises(SessionNotFound):
        run(home, "nothing")
    with pytest.raises(ConfigError, match="cannot be read"):
        run(home, "--from", str(home / "none"))
    with pytest.raises(ConfigError, match="two things"):
        run(home, "both", "--from", "x")
    odd = home / "odd"
    odd.write_bytes(
        b"\0\xff\n{}\n[[[\n" + b"[" * 100_000 + b'\n{"resourceSpans":[1,{"scopeSpans":[{"spans":[3,{}]}]}]}\n'
    )
    assert run(home, "--from", str(odd)) == 0
    err = capsysbinary.readouterr().err.decode()
    assert "4 lines" in err
    assert "No spans." in err


def hostile() -> list[Span]:
    """Spans of a file that somebody has made by hand: in a circle, their own parents, endless, steering the terminal."""
    names = ["a\x1b[2J<script>alert(1)</script>", "b" * 5000, "c\n\nd", "e\u202e"]
    spans = [
        Span(
            trace_id="t\x1b]0;x\x07",
            span_id=str(number),
            parent_id=str((number + 1) % 4),
            name=names[number],
            start_ns=number * 10**18,
            end_ns=9 * 10**18,
            attributes={"jaato.turn.reason": "\x1b[31m\" onclick='x'", "gen_ai.usage.input_tokens": -1},
            problem="<b>",
        )
        for number in range(4)
    ]
    return [*spans, Span(trace_id="t", span_id="1", parent_id="1", name="x", start_ns=0, end_ns=None)]


def test_a_hostile_file_steers_nothing(tmp_path: Path) -> None:
    """Every span is shown once, whatever its parents are; nothing moves the cursor, and nothing in a page is markup."""
    traces = traces_of(hostile())
    for one in traces:
        rows = list(one.rows())
        assert sorted(row.span.span_id for row in rows) == sorted(span.span_id for span in one.spans)
        for line in lines_of(one, 80, Symbols()):
            assert len(line) <= 80
            assert line.isprintable()
    text = page("<title>\x1b", traces)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert " onclick='x'" not in text
    deep = [
        Span(trace_id="t", span_id=str(n), parent_id=str(n - 1), name="x", start_ns=0, end_ns=1)
        for n in range(5000)
    ]
    assert len(list(Trace("t", deep).rows())) == 5000


def test_bars_fit_the_encoding() -> None:
    """A terminal without block characters gets plain ones."""
    assert symbols("ascii") == symbols(None) == symbols("no such") == Symbols("#", ".", "|")
    assert symbols("utf-8") == Symbols()


def test_documents_are_read_as_they_are_written() -> None:
    """A span survives its document."""
    span = Span(
        trace_id="0" * 32,
        span_id="0" * 16,
        name="x",
        start_ns=1,
        end_ns=2,
        problem="bad",
        attributes={"a": "b", "c": 1, "d": 1.5, "e": True, "f": ["g"], "error.type": "bad"},
    )
    assert list(spans_in(document([span], {}))) == [span]
    assert json.loads(document([span], {"service.name": "x"}))["resourceSpans"][0]["resource"]["attributes"]
