"""Strategies in real processes: chosen by the environment, resumed by another process, refused by name."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.environment import CliEnvironment

from jaato.agent.compaction.summary import SUMMARY_HEAD


def test_another_process_goes_on_after_a_summary(tmp_path: Path) -> None:
    """`JAATO_GC=gc_summarize`: the summary is in the exported log and in what the next process's model is sent."""
    desk = CliEnvironment(tmp_path)
    small = {"JAATO_GC": "gc_summarize", "JAATO_GC_THRESHOLD": "0.5"}
    long = {"text": "word " * 2000}
    summary = {"text": "They counted words.", "purpose": "gc"}
    script = desk.script(long, long, summary, *[{"text": f"The {n}. word was harbour."} for n in range(20)])
    first = json.loads(desk.run("run", *script, "--output", "json", "one", environ=small).stdout)
    for text in ("two", "three", "four", "five", "six", "seven", "eight"):
        done = desk.run(
            "run", *script, "--session", first["session_id"], "--output", "json", text, environ=small
        )
        assert done.returncode == 0, done.stderr
    shown = desk.run("sessions", "export", first["session_id"])
    assert "gc.completed" in shown.stdout
    assert json.dumps(SUMMARY_HEAD)[1:-1] in shown.stdout
    again = desk.run("sessions", "export", first["session_id"])
    assert again.stdout == shown.stdout


def test_a_strategy_that_is_not_there_leaves_no_session_behind(tmp_path: Path) -> None:
    """The names there are are told, and nothing was begun."""
    desk = CliEnvironment(tmp_path)
    done = desk.run("run", *desk.script({"text": "ok"}), "hello", environ={"JAATO_GC": "gc_lru"})
    assert done.returncode == 2
    for name in ("gc_truncate", "gc_summarize", "gc_hybrid"):
        assert name in done.stderr
    listed = desk.run("sessions", "list", "--json")
    assert json.loads(listed.stdout or "[]") in ([], {"sessions": []})
