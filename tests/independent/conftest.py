"""One model server for all tests of this folder, with nothing scripted when a test begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.independent.aimock import Aimock
from tests.independent.running import Desk

from jaato.settings import environment


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    """The server, until the last test has ended."""
    server = Aimock(tmp_path_factory.mktemp("aimock"), environment()["PATH"])
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(started: Aimock) -> Aimock:
    """The server as if new."""
    started.reset()
    return started


@pytest.fixture
def desk(tmp_path: Path, server: Aimock) -> Desk:
    """An empty home and workspace."""
    return Desk(tmp_path, server.url, environment()["PATH"])
