"""Texts that are made to stop the page: its parsers get a bounded time, what they leave is shown plain, nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.page.browser import Desk, Watched, desk, need_chromium, watched
from tests.page.node import run_node
from tests.page.serve_page import HOLD

pytestmark = pytest.mark.system
CHARS = 30_000
MARKS = {
    "under": "=\n",
    "headings": "a\n-\n",
    "quotes": "> ",
    "nested": ">",
    "lists": "1. ",
    "both": "> - ",
    "emphasis": "*_~",
    "brackets": "*[`",
    "footnotes": "[^a]: ",
}
CODE = {"markdown": "[a](", "c": "a b c ", "bash": "${", "ini": "a"}


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip without Chromium."""
    need_chromium()


def answers(seen: Watched, count: int) -> None:
    """Have so many turns run; after each the page still takes what is typed."""
    field = seen.page.get_by_label("Message", exact=True)
    for number in range(count):
        seen.send(f"Turn {number}")
        seen.page.locator(".turn-end").nth(number).wait_for()
        field.fill("still here")
        assert field.input_value() == "still here"


def test_a_text_that_pauses_is_whole_on_a_slow_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came soon after a beginning that took long to draw is part of its paragraph, also when nothing follows."""
    monkeypatch.setattr(Desk, "pause_s", 0.3)
    text = f"The first half, {HOLD} and the second half."
    with desk(tmp_path, main=[{"text": text}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        session = seen.page.context.new_cdp_session(seen.page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": 20})
        seen.send("Go.")
        seen.page.locator(".streamed p", has_text=f"The first half, {HOLD}").wait_for()
        (server.work / "go").touch()
        seen.see("second half.")


def test_markup_that_takes_a_parser_minutes(tmp_path: Path) -> None:
    """Each of these took the parser seconds to minutes, or overflowed its stack; also when the session is opened again."""
    steps = [
        {"text": f"{name} begins\n\n" + unit * (CHARS // len(unit)) + f"\n\n{name} **ends**", "chunks": 30}
        for name, unit in MARKS.items()
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        answers(seen, len(steps))
        seen.page.reload()
        seen.page.locator(".turn-end").last.wait_for()
        for name in MARKS:
            ends = seen.page.get_by_role("log").get_by_text(f"{name} ends")
            assert ends.count() == 1
            assert ends.locator("strong").count() == 1, name


def test_code_that_takes_a_highlighter_minutes(tmp_path: Path) -> None:
    """Patterns of grammars that need the square of a text, or more: colours end, the text does not."""
    steps = [
        {"text": f"```{language}\n{unit * (CHARS // len(unit))}\n```\n\nThe end of {language}.", "chunks": 30}
        for language, unit in CODE.items()
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        answers(seen, len(steps))
        seen.page.reload()
        seen.page.locator(".turn-end").last.wait_for()
        for language in CODE:
            seen.see(f"The end of {language}.")


def test_a_long_answer_is_parsed_whole(tmp_path: Path) -> None:
    """Lists and tables of ordinary length, code in a list, and links defined at the end keep their form."""
    items = "\n".join(f"{number}. item **{number}** with `code` and [a link][r]" for number in range(1, 301))
    table = "\n".join(["| a | b |", "|---|---|", *(f"| {number} | *x* |" for number in range(100))])
    text = f"{items}\n\n{table}\n\n- before\n\n  ```python\n  x = 1\n\n  y = 2\n  ```\n\n  after\n\n[r]: https://example.org/"
    with desk(tmp_path, main=[{"text": text, "chunks": 40}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        answers(seen, 1)
        log = seen.page.get_by_role("log")
        assert log.locator("ol > li").count() == 300
        assert log.locator("ol").last.evaluate("(list) => list.start + list.children.length") == 301
        assert log.locator("button.link").count() == 300
        assert log.locator("tbody tr").count() == 100
        assert log.locator("ul > li > .code code").inner_text() == "x = 1\n\ny = 2"
        assert log.locator("ul > li > p").last.inner_text() == "after"


def test_what_a_question_leaves_out_it_counts_and_shows(tmp_path: Path) -> None:
    """No change hides behind the end of a diff that was cut, behind a long text, or among many arguments."""
    lines = "\n".join(f"line {number} of a text" for number in range(3_000))
    many = {f"name{number}": number for number in range(5_000)}
    steps: list[dict[str, Any]] = [
        {"calls": [{"name": "get_tool_schemas", "arguments": {"names": ["writeNewFile"]}}]},
        {"calls": [{"name": "writeNewFile", "arguments": {"path": "a.txt", "content": f"{lines}\nevil"}}]},
        {"calls": [{"name": "absent", "arguments": many}]},
        {"text": "Done."},
    ]
    with desk(tmp_path, main=steps) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        seen.send("Go.")
        page = seen.page
        body = page.locator(".question-body")
        body.get_by_text("the diff goes on").first.wait_for()
        body.get_by_role("button", name="Show all").click()
        assert "evil" in body.inner_text()
        page.get_by_role("button", name="Deny", exact=True).click()
        seen.see("Done.")
        call = page.locator(".call", has_text="absent")
        call.locator("summary").click()
        assert call.locator(".arguments > div").count() == 100
        call.get_by_role("button", name="4,900 more arguments not shown").click()
        assert call.locator(".arguments > div").count() == 5_000


PASTE = """(words) => {
    const given = new DataTransfer();
    given.setData("text/plain", words);
    const area = document.querySelector(".composer textarea");
    area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: given, bubbles: true, cancelable: true }));
}"""


def test_a_long_text_that_is_pasted(tmp_path: Path) -> None:
    """It is a line beside the field, which could not be typed in otherwise, and is sent after what is written there."""
    with desk(tmp_path, main=[{"text": "Read."}]) as server, watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        page = seen.page
        page.evaluate(PASTE, "first " * 200_000)
        page.evaluate(PASTE, "second " * 3_000 + "last")
        page.get_by_text("Pasted text, 1,200,000 characters").wait_for()
        page.get_by_text("Pasted text, 21,004 characters").wait_for()
        page.get_by_role("button", name="Remove pasted text 1").click()
        seen.send("Read this:")
        seen.see("Read.")
        assert page.locator(".attachments").count() == 0
        said = page.locator(".message.user .words").inner_text()
        assert said.startswith("Read this:\n\nsecond second")
        assert "first" not in said
        assert said.endswith("last")


def test_a_long_line_with_and_without_carriage_returns() -> None:
    """What programs print is cleaned in time that grows with its length alone."""
    script = """
        import { printed } from "./src/page/text.ts";
        const plain = "a".repeat(400_000);
        console.log(printed(plain).length, printed(`${plain}\\r${plain}b`).length);
        console.log(JSON.stringify(printed("10%\\r20%\\r\\nx\\ry\\r\\r\\nz")));
    """
    assert run_node("--input-type=module-typescript", "-e", script).splitlines() == [
        "400000 400001",
        '"20%\\ny\\nz"',
    ]
