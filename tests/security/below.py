"""A session that runs the commands of an attacker: a Makefile whose target is allowed, and what it does next."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.environment import CliEnvironment, call, say

HARM = "touch harm"
LOOSE = {"version": 1, "defaultPolicy": "allow", "whitelist": {"tools": ["run"], "patterns": ["*"], "arguments": {}}}  # fmt: skip
JAATO = f"{sys.executable} -m jaato"


def attacked(
    desk: CliEnvironment, attack: str, *flags: str, then: str = HARM
) -> subprocess.CompletedProcess[bytes]:
    """A finished session of its own process: it runs `make test`, which is allowed and does this without a sandbox, and
    then another command, which is not allowed."""
    (desk.work / "attack.sh").write_text(f"cd {desk.work}\n{attack}\n")
    (desk.work / "Makefile").write_text("test:\n\t@sh attack.sh > out 2>&1; echo $$? > code\n")
    script = desk.script(
        call("run", command="make test"), call("run", command=then), say("done"), name="attack.json"
    )
    process = desk.start("run", *script, "--allow", "run(make test)", "--sandbox", "full", *flags, "go")
    out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def code(desk: CliEnvironment) -> int:
    """How the attack's last command ended."""
    return int((desk.work / "code").read_text())


def output(desk: CliEnvironment) -> str:
    """What the attack printed."""
    return (desk.work / "out").read_text()


def harmed(desk: CliEnvironment) -> bool:
    """Whether the command ran that nothing allows."""
    return (desk.work / "harm").exists()


def written(path: Path, document: Any) -> str:
    """Shell that writes a JSON file."""
    return f"mkdir -p {path.parent}\ncat > {path} <<'END'\n{json.dumps(document)}\nEND"
