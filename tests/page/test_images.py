"""Images in the page: pasted or dropped, sent, and shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.page.browser import desk, need_chromium, watched

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PASTE = """(data) => {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    const given = new DataTransfer();
    given.items.add(new File([bytes], "dot.png", {type: "image/png"}));
    given.items.add(new File(["<svg/>"], "no.svg", {type: "image/svg+xml"}));
    const area = document.querySelector(".composer textarea");
    area.dispatchEvent(new ClipboardEvent("paste", {clipboardData: given, bubbles: true, cancelable: true}));
}"""


def test_an_image_is_pasted_sent_and_shown(tmp_path: Path) -> None:
    """Its bytes reach the session's store and come back over the connection; other files are refused with a reason."""
    with desk(tmp_path, main=[{"text": "A dot."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        page = seen.page
        page.evaluate(PASTE, PIXEL)
        page.get_by_text("no.svg is no PNG").wait_for()
        page.locator(".attachments").get_by_text("dot.png").wait_for()
        seen.send("What is this?")
        seen.see("A dot.")
        page.locator("img.media").wait_for()
        assert (
            page.locator("img.media").evaluate("(image) => image.decode().then(() => image.naturalWidth)")
            == 1
        )
        assert page.locator("img.media").get_attribute("src").startswith("blob:")


DROP = """([pixel, kind]) => {
    const given = new DataTransfer();
    if (kind) given.items.add(new File([Uint8Array.from(atob(pixel), (char) => char.charCodeAt(0))], "dot.png", { type: kind }));
    else given.setData("text/plain", "words");
    const drag = (type) => document.querySelector(".transcript").dispatchEvent(
        new DragEvent(type, { dataTransfer: given, bubbles: true, cancelable: true }));
    const over = drag("dragover");
    return [over, drag("drop")];
}"""


def test_an_image_is_dropped_anywhere(tmp_path: Path) -> None:
    """The browser does not leave the page for it; words are left to the browser; who only watches attaches nothing."""
    with desk(tmp_path, main=[{"text": "A dot."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        page = seen.page
        assert page.evaluate(DROP, [PIXEL, "image/png"]) == [False, False]  # nothing is left to the browser
        page.locator(".attachments").get_by_text("dot.png").wait_for()
        assert page.evaluate(DROP, [PIXEL, ""]) == [True, True]
        assert page.locator(".attachments li").count() == 1
        page.get_by_role("button", name="Remove dot.png").click()
        assert page.locator(".attachments").count() == 0
        context = page.context.browser.new_context()
        viewer = context.new_page()
        viewer.goto(server.link("viewer"))
        viewer.get_by_role("navigation", name="Sessions").wait_for()
        viewer.goto(page.url)
        viewer.get_by_text("You watch this session.").wait_for()
        assert viewer.evaluate(DROP, [PIXEL, "image/png"]) == [False, False]
        assert viewer.locator(".attachments").count() == 0
        context.close()
