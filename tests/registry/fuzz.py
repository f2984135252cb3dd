"""`make fuzz`: many more cases of the OpenAPI document than a test has time for. `python -m tests.registry.fuzz [CASES [SEEDS]]`"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.contract import showing
from tests.contract.test_contract import registry
from tests.registry.test_schemathesis import found


def main(cases: int = 300, seeds: int = 3) -> int:
    """Ends with 1 where something is found."""
    wrong = 0
    for seed in range(1, seeds + 1):
        for kind in ("open", "with a token"):
            with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
                arguments = [
                    "--domains",
                    f"core,{showing.__file__}",
                    *(["--token"] if kind != "open" else []),
                ]
                with registry(Path(folder), *arguments) as said:
                    where, _, path = said.partition(" at ")[2].partition("; the token is in ")
                    header = f"Authorization: Bearer {Path(path).read_text().strip()}" if path else ""
                    token = ["-H", header] if path else []
                    report = found(Path(folder), where, cases, *token, seed=seed)
            print(f"{kind}, seed {seed}: {report or 'nothing found'}", flush=True)
            wrong += bool(report)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
