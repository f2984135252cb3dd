"""Images in the page: pasted or dropped, sent, and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import desk, need_chromium, watched
from tests.page.slow_link import slow_link

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


PASTE_TEXT = """(words) => {
    const given = new DataTransfer();
    given.setData("text/plain", words);
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


DROP_NOISE = """(pixel) => {
    const bytes = crypto.getRandomValues(new Uint8Array(65_536));
    const given = new DataTransfer();
    const image = [Uint8Array.from(atob(pixel), (char) => char.charCodeAt(0)), ...Array(8).fill(bytes)];
    given.items.add(new File(image, "large.png", { type: "image/png" }));
    const drag = (type) => document.querySelector(".transcript").dispatchEvent(
        new DragEvent(type, { dataTransfer: given, bubbles: true, cancelable: true }));
    drag("dragover");
    drag("drop");
}"""


LEAVE = "!dispatchEvent(new Event('beforeunload', { cancelable: true }))"


def test_an_image_that_takes_long_to_send(tmp_path: Path) -> None:
    """On a slow link the connection is not taken for dead while an image is on its way; on a dead one it is given up."""
    steps: list[dict[str, Any]] = [{"text": "A dot."}, {"text": "Another."}]
    with (
        desk(tmp_path, main=steps) as server,
        slow_link(server) as link,
        watched(server, link.arguments) as seen,
    ):
        page = seen.page
        page.clock.install()
        seen.open(server)
        seen.begin(server)
        before = link.connections
        look = "document.dispatchEvent(new Event('visibilitychange'))"
        for text in ("What is this?", "And this?"):
            page.locator(".composer textarea:focus").wait_for()  # from then on, files may be dropped
            link.carries.clear()
            page.evaluate(DROP_NOISE, PIXEL)
            page.locator(".attachments").get_by_text("large.png").wait_for()
            seen.send(text)
            page.get_by_text(f"Sending: {text}").wait_for()
            assert page.evaluate(LEAVE), "the browser asks before the page is left"
            page.evaluate(look)
            page.clock.fast_forward(30_000)
            assert page.locator(".dot").inner_text() == "connected"
            if text == "What is this?":
                link.carries.set()
                seen.see("A dot.")
                assert link.connections == before
        seen.offline_is_expected = True
        while page.locator(".dot").inner_text() == "connected":
            page.clock.fast_forward(61_000)
        page.get_by_text("Offline. What you see").wait_for()
        link.carries.set()
        seen.see("Another.")
        page.get_by_text("Sending: And this?").wait_for(state="detached")
        assert not page.evaluate(LEAVE)
        assert page.locator(".message.user").count() == 2


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


ATTACH = """([name, kind, size]) => {
    const given = new DataTransfer();
    given.items.add(new File([new Uint8Array(size)], name, { type: kind }));
    given.items.add(new File(["words"], `${name}.txt`, { type: "text/plain" }));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
}"""


def test_every_file_that_cannot_be_sent_is_named(tmp_path: Path) -> None:
    """Too large, no image by its name, and no image by its bytes; the errors go when something else is done."""
    with desk(tmp_path, main=[{"text": "Received."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        page = seen.page
        page.evaluate(ATTACH, ["large.png", "image/png", 50 << 20])
        page.get_by_text("large.png is larger than 5 MB. Scale it down. large.png.txt is no PNG").wait_for()
        page.get_by_label("Message", exact=True).press("x")
        page.get_by_text("is larger than 5 MB").wait_for(state="detached")
        page.evaluate(ATTACH, ["fake.png", "image/png", 10])
        seen.send("Look.")
        page.get_by_role("alert").get_by_text("fake.png: This is no PNG").wait_for()
        assert page.get_by_label("Message", exact=True).input_value() == "Look."
        page.get_by_role("button", name="Remove fake.png").click()
        seen.send("Look.")
        seen.see("Received.")


def test_what_is_attached_stays_with_its_session(tmp_path: Path) -> None:
    """In another session and back, and after a command; a pasted text also over a reload, before which the page asks."""
    with desk(tmp_path, main=[{"text": "Received."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server, name="Other")
        seen.begin(server, name="With images")
        page = seen.page
        page.evaluate(PASTE, PIXEL)
        page.evaluate(PASTE_TEXT, "word " * 5_000)
        listed = page.locator(".attachments li")
        listed.nth(1).wait_for()
        page.go_back()
        page.get_by_role("heading", name="Other").wait_for()
        assert listed.count() == 0
        page.go_forward()
        page.get_by_role("heading", name="With images").wait_for()
        assert listed.count() == 2
        asked: list[str] = []
        page.on("dialog", lambda dialog: asked.append(dialog.type))
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_label("Message", exact=True).click()
        page.evaluate("location.hash = ''")
        page.get_by_text("No session is open.").wait_for()
        page.reload()
        page.go_back()
        listed.get_by_text("Pasted text, 25,000 characters").wait_for()
        assert asked == ["beforeunload"]
        page.get_by_role("button", name="Remove pasted text 1").click()
        page.evaluate(PASTE, PIXEL)
        listed.get_by_text("dot.png").wait_for()
        seen.send("/help")
        page.get_by_role("log").get_by_text("/help").first.wait_for()
        listed.get_by_text("dot.png").wait_for()
        seen.send("Look.")
        seen.see("Received.")
        assert listed.count() == 0
        page.reload()
        page.get_by_label("Message", exact=True).wait_for()
        assert listed.count() == 0
