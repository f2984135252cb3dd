"""Play hostile work as this user, with each sandbox and without one; print as JSON what harm came of it in each round.

Arguments: a directory to work in, the back ends, of which `none` has no sandbox and allows everything.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.sandbox.attacking import Victim
from tests.sandbox.hostile import HOSTILE, Hostile


def played(place: Path, one: Hostile, backend: str) -> dict[str, list[str]]:
    """What harm one of them does to a victim of its own, and which of its calls were not even run."""
    with Victim(place, backend) as victim:
        calls = one.make(victim)
        if one.only_reads:
            victim.keep_all()
        results = victim.calls(*calls, **(one.without_sandbox if backend == "none" else one.options))
        ended = [str(result) for result in results if result.get("code") == "permission_denied"]
        return {"harm": victim.harm(), "denied": ended}


def main() -> None:
    """Play every round."""
    results: dict[str, dict[str, dict[str, list[str]]]] = {}
    for backend in sys.argv[2:]:
        place = Path(sys.argv[1]) / backend
        there = {name: one for name, one in HOSTILE.items() if shutil.which(one.needs)}
        results[backend] = {name: played(place / name, one, backend) for name, one in there.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
