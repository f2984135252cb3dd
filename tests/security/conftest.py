"""One server for the tests of a file that do not end it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.auth_server import Keep
from tests.security.desk import Desk


@pytest.fixture(scope="module")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keep]:
    """A server on the network; in the end it stops well, and nothing anybody has sent has made it complain."""
    served = Keep(
        tmp_path_factory.mktemp("keep"), "--web-socket", ":0", "--allow-origin", "https://editor.example"
    )
    yield served
    code, said = served.stop()
    assert code == 0
    assert [line for line in said.splitlines() if "' skipped: model '" not in line] == []


@pytest.fixture
def home(tmp_path: Path) -> Desk:
    """A machine nothing runs on."""
    return Desk(tmp_path)
