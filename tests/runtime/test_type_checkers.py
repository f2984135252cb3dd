"""What type checkers know of `Agent`: pyright's findings in a program; mypy checks this repository, tests included."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jaato

PROGRAM = """
from dataclasses import dataclass
from pathlib import Path
from jaato import Agent, Model, RunOptions

@dataclass
class City:
    name: str

agent = Agent(model="m")
options: RunOptions = {"model": Model("m", "openai"), "images": [Path("a.png")]}
reveal_type(agent.run_sync("x", output_type=City))
reveal_type(agent.run_sync("x", output_type=list[str], **options).data)
reveal_type(agent.run_sync("x", model="anthropic/m"))

async def main() -> None:
    reveal_type((await agent.run("x", output_type=City, dependencies=3)).data)
    reveal_type(await agent.run("x", history=[]))
    async for text in agent.stream_text("x", **options):
        reveal_type(text)

agent.run_sync("x", modle="m")
agent.run_sync("x", images=3)
agent.stream("x", dependency=3)
"""
REVEALED = ["Result[City]", "list[str]", "Result[None]", "City", "Result[None]", "str"]


def check(path: Path) -> list[dict[str, Any]]:
    """What pyright says of a file."""
    source = Path(jaato.__file__).parents[1]
    config = {"typeCheckingMode": "standard", "extraPaths": [str(source)], "reportUnusedCoroutine": False}
    (path.parent / "pyrightconfig.json").write_text(json.dumps(config))
    command = [
        str(Path(sys.executable).with_name("basedpyright")),
        "--outputjson",
        "--pythonpath",
        sys.executable,
    ]
    done = subprocess.run(
        [*command, str(path)], cwd=path.parent, capture_output=True, timeout=120, check=False
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return found


def test_pyright_knows_the_type_of_a_result(tmp_path: Path) -> None:
    """`run_sync(output_type=T)` is a `Result[T]`; an option that does not exist, or of another type, is an error."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    found = check(path)
    revealed = [one["message"] for one in found if one["severity"] == "information"]
    assert [text.split('"')[-2] for text in revealed] == REVEALED
    lines = PROGRAM.splitlines()
    errors = {lines[one["range"]["start"]["line"]] for one in found if one["severity"] == "error"}
    assert errors == set(lines[-3:])
