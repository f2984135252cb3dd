"""What the tests' drivers of Firefox and WebKit have in common: waiting for what a page shows."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from typing import Any

WAIT_S = 90.0
TEXT = "document.body.innerText.slice(0, 2000)"


class Page(ABC):
    """A page of which expressions can be evaluated; what its console complains about is kept where the driver has it."""

    def __init__(self) -> None:
        self.complaints: list[str] = []

    @abstractmethod
    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; an element as its handle."""

    def wait(self, expression: str) -> Any:
        """The value of an expression as soon as it is true."""
        deadline = time.monotonic() + WAIT_S
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, (expression, self.complaints, self.evaluate(TEXT))
            time.sleep(0.05)
        return value

    def see(self, text: str, selector: str = "body") -> None:
        """Wait for a text."""
        shown = f"document.querySelector({json.dumps(selector)})?.innerText"
        self.wait(f"({shown} ?? '').includes({json.dumps(text)})")

    def find(self, selector: str) -> Any:
        """The handle of an element, once it is there and can be used."""
        found = f"document.querySelector({json.dumps(selector)})"
        return self.wait(f"{found} && !{found}.disabled ? {found} : null")
