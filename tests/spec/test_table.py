"""The table of sentences is complete, true and committed."""

from __future__ import annotations

from tests.spec.collect import collect
from tests.spec.sentences import load
from tests.spec.table import TARGET, proofs, table, unproved


def test_every_sentence_has_a_test_or_is_not_there_yet() -> None:
    """No sentence without a proof or the reason why it has none, never both; no proof that names a sentence or test that
    does not exist."""
    specification, marks = load(), collect()
    assert unproved(specification, marks) == []
    known = {mark.node for mark in marks}
    for sentence in specification.sentences.values():
        for name in sentence.named:
            assert any(node == name or node.startswith(f"{name}::") for node in known), (sentence.id, name)
        assert bool(sentence.missing) != bool(proofs(sentence, marks)), sentence.id
    for mark in marks:
        if mark.requirement is not None:
            assert mark.requirement in specification.sentences, mark
            section = specification.section(mark.document, mark.heading)
            assert section is not None, mark
            assert mark.requirement in {sentence.id for sentence in section.sentences}, mark


def test_the_committed_table_is_the_generated_one() -> None:
    """`python -m tests.spec.table` writes what is committed."""
    assert TARGET.read_text(encoding="utf-8") == table(load(), collect()), (
        "out of date: run `python -m tests.spec.table`"
    )
