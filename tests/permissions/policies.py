"""Permission files for tests: one that allows too much, writing one, loading it, asking what it allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.permissions.ground import FREE, NOOP, call, step

from jaato.tools.permissions.gate import Gate, Policy

LOOSE = {
    "version": 1,
    "defaultPolicy": "allow",
    "whitelist": {"tools": ["noop", "run"], "patterns": ["*"], "arguments": {"run": {"command": ["*"]}}},
    "channel": {"type": "queue", "timeout": 0.001},
}


def file_of(workspace: Path, document: Any) -> Path:
    """The workspace's permission file, holding this."""
    path = workspace / ".jaato" / "permissions.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return path


def load(tmp_path: Path) -> Policy:
    """The policy of the workspace, as every door loads it."""
    path = tmp_path / ".jaato" / "permissions.json"
    return Policy.load(path, workspace=tmp_path, state_dir=tmp_path / "state")


def allowed(policy: Policy, tmp_path: Path, command: str | None = None) -> bool:
    """Whether a call is allowed with nobody to ask."""
    gate = Gate(policy, workspace=tmp_path)
    if command is not None:
        return step(gate, call(FREE, tmp_path, command=command), FREE).allowed
    return step(gate, call(NOOP, tmp_path), NOOP).allowed
