"""How the page looks and reads: for a screen reader, on a phone, at 200 % zoom, in both colour schemes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import desk, need_chromium, watched
from tests.page.pictures import KEPT, PICTURES, SCRIPTS, begin, finish, open_panel

pytestmark = pytest.mark.system
UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true"
PANELS = (
    "Plan",
    "Agents",
    "Background",
    "Changes",
    "Waypoints",
    "Permissions",
    "Tools",
    "MCP",
    "Usage",
)
NARROW: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
ZOOMED: dict[str, Any] = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}
LANDSCAPE: dict[str, Any] = {"viewport": {"width": 740, "height": 360}, "has_touch": True, "is_mobile": True}
CHANGE_IN_VIEW = """() => {
    const {left, top, height} = document.querySelector(".question .diff .removed .text").getBoundingClientRect();
    return document.elementFromPoint(left + 20, top + Math.min(height, 18) - 2)?.closest(".removed") !== null;
}"""
"""Whether the first line that a call would change is seen without scrolling."""


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def serious(page: Any) -> list[str]:
    """What axe finds that keeps somebody from using the page."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe is not installed")
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {json.dumps([node['html'][:160] for node in one['nodes']][:4])}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(tmp_path: Path, scheme: str) -> None:
    """Before pairing, while a question waits, with everything unfolded, and in every panel."""
    with desk(tmp_path, **SCRIPTS) as server, watched(server, color_scheme=scheme) as seen:
        seen.page.goto(server.origin)
        seen.page.get_by_role("heading", name="Pair this browser").wait_for()
        assert serious(seen.page) == []
        begin(seen, server)
        assert serious(seen.page) == []
        finish(seen)
        for panel in PANELS:
            open_panel(seen, panel)
            assert serious(seen.page) == []
            seen.page.get_by_role("button", name=f"Close {panel}").click()
        seen.page.evaluate(UNFOLD)
        assert serious(seen.page) == []


@pytest.mark.parametrize(
    "options", [NARROW, ZOOMED, LANDSCAPE], ids=["phone", "200 %", "a phone held sideways"]
)
def test_nothing_is_wider_than_the_page(tmp_path: Path, options: dict[str, Any]) -> None:
    """No state of the page scrolls sideways, and every button of a question can be reached."""
    wide = "document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth"
    with desk(tmp_path, **SCRIPTS) as server, watched(server, **options) as seen:
        begin(seen, server)
        assert seen.page.evaluate(wide)
        for button in seen.page.locator(".question .button").all():
            box = button.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= options["viewport"]["width"]
            assert 0 <= box["y"] <= options["viewport"]["height"] - box["height"]
        assert options is LANDSCAPE or seen.page.evaluate(CHANGE_IN_VIEW)
        assert seen.page.get_by_role("button", name="Jump to the end").count() == 0
        finish(seen)
        for panel in PANELS:
            open_panel(seen, panel)
            assert seen.page.evaluate(wide)
            seen.page.get_by_role("button", name=f"Close {panel}").click()
        seen.page.evaluate(UNFOLD)
        assert seen.page.evaluate(wide)
        if options is not ZOOMED:
            seen.page.get_by_role("button", name="Back to the sessions").click()
        assert seen.page.evaluate(wide)


def test_usage_adds_up(tmp_path: Path) -> None:
    """The chart has what subagents have used in a turn, as the session's sum and the line of the turn have."""
    with desk(tmp_path, **SCRIPTS) as server, watched(server) as seen:
        begin(seen, server)
        finish(seen)
        open_panel(seen, "Usage")
        panel = seen.page.locator(".panel")
        money = panel.locator(".facts div", has_text="Price").locator("dd").inner_text()
        assert panel.get_by_text("price so far").inner_text() == f"price so far, {money}"


def test_what_fills_the_context_is_shown_after_a_reload(tmp_path: Path) -> None:
    """The parts come with events of the turn; a page that was opened later asks for them."""
    with desk(tmp_path, main=[{"text": "Hello."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Hi.")
        seen.see("Hello.")
        open_panel(seen, "Usage")
        parts = seen.page.get_by_label("Usage", exact=True).locator(".legend-list")
        parts.get_by_text("System prompt").wait_for()
        before = parts.inner_text()
        seen.page.reload()
        parts.get_by_text("System prompt").wait_for()
        assert parts.inner_text() == before


def test_reading_further_up_is_not_disturbed(tmp_path: Path) -> None:
    """What arrives does not move the text that is being read; a button leads back to the end."""
    long = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(80))
    with (
        desk(tmp_path, main=[{"text": long}, {"text": long + "\n\nThe last."}]) as server,
        watched(server) as seen,
    ):
        seen.open(server)
        seen.begin(server)
        seen.send("one")
        page = seen.page
        page.locator(".turn-end").first.wait_for()
        seen.send("two")
        page.locator(".streaming").wait_for()
        log = page.get_by_role("log")
        log.hover()
        page.mouse.wheel(0, -1_500)
        page.get_by_role("button", name="Jump to the end").wait_for()
        page.wait_for_timeout(200)
        before = log.evaluate("(log) => log.scrollTop")
        page.locator(".turn-end").nth(1).wait_for(state="attached")
        assert abs(log.evaluate("(log) => log.scrollTop") - before) < 2
        page.get_by_role("button", name="Jump to the end").click()
        page.wait_for_timeout(200)
        assert log.evaluate("(log) => log.scrollHeight - log.scrollTop - log.clientHeight") < 5


def test_the_guide_has_its_pictures() -> None:
    """Each picture is there, small, and of the size of a desktop or a phone."""
    guide = (PICTURES.parent / "browser.md").read_text()
    assert {path.stem for path in PICTURES.glob("*.png")} == set(KEPT)
    for name in KEPT:
        data = (PICTURES / f"{name}.png").read_bytes()
        assert struct.unpack(">II", data[16:24]) == ((390, 780) if "phone" in name else (1_280, 800))
        assert len(data) < 150_000
        assert f"pictures/{name}.png" in guide
