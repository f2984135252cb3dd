"""A session of two hundred calls in a window of 16,000 tokens, killed twice: it comes to its end and knows what it did."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from bench.context import CALLS, LATER, WINDOW, compactions, inputs, run_task

DEATHS = (71, 142)


@pytest.mark.slow
def test_a_long_task_in_a_small_window_comes_to_its_end(tmp_path: Path) -> None:
    """Without a model's summary the last request still answers: which files were touched, what was done, what is open, which
    constraints hold, what was asked last. No part is surveyed twice, no request exceeds the window, and all requests
    together have at most a quarter of the tokens they have without compaction."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    told = run_task(one, *DEATHS)
    assert told["text"] == "All parts are surveyed."
    note = told["context"][0]
    work = one / "work"
    surveyed = sorted(path.name for path in (work / "parts").iterdir())
    assert len(surveyed) == CALLS - 10 - len(DEATHS)
    for name in surveyed:
        content = (work / "parts" / name).read_text()
        assert content == f"surveyed {int(name[:3])}\n"
        known = f"parts/{name} used {hashlib.sha256(content.encode()).hexdigest()[:12]}"
        assert known in note or any(name in text for text in told["context"][1:]), name
    for words in (
        "Survey two hundred parts of the coast",
        "- Never touch keel.txt.",
        "- You must note every tenth part in log/.",
        "- Always use metres.",
        f"- {LATER}",
        "echo part 010 > log/010.txt (exit code 0)",
        "survey: ",
        "Your open plan",
        "report",
    ):
        assert words in note, words
    assert LATER in told["context"][1:]
    assert {"survey", "run", "createPlan"} <= set(told["tools"])
    made = compactions(one, told["session"])
    assert all(event.problem is None for event in made)
    assert len(made) > 10
    run_task(two, gc="none")
    with_it, without = inputs(one), inputs(two)
    assert max(with_it) <= WINDOW
    share = sum(with_it) / sum(without)
    print(f"cumulative input {sum(with_it):,} of {sum(without):,} tokens: {100 * share:.1f} %")
    assert share <= 0.25
