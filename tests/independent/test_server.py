"""The independent server itself leaves nothing behind."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.independent.aimock import Aimock

from jaato.settings import environment


def test_nothing_stays(tmp_path: Path) -> None:
    """A stopped server has no process and no port."""
    server = Aimock(tmp_path, environment()["PATH"])
    assert server.asked() == []
    port = urlsplit(server.url).port
    server.stop()
    with pytest.raises(ProcessLookupError):
        os.killpg(server.process.pid, 0)
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))
