"""Break sentences of the specification and of docs in a copy of the checkout, one by one: each must turn its tests red.

The copy is whole and has an environment of its own, so that the processes a test starts run it, too. Before anything is
broken the tests must be green there; a test is red only by a failed expectation of its own, since one that fails because
nothing can be imported or started proves nothing.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.spec.collect import ROOT
from tests.spec.failures import REPORT, read_failures

FILE = Path(__file__).with_name("mutations.toml")
TIMEOUT_S = 60
"""For each run of tests, and thirty more for each of them."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One sentence broken, of the specification or of a page in docs: `old` becomes `new` in `file` (below src/jaato), and
    `tests` must fail.

    They fail by an assertion, or by the exception that `raises` names; `hangs` is that of a test that no longer ends.
    """

    requirement: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    raises: str = ""

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
    return [Mutation(**row | {"tests": tuple(f"tests/{test}" for test in row["tests"])}) for row in rows]


class Copy:
    """A checkout of its own, in which one mutation is tried at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        for name in filter(None, os.fsdecode(listed).split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        self._make_environment(root / ".venv")

    def _make_environment(self, place: Path) -> None:
        """An interpreter that finds the copy, and beside it what is installed for the checkout."""
        venv.create(place, symlinks=True)
        self._python = place / "bin" / "python"
        site = place / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        paths = [self.root / "src", self.root / "compat" / "src", sysconfig.get_path("purelib")]
        (site / "checkout.pth").write_text("".join(f"{path}\n" for path in paths))
        for program in Path(sysconfig.get_path("scripts")).iterdir():
            if not (place / "bin" / program.name).exists():
                (place / "bin" / program.name).symlink_to(program)
        command = place / "bin" / "jaato"
        command.unlink()
        command.write_text(f"#!{self._python}\nimport sys\nfrom jaato.cli import main\nsys.exit(main())\n")
        command.chmod(0o755)

    def run_tests(self, tests: Sequence[str], *options: str) -> tuple[int, str]:
        """The exit code of pytest and what it printed; -1 when it did not end."""
        environ = dict(os.environ)  # noqa: TID251 a child's
        environ.pop("PYTHONPATH", None)
        environ |= {REPORT: str(self.root / REPORT), "VIRTUAL_ENV": str(self._python.parents[1])}
        (self.root / REPORT).unlink(missing_ok=True)
        command = [str(self._python), "-m", "pytest", "-p", "tests.spec.failures", *options, *tests]
        with subprocess.Popen(
            command, cwd=self.root, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                printed, _ = process.communicate(timeout=TIMEOUT_S + 30 * len(tests))
            except subprocess.TimeoutExpired:
                process.terminate()
                try:
                    process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                return -1, ""
        return process.returncode, printed

    def check_green(self, mutations: Sequence[Mutation]) -> str:
        """Run the tests of these mutations on the code as it is: nothing, or what was printed of those that failed."""
        for in_plugins in (False, True):
            chosen = [m for m in mutations if m.file.startswith("plugins/") == in_plugins]
            tests = sorted({test for mutation in chosen for test in mutation.tests})
            if in_plugins:
                self._forget_plugins()
            code, printed = self.run_tests(tests) if tests else (0, "")
            self._restore("plugins/known.json")
            if code:
                return printed or "They do not end."
        return ""

    def try_mutation(self, mutation: Mutation) -> str:
        """What happens with the mutation: `red`, `GREEN`, or what went wrong."""
        target = self.root / "src" / "jaato" / mutation.file
        text = target.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            return f"{text.count(mutation.old)} occurrences"
        target.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        if mutation.file.startswith("plugins/"):
            self._forget_plugins()
        try:
            code, printed = self.run_tests(mutation.tests, "-x", "--tb=short")
        finally:
            self._restore(mutation.file)
            self._restore("plugins/known.json")
        if code == 0:
            return "GREEN"
        kinds = ["hangs"] if code == -1 else read_failures(self.root / REPORT)
        if (mutation.raises or "AssertionError") in kinds:
            return "red"
        return f"failed with {kinds or code}, which proves nothing: {printed[-600:]}"

    def _forget_plugins(self) -> None:
        """What is known of a plugin without its code says nothing of changed code."""
        (self.root / "src" / "jaato" / "plugins" / "known.json").write_text("{}")

    def _restore(self, file: str) -> None:
        shutil.copy2(ROOT / "src" / "jaato" / file, self.root / "src" / "jaato" / file)


def main(arguments: list[str]) -> int:
    """Run all mutations, or a sample of them; the exit code says whether each turned its tests red."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.mutate", description=__doc__)
    parser.add_argument("--sample", type=int, help="so many of them, picked at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="those of a requirement that begins like this")
    parser.add_argument("--at-once", type=int, default=1, help="in so many copies at the same time")
    chosen = parser.parse_args(arguments)
    mutations = [m for m in load() if m.requirement.startswith(chosen.only or "")]
    if chosen.sample is not None:
        mutations = random.Random(chosen.seed).sample(mutations, min(chosen.sample, len(mutations)))
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(chosen.at_once) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        first = Copy(Path(directory) / "0")
        failed = first.check_green(mutations)
        if failed:
            print(f"Tests fail before anything is broken:\n{failed}")
            return 1
        copies.put(first)
        for number in range(1, chosen.at_once):
            copies.put(Copy(Path(directory) / str(number)))

        def run(mutation: Mutation) -> str:
            copy = copies.get()
            try:
                verdict = copy.try_mutation(mutation)
            finally:
                copies.put(copy)
            print(
                f"{verdict:<6} {mutation.requirement:<22} {mutation.file}: {mutation.new[:40]!r}", flush=True
            )
            return verdict

        wrong = sum(verdict != "red" for verdict in pool.map(run, mutations))
    print(f"{len(mutations) - wrong} of {len(mutations)} broken sentences turned a test red.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
