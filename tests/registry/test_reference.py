"""Our registry answers requests as the reference package has answered them, but for differences that have a reason."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from tests.registry.opened import Opened, during
from tests.registry.reference import FILE, Recorded, send
from tests.registry.reference_requests import DIFFERENCES, REQUESTS

PAGE = Path(__file__).parents[2] / "docs" / "design" / "registry.md"
ROW = re.compile(r"^\| ([^|]+?) \|", re.MULTILINE)


@pytest.mark.spec("C9", "9. ARP Tool Registry (S2)")
def test_the_reference_package_answers_the_same(tmp_path: Path) -> None:
    """Status, code, media type, request id and body are those of the reference package, except for requests with a
    difference, which are answered otherwise and with the status and code that is named."""
    recorded = msgspec.json.decode(FILE.read_bytes(), type=Recorded).answers
    wrong: list[str] = []

    def body(one: Opened) -> None:
        port = int(one.at.url.rpartition(":")[2])
        for request, (name, expected) in zip(REQUESTS, recorded, strict=True):
            assert request.name == name
            answer = send(port, request)
            allowed = DIFFERENCES.get(request.difference, {expected.outcome})
            if (answer == expected) is bool(request.difference) or answer.outcome not in allowed:
                shown = f"{request.name[:200]} ({request.difference or 'no difference'})"
                wrong.append(f"{shown}\n  reference {expected}\n  ours {answer}")

    during(tmp_path, body)
    assert not wrong, "\n".join(wrong)


def test_each_difference_has_its_reason() -> None:
    """The design page has a row for each difference, and no other; each occurs."""
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## Differences from the reference package\n")[2].partition("\n## ")[0]
    assert ROW.findall(section)[1:] == list(DIFFERENCES)
    assert {request.difference for request in REQUESTS} - {""} == set(DIFFERENCES)
    assert len(REQUESTS) >= 300
