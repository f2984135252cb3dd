"""Draw the pictures of the terminal client in `docs/pictures/`: real sessions with a scripted model, as SVG."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jaato.cli.arguments.parser import make_parser
from jaato.settings import environment
from jaato.tui.app import FullScreenClient
from jaato.tui.command import make_app
from jaato.tui.lines_view import LinesView

PICTURES = Path(__file__).parent / "pictures"
FONT_FACE = re.compile(r"@font-face \{.*?\}", re.DOTALL)
WAIT_S = 30
USAGE = {"input_tokens": 2100, "output_tokens": 180}
ANSWER = """The test fails because `total` adds **before** it rounds. I change that:

```python
def total(prices: list[float]) -> float:
    return sum(round(price, 2) for price in prices)
```

| case | before | after |
|---|---|---|
| `[0.125, 0.125]` | 0.25 | 0.24 |
| `[]` | 0 | 0 |
"""
BEFORE = '''"""Sums of prices."""


def total(prices: list[float]) -> float:
    """The sum of prices, each rounded to cents."""
    return round(sum(prices), 2)
'''
EDIT = {
    "path": "shop/sums.py",
    "old": "    return round(sum(prices), 2)\n",
    "new": "    return sum(round(price, 2) for price in prices)\n",
}
PLAN = ["read the failing test", "change the rounding", "run the tests"]


def step(text: str = "", *made: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A reply of the scripted model."""
    return {"text": text, "calls": [{"name": n, "arguments": a} for n, a in made], "usage": USAGE, **more}


STATUS = "setStepStatus"
STEPS = [
    step("", ("get_tool_schemas", {"names": ["updateFile", "createPlan", "startPlan", STATUS, "delegate"]})),
    step("", ("createPlan", {"title": "Mend the rounding", "steps": PLAN})),
    step(
        "I look at the module first.",
        (STATUS, {"step_id": "1", "status": "in_progress"}),
        ("readFile", {"path": "shop/sums.py"}),
        ("run", {"command": "python3 -c 'print(round(0.125 + 0.125, 2))'"}),
        thinking="The rounding comes after the sum, so halves are lost.",
    ),
    step("", ("delegate", {"task": "Which callers of total rely on its rounding?", "name": "callers"})),
    step("", ("readFile", {"path": "shop/sums.py"})),
    step("None: `total` is called by its test alone."),
    step(
        ANSWER,
        (STATUS, {"step_id": "1", "status": "completed"}),
        (STATUS, {"step_id": "2", "status": "in_progress"}),
        ("updateFile", EDIT),
    ),
    step(
        "",
        (STATUS, {"step_id": "2", "status": "completed"}),
        (STATUS, {"step_id": "3", "status": "in_progress"}),
        ("run", {"command": "python3 -m doctest shop/sums.py"}),
    ),
    step("Done: `total` rounds each price, and the test passes."),
]


MODEL = "claude-sonnet-4-5"
"""The name of the script's file, which the client shows as that of the model."""
SCRIPT = {"steps": STEPS, "context_limit": 32_000, "price_input": 3.0, "price_output": 15.0}


@asynccontextmanager
async def client(root: Path, size: tuple[int, int]) -> AsyncIterator[tuple[FullScreenClient, Any]]:
    """A client of a new session in a small workspace."""
    work = root / "shop-project"
    if not work.exists():
        (work / "shop").mkdir(parents=True)
        (work / "shop" / "sums.py").write_text(BEFORE)
        (root / MODEL).write_text(json.dumps(SCRIPT))
    words = ["tui", "--no-daemon", "--workspace", str(work), "--provider", "scripted"]
    words += ["--model", str(root / MODEL), "--name", "rounding"]
    app = make_app(make_parser("tui").parse_args(words))
    async with app.run_test(size=size) as pilot:
        await wait(lambda: app.link.is_open, pilot.pause)
        yield app, pilot
        app.leave()
        await asyncio.wait_for(app.left.wait(), WAIT_S)


async def wait(holds: Callable[[], object], pause: Callable[[float], Awaitable[None]]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError("The session did not get that far.")
        await pause(0.05)
    await pause(0.2)


def picture(app: FullScreenClient) -> str:
    """The screen as SVG, with the reader's own monospaced font: it loads nothing."""
    svg = FONT_FACE.sub("", app.export_screenshot(title="jaato"))
    return svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")


async def draw(root: Path) -> AsyncIterator[tuple[str, str]]:
    """The names and texts of all pictures."""
    async with client(root, (80, 24)) as (app, pilot):
        app.view.prompt.insert("the test of total fails, please mend it")
        await pilot.press("enter")
        await wait(lambda: app.view.questions.current, pilot.pause)
        yield "terminal-question", picture(app)
        await pilot.press("tab")
        await pilot.pause(0.6)
        yield "terminal-answer-keys", picture(app)
        await pilot.press("y")
        await wait(lambda: not (app.link.is_busy or app.view.questions.display), pilot.pause)
        yield "terminal-conversation", picture(app)
        app.theme = "textual-light"
        await pilot.pause(0.2)
        yield "terminal-light", picture(app)
        app.theme = "textual-dark"
        for name in ("sessions", "usage", "context"):
            app.action_open(name)
            await wait(
                lambda: [view for view in app.screen.query(LinesView) if view.id == "preview" and view.text],
                pilot.pause,
            )
            yield f"terminal-{name}", picture(app)
            await pilot.press("escape")
        await pilot.press("f2")
        await pilot.pause(0.6)
        yield "terminal-agents", picture(app)
    async with client(root / "wide", (130, 40)) as (app, pilot):
        app.view.prompt.insert("the test of total fails, please mend it")
        await pilot.press("enter")
        await wait(lambda: app.view.questions.current, pilot.pause)
        yield "terminal-wide", picture(app)


async def write_pictures(target: Path, root: Path) -> None:
    """Write the pictures."""
    async for name, svg in draw(root):
        (target / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(f"wrote {target / name}.svg", file=sys.stderr)


def main(target: Path) -> int:
    """Draw in a process whose home is empty; returns its exit code."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jaato-pictures-") as root:
        kept = {
            name: value for name, value in environment().items() if not name.startswith(("XDG_", "JAATO_"))
        }
        environ = {**kept, "HOME": root, "XDG_RUNTIME_DIR": root}
        command = [sys.executable, "-m", "docs.terminal_pictures", str(target.resolve()), root]
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(write_pictures(Path(sys.argv[1]), Path(sys.argv[2])))
    else:
        sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES))
