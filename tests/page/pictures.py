"""The pictures of the guide, of a real session: `python -m tests.page.pictures` writes them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.page.browser import ROOT, Desk, Watched, desk, watched

PICTURES = ROOT / "docs/guides/pictures"
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 780},
    "device_scale_factor": 1,
    "has_touch": True,
    "is_mobile": True,
}
DESKTOP: dict[str, Any] = {"viewport": {"width": 1_280, "height": 800}}
SOURCE = '''"""Dates as people write them."""

from datetime import datetime


def parse(text: str) -> datetime:
    """The date in a text."""
    date = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")
    return date


def year(text: str) -> int:
    """The year of a date."""
    return parse(text).year
'''
ANSWER = """The time zone was dropped because `parse` cut the text after 19 characters.

| input | before | after |
|---|---|---|
| `2026-03-01T10:00:00Z` | 10:00, no zone | 10:00 UTC |
| `2026-03-01T10:00:00+02:00` | 10:00, no zone | 10:00 +02:00 |

```python
def parse(text: str) -> datetime:
    return datetime.fromisoformat(text)
```

1. `fromisoformat` reads every form that the callers use.
2. The two callers in `report.py` **compare dates with a zone now**; see the [documentation](https://docs.python.org/3/library/datetime.html).
"""


def called(*pairs: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A step with calls."""
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in pairs], **more}


SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "main": [
        called(
            (
                "createPlan",
                {
                    "title": "Keep the time zone",
                    "steps": [
                        "Find where it is lost",
                        "Find the callers",
                        "Mend the parser",
                        "Run the tests",
                    ],
                },
            ),
            ("get_tool_schemas", {"names": ["delegate", "updateFile", "create_waypoint"]}),
            text="I look at the parser first.",
            thinking="The zone is lost somewhere between the text and the datetime. I should plan, since callers may rely on it.",
        ),
        called(
            ("setStepStatus", {"step_id": "1", "status": "in_progress"}), ("readFile", {"path": "dates.py"})
        ),
        called(
            ("delegate", {"task": "Which functions call parse?", "name": "callers"}),
            ("delegate", {"task": "Which tests cover dates?", "name": "coverage", "background": True}),
        ),
        called(
            (
                "setStepStatus",
                {"step_id": "1", "status": "completed", "result": "strptime gets 19 characters"},
            ),
            ("setStepStatus", {"step_id": "2", "status": "completed"}),
            ("setStepStatus", {"step_id": "3", "status": "in_progress"}),
            ("create_waypoint", {"description": "before the parser is changed"}),
        ),
        called(
            (
                "updateFile",
                {
                    "path": "dates.py",
                    "old": '    date = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")\n    return date\n',
                    "new": "    return datetime.fromisoformat(text)\n",
                },
            ),
            text="`strptime` sees only the first 19 characters. `fromisoformat` keeps the zone.",
        ),
        called(
            (
                "run",
                {"command": "python3 -c \"import dates; print(dates.parse('2026-03-01T10:00:00+02:00'))\""},
            )
        ),
        called(
            ("setStepStatus", {"step_id": "3", "status": "completed"}),
            ("setStepStatus", {"step_id": "4", "status": "completed"}),
        ),
        {"text": ANSWER},
        called(("create_waypoint", {"description": "dates without a time are read"})),
        {"text": "Dates without a time are midnight now."},
        called(("create_waypoint", {"description": "dates without a time are refused"})),
        {"text": "They are refused now, with an error that names the text."},
        {"text": "`report.py` alone; nothing else imports `dates`."},
        {"text": "No: `fromisoformat` is in the standard library."},
    ],
    "callers": [
        called(("readFile", {"path": "report.py"}), ("get_tool_schemas", {"names": ["delegate"]})),
        called(("delegate", {"task": "Since when is the text cut?", "name": "history"})),
        {"text": "`report.py` calls `parse` twice and compares the results."},
    ],
    "coverage": [{"text": "There is one test, of the year."}],
    "history": [{"text": "Since the first version of the file."}],
}
MORE = (
    "Also read dates without a time.",
    "/waypoint restore w1",
    "Rather refuse them.",
    "Who else uses this module?",
    "Does it need a new dependency?",
)
"""What is sent after the answer: a branch of the waypoints, and more turns."""


def grow(script: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A script with the usage of a conversation that grows."""
    return [
        {
            "usage": {
                "input_tokens": 8_400 + 900 * number,
                "cached_input_tokens": 7_300 + 850 * number,
                "output_tokens": 140 + len(step.get("text", "")),
            },
            **step,
        }
        for number, step in enumerate(script)
    ]


def begin(seen: Watched, server: Desk) -> None:
    """The session up to its permission question."""
    (server.work / "dates.py").write_text(SOURCE)
    (server.work / "report.py").write_text("from dates import parse\n\nlate = parse(a) > parse(b)\n")
    seen.open(server)
    seen.begin(server, name="Keep the time zone")
    seen.send("The date parser drops the time zone. Please fix it.")
    seen.page.locator(".question .primary:enabled").wait_for()


def finish(seen: Watched) -> None:
    """The rest of it."""
    seen.page.locator(".question .primary:enabled").click()
    seen.see("fromisoformat reads every form")
    seen.page.locator(".turn-end").first.wait_for()


def go_on(seen: Watched) -> None:
    """Send more messages, each once the turn before has ended."""
    turns = 1
    for text in MORE:
        seen.send(text)
        if text.startswith("/"):
            seen.see("restored")
            continue
        turns += 1
        seen.page.locator(".turn-end").nth(turns - 1).wait_for(state="attached")


def open_panel(seen: Watched, name: str) -> None:
    """Open a panel by its tab."""
    seen.page.locator(".panel-tabs").get_by_role("button", name=name).click()
    seen.page.locator(".panel").wait_for()


def take(root: Path, save: Callable[[str, Watched], None]) -> None:
    """Play the session once for each look, and hand over every picture."""
    for look, options in {"desktop": DESKTOP, "phone": PHONE}.items():
        for scheme in ("light", "dark"):
            with (
                desk(
                    root / f"{look}-{scheme}", **{name: grow(script) for name, script in SCRIPTS.items()}
                ) as server,
                watched(server, color_scheme=scheme, reduced_motion="reduce", **options) as seen,
            ):
                begin(seen, server)
                save(f"question-{look}-{scheme}", seen)
                save_panels(seen, f"{look}-{scheme}", save, "Plan", "Agents")
                finish(seen)
                save(f"answer-{look}-{scheme}", seen)
                seen.page.locator(".timeline > summary").first.click()
                seen.page.locator(".timeline-scale").scroll_into_view_if_needed()
                save(f"timeline-{look}-{scheme}", seen)
                seen.page.locator(".timeline > summary").first.click()
                go_on(seen)
                save_panels(seen, f"{look}-{scheme}", save, "Waypoints", "Usage")


def save_panels(seen: Watched, look: str, save: Callable[[str, Watched], None], *panels: str) -> None:
    """Open some panels one after another."""
    for panel in panels:
        open_panel(seen, panel)
        save(f"{panel.lower()}-{look}", seen)
        seen.page.get_by_role("button", name=f"Close {panel}").click()


KEPT = (
    "question-desktop-light",
    "plan-desktop-dark",
    "agents-desktop-light",
    "timeline-desktop-dark",
    "waypoints-desktop-dark",
    "usage-desktop-light",
    "question-phone-light",
    "answer-phone-dark",
)
"""The pictures that the guide shows."""


def main() -> int:
    """Write the pictures of the guide; with an argument, all of them there."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    target.mkdir(parents=True, exist_ok=True)

    def save(name: str, seen: Watched) -> None:
        if target != PICTURES or name in KEPT:
            seen.page.wait_for_timeout(300)
            seen.page.screenshot(path=str(target / f"{name}.png"))

    with tempfile.TemporaryDirectory() as root:
        take(Path(root), save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
