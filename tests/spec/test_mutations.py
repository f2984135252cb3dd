"""The list of mutations fits the code."""

from __future__ import annotations

import ast

import pytest
from tests.spec import sentences
from tests.spec.collect import ROOT
from tests.spec.mutate import Mutation, load

MUTATIONS = load()


def test_there_are_enough_of_them_and_each_breaks_a_sentence() -> None:
    """At least forty, of at least thirty sentences that exist, or of a page that does."""
    known = sentences.load().sentences
    assert len(MUTATIONS) >= 40
    requirements = {mutation.requirement for mutation in MUTATIONS}
    assert len(requirements) >= 30
    assert all((ROOT / name).is_file() for name in requirements - set(known))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m.requirement}-{m.file}")
def test_a_mutation_can_be_made(mutation: Mutation) -> None:
    """Its text is there once, what it becomes is Python, and its tests exist."""
    assert mutation.occurrences() == 1
    ast.parse(mutation.source.read_text(encoding="utf-8").replace(mutation.old, mutation.new))
    for test in mutation.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")
