"""The head of a GGUF file: enough to tell a model from something else and to know its context window."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jaato.errors import ModelNotFound

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
STRING, ARRAY = 8, 9
MAX_STRING_BYTES = 1 << 20
MAX_ENTRIES = 1000


class Head(NamedTuple):
    """What the head says: the architecture, the model's own name and the context it was trained for, in
    tokens."""

    architecture: str
    name: str
    context_limit: int | None


def read_head(path: Path) -> Head:
    """Read the head of a GGUF file. Raises `ModelNotFound`, saying why, when it is none or cannot be read."""
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise ModelNotFound(
                    f"{path} is not a GGUF file: it does not begin with GGUF. Name a model in GGUF format.",
                    provider="local",
                )
            version, _tensors, entries = unpack(file, "<IQQ")
            if version not in VERSIONS or entries > MAX_ENTRIES:
                raise ModelNotFound(
                    f"{path} is GGUF version {version}; only versions {VERSIONS} can be read.",
                    provider="local",
                )
            return head_of(read_entries(file, entries))
    except OSError as error:
        raise ModelNotFound(
            f"The model file {path} cannot be read: {error.strerror or error}.", provider="local"
        ) from None
    except (struct.error, EOFError, UnicodeDecodeError):
        raise ModelNotFound(
            f"{path} is a damaged or incomplete GGUF file; fetch or copy it again.", provider="local"
        ) from None


def head_of(entries: dict[str, object]) -> Head:
    """The head from its entries."""
    architecture = str(entries.get("general.architecture", ""))
    limit = entries.get(f"{architecture}.context_length")
    return Head(
        architecture,
        str(entries.get("general.name", "")),
        limit if isinstance(limit, int) and limit > 0 else None,
    )


def read_entries(file: BinaryIO, count: int) -> dict[str, object]:
    """The entries before the first list; the lists are the vocabulary and come after everything of use
    here."""
    found: dict[str, object] = {}
    for _ in range(count):
        key = read_string(file)
        (kind,) = unpack(file, "<I")
        if kind == STRING:
            found[key] = read_string(file)
        elif kind in SCALARS:
            (found[key],) = unpack(file, SCALARS[kind])
        elif kind == ARRAY:
            break
        else:
            raise EOFError
    return found


def read_string(file: BinaryIO) -> str:
    """A string with its length in front."""
    (length,) = unpack(file, "<Q")
    if length > MAX_STRING_BYTES:
        raise EOFError
    data = file.read(length)
    if len(data) != length:
        raise EOFError
    return data.decode()


def unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    """The next numbers of the file."""
    return struct.unpack(layout, file.read(struct.calcsize(layout)))
