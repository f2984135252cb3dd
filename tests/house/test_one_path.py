"""The path from a command to a tool and back, as the design page lists it, is the one that is taken."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from jaato import settings

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"<!-- path -->\n\|.*\n\|.*\n((?:\|.*\n)+)")
PROGRAM = """
import sys, threading
called = []
def note(frame, event, _arg):
    if event == "call" and "/src/jaato/" in frame.f_code.co_filename:
        called.append(frame.f_code.co_filename.split("/src/jaato/")[1] + " " + frame.f_code.co_qualname)
from jaato.cli import main
threading.setprofile(note)
sys.setprofile(note)
try:
    main(sys.argv[1:])
finally:
    sys.setprofile(None)
    sys.stderr.write("\\nCALLED\\n" + "\\n".join(called))
"""


def listed() -> list[list[tuple[list[str], str]]]:
    """The two tables: each function with the modules of its row."""
    text = (ROOT / "docs/design/kernel.md").read_text()
    tables = [table.splitlines() for table in TABLE.findall(text)]
    cells = [
        [[re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:3]] for row in rows] for rows in tables
    ]
    return [[(modules, function) for modules, functions in rows for function in functions] for rows in cells]


def test_a_run_takes_the_listed_path(tmp_path: Path) -> None:
    """Each listed function is called, in this order, on the way to the tool and on the way back."""
    (tmp_path / "a.txt").write_text("text")
    replies = [{"calls": [{"name": "readFile", "arguments": {"path": "a.txt"}}]}, {"text": "done"}]
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    environ = {"HOME": str(tmp_path), "PATH": settings.environment()["PATH"], "PYTHONPATH": str(ROOT / "src")}
    words = ["run", "--no-daemon", "--provider", "scripted", "--model", "replies.json", "read it"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
    called = done.stderr.partition("\nCALLED\n")[2].splitlines()
    there, back = listed()
    assert len(there) > 15
    at = 0
    for modules, function in [*there, *back]:
        names = {f"{module} {function}" for module in modules}
        later = [index for index in range(at, len(called)) if called[index] in names]
        assert later, f"{names} is not called after {called[at]}"
        at = later[0]
