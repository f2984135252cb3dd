"""Remembers what was collected, for the test of the table."""

from __future__ import annotations

import pytest
from tests.spec.collect import COLLECTED, marks_of


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the marks of a whole collection; a part of it would make the table look poor."""
    whole = str(config.rootpath / "tests")
    asked = {str((config.invocation_params.dir / name).resolve()) for name in config.args}
    if asked == {whole} and not config.option.keyword and not config.option.markexpr:
        COLLECTED.extend(marks_of(items))
