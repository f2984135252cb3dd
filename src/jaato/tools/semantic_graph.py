"""The sentence model rebuilt so that it multiplies whole numbers, as its weights are: a quarter of the time and memory.

The file has int8 weights and a graph that makes floats of them all before it begins. The graph made here (ONNX, with
operators of `onnxruntime`) keeps them, and rounds what flows through it to eight bits at each multiplication.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jaato.tools.onnx_file import FLOAT, FUSED, INT32, INT64, Graph, constants

if TYPE_CHECKING:
    from jaato.tools.onnx_file import Array

KNOWN = (22_928_619, 1_993_948_681)
"""Size and CRC-32 of the file whose names and shapes are relied on here; any other is run as it is."""
LAYERS, WIDTH, HEADS, POSITIONS = 6, 384, 12, 128
TINY = 1e-12
BEFORE = "inner.embeddings."


def whole_numbers(content: bytes, *, unsigned: bool) -> bytes | None:
    """The model of a file as one that multiplies whole numbers; None when the file is not the one known here.

    With `unsigned` weights are moved to 0 to 255: slower, but right where the processor cuts sums of signed ones off.
    """
    if (len(content), zlib.crc32(content)) != KNOWN:
        return None
    return rebuilt(constants(content), unsigned=unsigned)


def rebuilt(known: dict[str, Array], *, unsigned: bool) -> bytes:
    """The model from its constants. Raises `KeyError` and `ValueError` where one is missing or of another shape."""
    import numpy as np

    graph = Graph(unsigned=unsigned)
    matrices = sorted(
        (name[:-2] for name in known if name.startswith("val_") and name.endswith("_q")),
        key=lambda name: int(name[4:]),
    )
    now = read_tokens(graph, known)
    for layer in range(LAYERS):
        of_layer = f"inner.encoder.layer.{layer}."
        query, key, value, joined, wide, narrow = matrices[6 * layer : 6 * layer + 6]
        three = (query, key, value)
        seen = graph.product(
            now,
            f"seen{layer}",
            np.concatenate([known[f"{name}_q"] for name in three], 1),
            np.concatenate([known[f"{name}_scale"].reshape(-1) for name in three]),
            np.concatenate(
                [known[f"{of_layer}attention.self.{name}.bias"] for name in ("query", "key", "value")]
            ),
        )
        parts = [f"{name}{layer}" for name in ("query", "key", "value")]
        graph.step("Split", [seen], parts, axis=2, num_outputs=3)
        heeded = graph.step(
            "MultiHeadAttention", [*parts, "", "mask"], f"heeded{layer}", FUSED, num_heads=HEADS
        )

        def dense(given: str, made: str, matrix: str, part: str, of_layer: str = of_layer) -> str:
            bias = known[f"{of_layer}{part}.dense.bias"]
            return graph.product(given, made, known[f"{matrix}_q"], known[f"{matrix}_scale"], bias)

        joint = dense(heeded, f"joint{layer}", joined, "attention.output")
        middle = normal(graph, known, [joint, now], f"middle{layer}", f"{of_layer}attention.output.")
        grown = graph.step(
            "Gelu", [dense(middle, f"wide{layer}", wide, "intermediate")], f"grown{layer}", FUSED
        )
        small = dense(grown, f"narrow{layer}", narrow, "output")
        now = normal(graph, known, [small, middle], f"out{layer}", f"{of_layer}output.")
    return graph.model(
        {"input_ids": INT64, "mask": INT32}, ("texts", "tokens"), now, ("texts", "tokens", WIDTH)
    )


def read_tokens(graph: Graph, known: Mapping[str, Array]) -> str:
    """The steps from the numbers of tokens to what enters the first layer: only the rows that are read become floats."""
    import numpy as np

    places = (
        known[f"{BEFORE}position_embeddings.weight_q"] * known[f"{BEFORE}position_embeddings.weight_scale"]
    )
    kind = known[f"{BEFORE}token_type_embeddings.weight"][0]
    graph.constant("words", known[f"{BEFORE}word_embeddings.weight_q"])
    graph.constant("words.scale", known[f"{BEFORE}word_embeddings.weight_scale"])
    graph.constant("places", (places[:POSITIONS] + kind).astype(np.float32))
    graph.constant("nought", np.array([0], np.int64))
    whole = graph.step("Gather", ["words", "input_ids"], "rows")
    rows = graph.step("Cast", [whole], "rows.float", to=1)
    scales = graph.step("Gather", ["words.scale", "input_ids"], "rows.scale")
    scaled = graph.step("Mul", [rows, scales], "rows.scaled")
    count = graph.step("Shape", ["input_ids"], "count", start=1)
    there = graph.step("Slice", ["places", "nought", count, "nought"], "places.here")
    placed = graph.step("Add", [scaled, there], "placed")
    return normal(graph, known, [placed], "entered", BEFORE)


def normal(graph: Graph, known: Mapping[str, Array], given: Sequence[str], made: str, part: str) -> str:
    """What is given, added up and brought to one scale as this part of the model has learnt."""
    weight = graph.constant(f"{made}.norm", known[f"{part}LayerNorm.weight"])
    bias = graph.constant(f"{made}.shift", known[f"{part}LayerNorm.bias"])
    # not the operator that does both: it takes three times as long
    whole = graph.step("Add", given, f"{made}.sum") if len(given) > 1 else given[0]
    return graph.step("LayerNormalization", [whole, weight, bias], made, epsilon=TINY)


def cut_off() -> bytes:
    """A model that tells whether this processor cuts sums of products of signed weights off: its `sum` is then below 1."""
    import numpy as np

    graph = Graph(unsigned=False)
    graph.product("ones", "sum", np.full((64, 16), 127, np.int8), np.full(16, 1 / (64 * 127), np.float32))
    return graph.model({"ones": FLOAT}, (4, 64), "sum", (4, 16))
