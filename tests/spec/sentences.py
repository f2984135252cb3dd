"""The sentences of the specification as data: what each asks, and which tests prove it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("sentences.toml")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One requirement; `missing` says why it is not there yet, empty for what is there."""

    id: str
    says: str
    missing: str = ""
    named: tuple[str, ...] = ()
    """Tests (or files of tests) that prove it without naming it."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a document and its sentences, in order."""

    document: str
    heading: str
    key: str
    sentences: list[Sentence] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Specification:
    """All sections, and other spellings of their headings by document."""

    sections: list[Section]
    synonyms: dict[str, dict[str, str]]

    def section(self, document: str, heading: str) -> Section | None:
        """The section of this heading, in any of its spellings; for contracts the number is enough."""
        wanted = self.synonyms.get(document, {}).get(heading, heading)
        spellings = (wanted, wanted.partition(" (S")[0])
        mine = [section for section in self.sections if section.document == document]
        exact = [section for section in mine if section.heading in spellings]
        return exact[0] if exact else mine[0] if document.startswith("C") and len(mine) == 1 else None

    @property
    def sentences(self) -> dict[str, Sentence]:
        """Every sentence by its id."""
        return {sentence.id: sentence for section in self.sections for sentence in section.sentences}


def load() -> Specification:
    """The committed specification data."""
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return Specification([section_of(entry) for entry in data["section"]], data["synonyms"])


def section_of(entry: dict[str, object]) -> Section:
    """One section from its table."""
    key = str(entry["key"])
    kernel, missing, tests = (dict(entry.get(name, {})) for name in ("kernel", "missing", "tests"))  # type: ignore[call-overload]  # tables of the file
    numbers = sorted({*kernel, *missing}, key=int)
    sentences = [
        Sentence(f"{key}.{n}", kernel[n], "", tuple(tests.get(n, ())))
        if n in kernel
        else Sentence(f"{key}.{n}", missing[n][1], missing[n][0])
        for n in numbers
    ]
    return Section(str(entry["document"]), str(entry["heading"]), key, sentences)
