"""What leaves the page: the export, which is one file that loads nothing, and the print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import Watched, desk, need_chromium, watched
from tests.page.test_images import PASTE, PIXEL

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def export(seen: Watched, folder: Path) -> tuple[str, Path]:
    """The suggested name of the export, and the file."""
    with seen.page.expect_download() as download:
        seen.send("/export")
    file = folder / "kept.html"
    download.value.save_as(file)
    return download.value.suggested_filename, file


def test_the_export_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    """The whole conversation, with what a reader unfolds, without a script; opened from disk it asks for nothing."""
    steps = [
        {"text": f"Answer {number} with **weight** and <script>alert(1)</script>."} for number in range(3)
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server, name="To keep")
        page = seen.page
        for number in range(3):
            seen.send(f"Question {number}")
            seen.see(f"Answer {number}")
            page.locator(".turn-end").nth(number).wait_for()
        name, file = export(seen, tmp_path)
        assert name == "To-keep.html"
        text = file.read_text()
        assert "<script" not in text
        assert "default-src 'none'" in text
        context = page.context.browser.new_context()
        reader = context.new_page()
        asked: list[str] = []
        reader.on("request", lambda request: asked.append(request.url))
        reader.goto(file.as_uri())
        for number in range(3):
            reader.get_by_text(f"Answer {number}").wait_for()
        assert reader.locator("strong").count() == 3
        assert asked == [file.as_uri()]
        assert (
            reader.evaluate("getComputedStyle(document.querySelector('.message.user')).borderRadius") == "8px"
        )
        context.close()


def test_the_export_has_images_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    """An image is in the file; of a long text it says so; names keep their letters."""
    steps: list[dict[str, Any]] = [{"text": "many words " * 8_000, "chunks": 20}]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server, name=".. Größe שלום?")
        seen.page.evaluate(PASTE, PIXEL)
        seen.send("What is this?")
        seen.page.locator(".turn-end").wait_for()
        seen.page.get_by_role("log").evaluate("(log) => { log.scrollTop = 0; }")
        seen.page.locator("img.media").wait_for()
        name, file = export(seen, tmp_path)
        assert name == "Größe-שלום.html"
        text = file.read_text()
        assert 'src="data:image/png;base64,' in text
        assert " […] 68,000 more characters not in this file." in text
        assert "<button" not in text


def test_the_print_has_the_whole_conversation(tmp_path: Path) -> None:
    """Without the list, the panels and the controls; in light colours, and nothing cut off at the height of the window."""
    steps: list[dict[str, Any]] = [{"text": "A line.\n\n" * 150 + "The last line.", "chunks": 20}]
    with desk(tmp_path, main=steps) as server, watched(server, color_scheme="dark") as seen:
        seen.open(server)
        seen.begin(server, name="For paper")
        seen.send("Write.")
        page = seen.page
        page.locator(".turn-end").wait_for()
        page.get_by_role("button", name="Usage", exact=True).click()
        page.emulate_media(media="print")
        for hidden in (
            ".sessions",
            ".panel",
            ".panel-tabs",
            ".composer",
            ".status-line",
            ".turn-line button",
        ):
            assert not page.locator(hidden).is_visible(), hidden
        page.get_by_role("heading", name="For paper").wait_for()
        shown = "document.querySelector('.transcript').getBoundingClientRect().height"
        assert page.evaluate(f"document.documentElement.scrollHeight >= {shown} && {shown} > 4_000")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
