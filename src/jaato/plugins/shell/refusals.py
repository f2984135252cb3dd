"""What the sandbox refused a command, as far as its output shows it, and how the model asks for more."""

from __future__ import annotations

import re
from typing import Any

from jaato.tools.processes.sandbox.sandbox import Confinement

ASKING = "Call again with need ({needs}) and a reason."
MAX_SHOWN = 5
MAX_CHARS = 200
MOUNTED = re.compile(
    r"read-only file ?system|EROFS|unable to open database file|readonly database", re.IGNORECASE
)
FORBIDDEN = re.compile(r"permission denied|EACCES|operation not permitted|EPERM", re.IGNORECASE)
UNREACHED = re.compile(
    r"could(?:n't| not) resolve|temporary failure in name resolution|name or service not known|EAI_AGAIN|ENOTFOUND"
    r"|network is unreachable|ENETUNREACH|nodename nor servname|failed to resolve|failed to lookup address",
    re.IGNORECASE,
)
"""What a line of output looks like where something was refused; `FORBIDDEN` is looked for where the command failed."""


def with_refusals(value: dict[str, Any], confinement: Confinement, why: str = "") -> dict[str, Any]:
    """A command's result with its sandbox, where that only reads and `why`, and with what the sandbox seems to have refused."""
    access = confinement.access
    if access.profile == "full":
        return value
    reading = access.profile == "read-only"
    told: dict[str, Any] = {**value, "sandbox": "read-only"} if reading else dict(value)
    failed = value.get("exit_code") not in (0, None)
    if confinement.offline:
        told["offline"] = f"The hosts that were granted cannot be reached. {confinement.offline}."
    hosts = [f"net:{host}" for host in confinement.refused]
    if not (failed or reading or hosts):
        return told
    writing = ("write",) if reading else ("dir:/PATH", "control")
    lines, needs = refusals(str(value.get("output", "")), writing, failed=failed)
    lines, needs = [*lines, *confinement.refused], [*needs, *hosts]
    if lines:
        note = f"Why: {why}. " if reading and why else ""
        note += ASKING.format(needs=", ".join(needs))
        told["refused"] = [*value.get("refused", ()), *lines]
        told["note"] = f"{value['note']} {note}" if "note" in value else note
    return told


def refusals(output: str, writing: tuple[str, ...], *, failed: bool) -> tuple[list[str], list[str]]:
    """The lines of an output that show a refusal, each once, and what to ask for; `writing` is that of a file."""
    lines: dict[str, None] = {}
    needs: dict[str, None] = {}
    for line in output.splitlines():
        if MOUNTED.search(line) or (failed and FORBIDDEN.search(line)):
            needs |= dict.fromkeys(writing)
        elif UNREACHED.search(line):
            needs["net:HOST"] = None
        else:
            continue
        if len(lines) < MAX_SHOWN:
            lines[line.strip()[:MAX_CHARS]] = None
    return list(lines), list(needs)
