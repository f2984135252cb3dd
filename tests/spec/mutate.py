"""Break sentences of the specification in a copy of the code, one by one: each must turn its tests red."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.spec.collect import ROOT

FILE = Path(__file__).with_name("mutations.toml")
PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class Mutation:
    """One sentence broken: `old` becomes `new` in `file` (below src/jaato), and `tests` must fail."""

    requirement: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def source(self) -> Path:
        """The file as it is."""
        return ROOT / "src" / "jaato" / self.file

    def occurrences(self) -> int:
        """How often the text to be replaced is there; it must be once."""
        return self.source.read_text(encoding="utf-8").count(self.old)


def load() -> list[Mutation]:
    """The committed mutations."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["mutation"]
    return [
        Mutation(
            row["requirement"],
            row["file"],
            row["old"],
            row["new"],
            tuple(f"tests/{test}" for test in row["tests"]),
        )
        for row in rows
    ]


def run(mutation: Mutation, copy: Path) -> str:
    """What happens with the mutation in a copy of src: `red`, `GREEN`, or what went wrong."""
    target = copy / "jaato" / mutation.file
    text = target.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return f"{text.count(mutation.old)} occurrences"
    target.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    manifests = copy / "jaato" / "plugins" / "known.json"
    known = manifests.read_bytes()
    if mutation.file.startswith("plugins/"):
        manifests.write_text("{}")  # what is known of a plugin without its code says nothing of changed code
    environ = dict(os.environ)  # noqa: TID251 a child's
    environ |= {"PYTHONPATH": f"{copy}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", *mutation.tests],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "red"  # a test that no longer ends does not pass
    finally:
        target.write_text(text, encoding="utf-8")
        manifests.write_bytes(known)
    match done.returncode:
        case 0:
            return "GREEN"
        case 1:
            return "red"
    return f"pytest ended with {done.returncode}: {done.stdout[-300:]}"


def main(arguments: list[str]) -> int:
    """Run all mutations, or a sample of them; the exit code says whether each turned its tests red."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.mutate", description=__doc__)
    parser.add_argument("--sample", type=int, help="so many of them, picked at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="those of a requirement that begins like this")
    chosen = parser.parse_args(arguments)
    mutations = [m for m in load() if m.requirement.startswith(chosen.only or "")]
    if chosen.sample is not None:
        mutations = random.Random(chosen.seed).sample(mutations, min(chosen.sample, len(mutations)))
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for mutation in mutations:
            verdict = run(mutation, copy)
            wrong += verdict != "red"
            print(f"{verdict:<6} {mutation.requirement:<22} {mutation.file}", flush=True)
    print(f"{len(mutations) - wrong} of {len(mutations)} broken sentences turned a test red.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
