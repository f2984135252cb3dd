"""An isolated command line for every test; the tests of some modules are held against both ways to work, in the process and in a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment

BOTH_WAYS = {
    "test_run",
    "test_chat",
    "test_asking",
    "test_endings",
    "test_hangup",
    "test_talking",
    "test_stored_prompts",
}
"""Modules whose tests pass with a server as they do without; a test marked `one_way` says why it cannot."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of these modules twice."""
    module = metafunc.module.__name__.rpartition(".")[2]
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "desk" in metafunc.fixturenames and module in BOTH_WAYS and "one_way" not in marks:
        metafunc.parametrize("desk", ["process", "server"], indirect=True)


@pytest.fixture
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CliEnvironment]:
    """One user's machine; with a server in the background where the test is held against one."""
    desk = CliEnvironment(tmp_path)
    if getattr(request, "param", "process") == "process":
        yield desk
        return
    with desk.serving():
        yield desk
