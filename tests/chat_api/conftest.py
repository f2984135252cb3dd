"""What the tests of the chat API share."""

from __future__ import annotations

import pytest

from jaato.server.sessions import maintenance


@pytest.fixture(autouse=True)
def sweep_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unload sessions soon after they were left, not after seconds."""
    monkeypatch.setattr(maintenance, "SWEEP_S", 0.05)
