"""An agent for tests: a workspace of its own and a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit import FAST

from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.embedding.agent import Agent


def agent(path: Path, script: list[Answer], **more: Any) -> Agent:
    """An agent in a workspace below `path` with a scripted model."""
    workspace = path / "work"
    workspace.mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "provider": ScriptedProvider(script, keep_requests=True),
        "workspace": workspace,
        "state_dir": path / "state",
        "environ": {"HOME": str(path), "PATH": "/usr/bin:/bin"},
        "retry": FAST,
    }
    return Agent(**(settings | more))
