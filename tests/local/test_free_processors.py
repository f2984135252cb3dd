"""How many threads the engine takes on a busy machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaato.providers.local.engine import MAX_THREADS, free_processors, usable_processors


@pytest.mark.parametrize("running", [1, 2, 3, 50])
def test_what_others_compute_on_is_left_to_them(tmp_path: Path, running: int) -> None:
    """Each thread that computes besides this one takes a processor away; one always stays."""
    load = tmp_path / "loadavg"
    load.write_text(f"0.50 0.40 0.30 {running}/321 4711\n")
    assert free_processors(load) == max(1, min(usable_processors() - (running - 1), MAX_THREADS))


@pytest.mark.parametrize("text", [None, "", "unreadable"])
def test_without_a_report_all_processors_are_free(tmp_path: Path, text: str | None) -> None:
    """Where the system does not say who computes, the engine takes what it may use."""
    load = tmp_path / "loadavg"
    if text is not None:
        load.write_text(text)
    assert free_processors(load) == min(usable_processors(), MAX_THREADS)
