"""How a request falls into steps, whatever it is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.tools.search.tokenizer import MAX_CLAUSES, MAX_QUERY, clauses, parse_query, split_steps


def test_steps() -> None:
    """Sentences, lines and what `and`, `then` or a comma joins are steps of their own."""
    text = "Send the report. Then restart the service, and resize\n\nthe  image"
    assert split_steps(text, 8) == ["Send the report", "Then restart the service", "the image"]
    assert split_steps("send", 8) == ["send"]
    assert split_steps("", 8) == [""]


@pytest.mark.parametrize("piece", [" ", "\t", ".", "\n", ". ", "a ", "! \n", ", ", "'", '"a" ', "and "])
def test_any_run_is_cut_at_once(piece: str) -> None:
    """A hundred thousand of one thing take no longer than other text: nothing is tried from each of them anew."""
    cut = clauses(f"a{piece * 100_000}b")
    assert 1 <= len(cut) <= MAX_CLAUSES + 1


@given(st.text(st.sampled_from(" \t\n.;!?,'\"`aB1_é画\ud800\x00\u0301"), max_size=400))
def test_any_text_is_a_request(text: str) -> None:
    """Whatever a request is made of, it has steps within bounds and terms with shares up to one."""
    assert 1 <= len(split_steps(text, 8)) <= 8
    assert all(0 < share <= 1 for clause in parse_query(text) for share in clause.values())


def test_a_long_request_is_read_as_far_as_its_bound() -> None:
    """Beyond the bound nothing is read."""
    assert parse_query("report " * MAX_QUERY) == parse_query("report " * (2 * MAX_QUERY))
