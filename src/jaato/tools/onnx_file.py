"""ONNX files: the constants of one that is there, and one that is written step by step."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaato.tools.wire import fields, message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Sizes = Sequence[str | int]
"""A size that is not known has a name."""
FUSED = "com.microsoft"
"""The domain of operators that only `onnxruntime` has."""
FLOAT, INT64, INT32 = 1, 7, 6
TYPES = {"float32": FLOAT, "uint8": 2, "int8": 3, "int32": INT32, "int64": INT64}
MIDDLE = 128


class Graph:
    """A graph that is being written: its constants and its steps."""

    def __init__(self, *, unsigned: bool) -> None:
        self.unsigned = unsigned
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, name: str, array: Array) -> str:
        """Add a constant; its name."""
        import numpy as np

        dims = [(1, int(size)) for size in array.shape]
        raw = np.ascontiguousarray(array).tobytes()
        self._constants.append(message(*dims, (2, TYPES[str(array.dtype)]), (8, name), (9, raw)))
        return name

    def step(
        self, operator: str, given: Sequence[str], made: str | Sequence[str], domain: str = "", **how: Any
    ) -> str:
        """Add a step; the name of the first thing it makes."""
        outputs = [made] if isinstance(made, str) else made
        attributes = [(5, attribute(name, value)) for name, value in how.items()]
        self._nodes.append(
            message(
                *((1, name) for name in given),
                *((2, name) for name in outputs),
                (4, operator),
                *attributes,
                (7, domain),
            )
        )
        return outputs[0]

    def product(self, given: str, made: str, weights: Array, scales: Array, bias: Array | None = None) -> str:
        """Multiply by int8 weights that have a scale for each column; what is given is rounded to eight bits."""
        import numpy as np

        zeros = ""
        if self.unsigned:
            weights = (weights.astype(np.int16) + MIDDLE).astype(np.uint8)
            zeros = self.constant(f"{made}.zero", np.full(weights.shape[1], MIDDLE, np.uint8))
        names = [given, self.constant(f"{made}.weight", weights)]
        names += [self.constant(f"{made}.scale", scales.reshape(-1)), zeros]
        if bias is not None:
            names.append(self.constant(f"{made}.bias", bias))
        return self.step("DynamicQuantizeMatMul", names, made, FUSED)

    def model(self, inputs: Mapping[str, int], given: Sizes, output: str, made: Sizes) -> bytes:
        """The content of an ONNX file: the types of its inputs, all of one size, and one output of floats."""
        graph = message(
            *((1, node) for node in self._nodes),
            (2, "sentence"),
            *((5, constant) for constant in self._constants),
            *((11, table(name, kind, given)) for name, kind in inputs.items()),
            (12, table(output, FLOAT, made)),
        )
        used = [(8, message((1, domain), (2, version))) for domain, version in (("", 18), (FUSED, 1))]
        return message((1, 9), (7, graph), *used)


def attribute(name: str, value: float) -> bytes:
    """How a step does its work."""
    if isinstance(value, int):
        return message((1, name), (3, value), (20, 2))
    # the number 2 as a fixed width of 32 bits
    return message((1, name), (20, 1)) + b"\x15" + struct.pack("<f", value)


def table(name: str, kind: int, sizes: Sizes) -> bytes:
    """What a graph takes or gives: numbers of one type in so many dimensions."""
    dims = [(1, message((1 if isinstance(size, int) else 2, size))) for size in sizes]
    return message((1, name), (2, message((1, message((1, kind), (2, message(*dims)))))))


def constants(content: bytes) -> dict[str, Array]:
    """The constants of an ONNX file by their names. Raises `ValueError` for one that is damaged."""
    import numpy as np

    dtypes = {number: np.dtype(name) for name, number in TYPES.items()}
    found: dict[str, Array] = {}
    for number, graph in fields(memoryview(content)):
        if number != 7 or isinstance(graph, int):
            continue
        for part, tensor in fields(graph):
            if part != 5 or isinstance(tensor, int):
                continue
            told: dict[int, Any] = {}
            dims: list[int] = []
            for key, value in fields(tensor):
                if key == 1 and isinstance(value, int):
                    dims.append(value)
                else:
                    told[key] = value
            if told.get(2) in dtypes and 9 in told:
                name = bytes(told.get(8, b"")).decode()
                found[name] = np.frombuffer(told[9], dtypes[told[2]]).reshape(dims)
    return found
