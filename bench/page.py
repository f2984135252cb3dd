"""The page in Chromium: its weight, and what opening a session, typing and streaming cost the browser's main thread."""

from __future__ import annotations

import gzip
import math
import re
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.long import filled
from bench.row import Row
from tests.page.browser import CHROMIUM, Desk, Watched, desk, watched

from jaato.server.web.static_files import BUILT
from jaato.storage.sqlite import SqliteStore

SIZES = (100, 1_000, 10_000)
KEYS = 40
PIECES = 4_000
LINES = "".join(
    f"def double_{number}(value: int) -> int:\n    return value * {number}\n" for number in range(330)
)
FRAMES = """() => {
    window.frames_drawn = 0;
    const count = () => { frames_drawn += 1; requestAnimationFrame(count); };
    requestAnimationFrame(count);
}"""
ARRIVALS = """(() => {
    window.arrivals = [];
    const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
    Object.defineProperty(WebSocket.prototype, "onmessage", { set(take) {
        set.call(this, (message) => { if (message.data.includes('"agent.output"')) arrivals.push(performance.now()); take(message); });
    } });
})()"""
"""Notes when each piece of text arrives in the page."""
PACE = 500
STORY = " ".join(f"Sentence {number} of **a story**, with `code`." for number in range(400))


def spent_ms(session: Any) -> float:
    """CPU of the page's main thread so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1e3 * next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def heap_mb(session: Any) -> float:
    """What the page's objects occupy."""
    session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "JSHeapUsedSize") / 1e6


def metered(seen: Watched) -> Any:
    """The browser's own figures of a page; times are those of the main thread's CPU."""
    session = seen.page.context.new_cdp_session(seen.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def weight_rows() -> list[Row]:
    """Compressed sizes."""
    start = BUILT / "index.html"
    first = [
        start,
        *(BUILT / link[1:] for link in re.findall(r"(?:src|href)=\"([^\"]*)\"", start.read_text())),
    ]
    later = [path for path in (BUILT / "assets").iterdir() if path not in first]
    size = [sum(len(gzip.compress(path.read_bytes(), 9)) for path in paths) / 1e3 for paths in (first, later)]
    return [
        Row("page: first load, compressed", size[0], "kB", 120, "the bound of the first load"),
        Row("page: highlighter, loaded with the first code", size[1], "kB", None, ""),
    ]


def open_rows(server: Desk, ids: dict[int, str]) -> list[Row]:
    """Opening sessions of some sizes, and a key in each."""
    rows: list[Row] = []
    for size, session_id in ids.items():
        with watched(server) as seen:
            meter, begun = metered(seen), time.perf_counter()
            seen.open(server)
            ready, interactive = time.perf_counter() - begun, spent_ms(meter)
            before = interactive
            seen.page.goto(f"{server.origin}/#s={session_id}")
            seen.page.locator(".turn-end").last.wait_for()
            seen.page.wait_for_timeout(300)
            opened = spent_ms(meter) - before
            fetch_all(seen)
            seen.page.get_by_label("Message", exact=True).focus()
            before = spent_ms(meter)
            seen.page.keyboard.type("x" * KEYS, delay=20)
            key = (spent_ms(meter) - before) / KEYS
            if size == SIZES[0]:
                rows.append(
                    Row(
                        "page: link to interactive, main thread",
                        interactive,
                        "ms",
                        500,
                        f"{ready:.2g} s wall",
                    )
                )
            rows += [
                Row(f"page: open {size:,} events, main thread", opened, "ms", None, ""),
                Row(
                    f"page: a key at {size:,} events, main thread",
                    key,
                    "ms",
                    33,
                    "a frame; all are in the page",
                ),
                Row(f"page: heap at {size:,} events", heap_mb(meter), "MB", None, ""),
            ]
    return rows


def fetch_all(seen: Watched) -> None:
    """Show all earlier entries, and go back to the end."""
    page = seen.page
    while page.locator(".earlier").count():
        before = page.locator(".rows > *").count()
        page.locator(".earlier").click()
        page.wait_for_function(f"() => document.querySelectorAll('.rows > *').length > {before}")
    page.get_by_role("log").evaluate("(log) => { log.scrollTop = log.scrollHeight; }")
    page.wait_for_timeout(300)


def stream_rows(server: Desk) -> list[Row]:
    """A long answer in small pieces, as it arrives."""
    with watched(server) as seen:
        seen.open(server)
        seen.begin(server)
        meter = metered(seen)
        before, begun = spent_ms(meter), time.perf_counter()
        seen.send("Tell a story.")
        seen.page.locator(".turn-end").wait_for(timeout=120_000)
        wall = time.perf_counter() - begun
        share = (spent_ms(meter) - before) / wall / 10
        seen.offline_is_expected = True
        server.kill()
        seen.page.get_by_text("Offline. What you see").wait_for()
        server.start()
        begun, before = time.perf_counter(), spent_ms(meter)
        seen.page.get_by_text("connected", exact=True).wait_for()
        back, back_ms = time.perf_counter() - begun, spent_ms(meter) - before
    return [
        Row("page: main thread while 20 kB arrive at 50 pieces a second", share, "%", None, ""),
        Row("page: reconnect after the server is there again, wall", back, "s", 6, "the longest pause"),
        Row("page: reconnect after kill -9, main thread", back_ms, "ms", 200, ""),
    ]


class FastDesk(Desk):
    """A server that sends as fast as it can."""

    pause_s = 0.0


class PacedDesk(Desk):
    """A server that sends `PACE` pieces a second."""

    pause_s = 1 / PACE


def measure_stream(server: Desk) -> tuple[float, float, float]:
    """The pieces that arrive each second, and the main thread's CPU in ms: for each second, and for each frame."""
    with watched(server) as seen:
        seen.page.context.add_init_script(ARRIVALS)
        seen.open(server)
        seen.begin(server)
        meter = metered(seen)
        seen.page.evaluate(FRAMES)
        before = spent_ms(meter)
        seen.send("Write.")
        seen.page.locator(".turn-end").wait_for(timeout=120_000)
        used = spent_ms(meter) - before
        count, wall_ms = seen.page.evaluate("[arrivals.length, arrivals.at(-1) - arrivals[0]]")
        frames = int(seen.page.evaluate("frames_drawn"))
    return (count - 1) / wall_ms * 1e3, used / wall_ms * 1e3, used / frames


def fast_rows(root: Path) -> list[Row]:
    """A long block of code without a pause, and prose at a pace: what arrives is counted in the page."""
    measured: list[tuple[float, float, float]] = []
    for desk_class, text in ((FastDesk, f"```python\n{LINES}```"), (PacedDesk, STORY)):
        server = desk_class(root / desk_class.__name__, main=[{"text": text, "chunks": PIECES}])
        try:
            measured.append(measure_stream(server))
        finally:
            server.stop()
    (rate, _, frame), (arrived, used, _) = measured
    return [
        Row(
            "page: a frame while 20 kB of one code block arrive, main thread",
            frame,
            "ms",
            33,
            f"{rate:,.0f} pieces a second arrive, all that are sent",
        ),
        Row(
            f"page: main thread while prose arrives, sent as {PACE} pieces a second",
            used / 10,
            "%",
            None,
            f"{arrived:,.0f} pieces a second arrive",
        ),
    ]


def rows() -> list[Row]:
    """All figures; without Chromium and Playwright the sizes alone."""
    if not CHROMIUM or find_spec("playwright") is None:
        needs = "Chromium and Playwright: pip install --group browser"
        return [*weight_rows(), Row("page: in Chromium", math.nan, "skipped", None, f"this needs {needs}")]
    with (
        tempfile.TemporaryDirectory(prefix="jaato-") as root,
        desk(Path(root), main=[{"text": STORY, "chunks": 1_500}]) as server,
    ):
        server.stop()
        store = SqliteStore(server.home / "state/jaato.db")
        ids = {size: filled(store, size, server.work) for size in SIZES}
        store.close()
        server.start()
        return [
            *weight_rows(),
            *open_rows(server, ids),
            *stream_rows(server),
            *fast_rows(Path(root) / "fast"),
        ]
