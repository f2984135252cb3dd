"""A pytest plugin that writes by which exceptions the bodies of tests have failed: `-p tests.spec.failures`."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPORT = "JAATO_TEST_FAILURES"
"""The variable that names the file."""
TESTS = Path(__file__).parents[1]


def pytest_exception_interact(call: pytest.CallInfo[Any], report: object) -> None:
    """Note the exceptions of a test that failed in its body, not in what prepares it."""
    if isinstance(report, pytest.TestReport) and report.when == "call" and call.excinfo is not None:
        with open(os.environ[REPORT], "a", encoding="utf-8") as file:  # noqa: TID251 the runner's
            file.writelines(f"{kind}\n" for kind in find_kinds(call.excinfo.value))


def find_kinds(error: BaseException) -> Iterator[str]:
    """The names of the classes of an exception, or of those in a group. What a line of the tests raises itself, such as
    for a key that is not there, counts as an assertion, unless something cannot be imported."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from find_kinds(each)
    elif isinstance(error, AssertionError | pytest.fail.Exception) or is_raised_by_tests(error):
        yield "AssertionError"
    else:
        yield type(error).__name__


def is_raised_by_tests(error: BaseException) -> bool:
    """Whether the line that raised is one of the tests, and no import."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        bool(frames)
        and Path(frames[-1].filename).is_relative_to(TESTS)
        and not isinstance(error, ImportError | NameError)
    )


def read_failures(file: Path) -> list[str]:
    """What was noted, in its order."""
    return file.read_text(encoding="utf-8").split() if file.exists() else []
