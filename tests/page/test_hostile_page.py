"""What models, tools and files wrote stays text: nothing of it runs, loads, reorders or imitates the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import desk, need_chromium, watched

pytestmark = pytest.mark.system
MARKS = """
<script>window.hacked = 1</script> <img src=x onerror="window.hacked=2"> <svg onload=window.hacked=3></svg>
<iframe srcdoc="<script>parent.hacked=4</script>"></iframe> <style>*{display:none}</style> <base href="//evil.example">
<form action="//evil.example"><input name=a></form> <a href="javascript:window.hacked=5">click</a>

[click here](javascript:window.hacked=6) [data](data:text/html,<script>window.hacked=7</script>)
[vb](vbscript:x) [file](file:///etc/passwd) [good](https://example.org/path?q=1)
[lying](https://bank.example@evil.example/) ![pixel](https://evil.example/pixel.png) <https://example.com/auto>

![ref][r] [ref2][r]

[r]: javascript:window.hacked=8

```html"><script>window.hacked=9</script>
<script>window.hacked=10</script>
```

| <img src=x onerror=window.hacked=11> | b |
|---|---|
| `<script>` | \u202eevil\u202c |

"""
IMITATION = (
    'ls\n\nMay readFile run?\nBecause it is safe.\n[Allow] [Deny]\n</pre></dd></dl><button class="button primary">Allow</button>'
    "\u202egpj.exe\u2066\u200b\x1b[2J\x1b]0;title\x07"
)
LYING = "✓ allowed \u202e readFile"


def test_a_hostile_transcript_is_inert(tmp_path: Path) -> None:
    """Markup, scripts, event handlers, links of every scheme, a name with a reversed order, a question that imitates ours."""
    steps: list[dict[str, Any]] = [
        {"text": MARKS, "thinking": MARKS},
        {"calls": [{"name": LYING, "arguments": {"<img src=x onerror=window.hacked=12>": MARKS}}]},
        {"calls": [{"name": "run", "arguments": {"command": IMITATION, "need": ["write"]}}]},
        {"text": "Nothing happened."},
    ]
    need_chromium()
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        (server.work / "x.html").write_text(MARKS)
        seen.open(server)
        seen.begin(server, name='<img src=x onerror="window.hacked=20"> name')
        page = seen.page
        seen.send("<script>window.hacked=30</script> **not bold**")
        seen.see("click here")
        page.get_by_text("tokens").first.wait_for()
        seen.send("Go on.")
        allow = page.locator(".question").get_by_role("button", name="Allow", exact=True)
        allow.wait_for()
        assert page.locator(".question .button.primary").count() == 1
        asked = page.locator(".question").inner_text()
        assert "<U+202E>gpj.exe<U+2066><U+200B><U+001B>[2J" in asked
        assert "</pre></dd></dl><button" in asked
        page.get_by_role("button", name="Deny", exact=True).click()
        seen.see("Nothing happened.")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        inside = page.locator(".transcript")
        for tag in (
            "script",
            "img",
            "iframe",
            "style",
            "base",
            "form",
            "svg:not(.chart)",
            "a[href]",
            "input",
            "[onerror]",
            "[style]:not(.timeline-bar)",
        ):
            assert inside.locator(tag).count() == 0, tag
        assert inside.get_by_text("**not bold**").count() == 1
        assert "<U+202E> readFile" in inside.inner_text()
        links = [link.inner_text() for link in inside.locator("button.link").all()]
        assert "good" in links
        assert not {"click here", "data", "vb", "file", "lying", "ref2"} & set(links)
        inside.get_by_role("button", name="good").first.click()
        page.get_by_role("heading", name="Open example.org?").wait_for()
        page.get_by_text("https://example.org/path?q=1", exact=True).wait_for()
        page.get_by_role("button", name="Cancel").click()
        assert page.evaluate("window.hacked") is None
        assert len(page.context.pages) == 1


def test_arguments_push_no_warning_out_of_view(tmp_path: Path) -> None:
    """However long the arguments are and wherever they are scrolled to, that there is no sandbox is in view."""
    command = "\n".join(f"echo {number}" for number in range(300))
    steps: list[dict[str, Any]] = [
        {"calls": [{"name": "run", "arguments": {"command": command, "need": ["write"]}}]}
    ]
    need_chromium()
    with (
        desk(tmp_path, main=steps) as server,
        watched(server, viewport={"width": 360, "height": 640}) as seen,
    ):
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        question = seen.page.locator(".question")
        warning = question.get_by_text("there is no sandbox")
        warning.wait_for()
        body = question.locator(".question-body")
        for place in (0, 1_000_000):
            body.evaluate("(body, place) => { body.scrollTop = place; }", place)
            outer, inner = question.bounding_box(), warning.bounding_box()
            assert outer
            assert inner
            assert outer["y"] < inner["y"]
            assert inner["y"] + inner["height"] < outer["y"] + outer["height"]


def test_very_long_text_does_not_stop_the_page(tmp_path: Path) -> None:
    """A line of a megabyte, and text of many deltas: shown in part, and the page still answers."""
    steps: list[dict[str, Any]] = [
        {"text": "x" * 1_000_000, "chunks": 20},
        {"text": "*[`" * 30_000, "chunks": 50},
        {"text": "Still here."},
    ]
    need_chromium()
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        for text in ("one", "two", "three"):
            seen.send(text)
            seen.page.get_by_role("button", name="Send").wait_for(timeout=60_000)
            seen.page.locator(".turn-end").nth(("one", "two", "three").index(text)).wait_for(timeout=60_000)
        seen.see("Still here.")
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        text = seen.page.locator(".transcript").inner_text()
        assert len(text) < 600_000
