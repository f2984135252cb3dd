"""The models that can be downloaded: files, sizes, hashes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jaato.errors import ModelNotFound

DEFAULT_MODEL = "qwen2.5-coder-1.5b-instruct"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """One GGUF file: its official hash, the page it is published at, and the equal parts it is also kept in.

    All parts but the last have `part_bytes`; `lock` names the file beside this module that pins them in
    order.
    """

    name: str
    file_name: str
    sha256: str
    size_bytes: int
    part_bytes: int
    lock: str
    hub_url: str | None

    @property
    def parts(self) -> int:
        """How many parts the file has."""
        return -(-self.size_bytes // self.part_bytes)

    def part_size_bytes(self, index: int) -> int:
        """The size of part `index`, counted from zero."""
        return min(self.part_bytes, self.size_bytes - index * self.part_bytes)


def qwen(size: str, sha256: str, size_bytes: int, part_bytes: int) -> LocalModel:
    """One size of the Qwen2.5-Coder instruction models, in four-bit weights (Apache-2.0)."""
    name = f"qwen2.5-coder-{size}-instruct"
    file_name = f"{name}-q4_k_m.gguf"
    return LocalModel(
        name=name,
        file_name=file_name,
        sha256=sha256,
        size_bytes=size_bytes,
        part_bytes=part_bytes,
        lock=f"model-{size}.lock",
        hub_url=f"https://huggingface.co/Qwen/Qwen2.5-Coder-{size.upper()}-Instruct-GGUF/resolve/main/{file_name}",
    )


MODELS: dict[str, LocalModel] = {
    model.name: model
    for model in (
        qwen(
            "1.5b",
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            1_117_320_768,
            52_428_800,
        ),
        qwen(
            "0.5b",
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            491_400_064,
            89_128_960,
        ),
    )
}


def check_model_file(path: Path) -> None:
    """See that a file calls itself a model. Raises `ModelNotFound`; one that is damaged fails when it is loaded."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelNotFound(
            f"The model file {path} cannot be read: {error.strerror or error}.", provider="local"
        ) from None
    if magic != b"GGUF":
        raise ModelNotFound(
            f"{path} is not a GGUF file: it does not begin with GGUF. Name a model in GGUF format.",
            provider="local",
        )
