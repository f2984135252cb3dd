"""Cells that do odd things: half characters, types with tricks, a kernel that ends between cells, a file that changes."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.plugin_workspace import Bench, gone

from jaato.errors import ToolError
from jaato.plugins.notebook.plugin import NotebookPlugin
from jaato.tools.call import Output

TRICKS = r"""
class Meta(type):
    def __getattribute__(cls, name): raise RuntimeError("no")
class A(metaclass=Meta): pass
class Text(str):
    def __str__(self): raise RuntimeError("no")
    def __len__(self): raise RuntimeError("no")
    def __getitem__(self, at): raise RuntimeError("no")
class B:
    def __repr__(self): return Text("tricky")
class Half:
    def __repr__(self): return "half \ud800"
a, b, half, plain = A(), B(), Half(), 42
globals()[Text("odd name")] = 1
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(NotebookPlugin, tmp_path / "work")
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One plugin for the tests that do with whatever variables and whatever kernel they find."""
    made = Bench(NotebookPlugin, tmp_path_factory.mktemp("cells"))
    yield made
    made.close()


def run(bench: Bench, code: str | None = None, **options: Any) -> Output:
    given = {"code": code} if code is not None else {}
    result = bench.ask("notebook_execute", **given, **options)
    assert isinstance(result, Output)
    return result


def test_half_a_character_is_a_question_mark(shared: Bench) -> None:
    """Printed, raised, shown or a value: the rest of the text is there, and the kernel goes on."""
    assert run(shared, r"x = 5; print('a\ud800b')").text == "a?b"
    assert run(shared, r"raise ValueError('a\ud800b')").structured["error"] == "ValueError: a?b"
    shown = run(shared, r"display({'text/plain': 'c\udc00d'}, raw=True)")
    assert shown.text == "c?d"
    assert run(shared, "x").text == "5"


def test_variables_with_tricks_are_listed(shared: Bench) -> None:
    """A type that tells nothing, a text that is none, half a character: the others are listed all the same."""
    run(shared, TRICKS)
    rows = {row["name"]: row for row in shared.ask("notebook_variables")["variables"]}
    assert rows["a"]["type"] == "[not shown: it raises RuntimeError]"
    assert rows["b"]["value"] == "tricky"
    assert rows["half"]["value"] == "half ?"
    assert rows["plain"]["value"] == "42"


def test_a_kernel_that_ends_between_cells_is_said_to_be_fresh(shared: Bench) -> None:
    """Whoever believes that the variables are there is told by the next cell."""
    pid = int(run(shared, "x = 1; import os; os.getpid()").text)
    os.kill(pid, signal.SIGKILL)
    alive = "no kernel"
    assert gone(lambda: shared.ask("notebook_list")["notebooks"][0]["state"] != alive)
    result = run(shared, "'x' in globals()")
    assert result.structured["fresh_kernel"] is True
    assert "SIGKILL" in result.text
    assert result.text.endswith("False")
    assert "fresh_kernel" not in run(shared, "1").structured


def test_what_others_write_into_the_file_meanwhile_stays(bench: Bench) -> None:
    """The cell is added to the file as it is at its end, not as it was at its beginning."""
    bench.ask("notebook_create", name="n", path="a.ipynb")
    more = {"cell_type": "markdown", "metadata": {}, "source": "from the user"}
    code = (
        f"import json; d = json.load(open('a.ipynb')); d['cells'].append({more!r}); "
        "json.dump(d, open('a.ipynb', 'w'))"
    )
    run(bench, code, notebook="n")
    cells = json.loads((bench.workspace / "a.ipynb").read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code"]
    swapped = "import json; d = json.load(open('a.ipynb')); d['cells'].reverse(); json.dump(d, open('a.ipynb', 'w'))"
    document = json.loads((bench.workspace / "a.ipynb").read_text())
    document["cells"][1]["source"] = swapped
    (bench.workspace / "a.ipynb").write_text(json.dumps(document))
    result = run(bench, notebook="n", cell=2)
    assert "Cell 2 of a.ipynb has changed meanwhile" in result.structured["file_note"]


def test_a_result_is_not_lost_for_its_file(bench: Bench) -> None:
    """A cell that has run has its result shown, with a note when the file could not be written."""
    bench.ask("notebook_create", name="n", path="a.ipynb")
    result = run(bench, "import os; os.remove('a.ipynb'); os.mkdir('a.ipynb'); print('dear')", notebook="n")
    assert result.text.startswith("dear\n[What the cell gave could not be written to a.ipynb")
    assert result.structured["status"] == "ok"


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"kernelspec": {"name": "ir", "language": "R"}}, "a notebook for 'R'"),
        ({"language_info": {"name": "julia"}}, "a notebook for 'julia'"),
    ],
)
def test_a_notebook_of_another_language_is_refused(bench: Bench, metadata: object, said: str) -> None:
    """Its cells are not run as if they were Python."""
    document = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (bench.workspace / "a.ipynb").write_text(json.dumps(document))
    with pytest.raises(ToolError, match=said):
        bench.ask("notebook_create", name="n", path="a.ipynb")


def test_a_notebook_with_an_odd_version_takes_cells(bench: Bench) -> None:
    """What is around the cells is nobody's business here."""
    document = {"cells": [], "metadata": [1], "nbformat": 4, "nbformat_minor": "x"}
    (bench.workspace / "a.ipynb").write_text(json.dumps(document))
    bench.ask("notebook_create", name="n", path="a.ipynb")
    assert "file_note" not in run(bench, "5", notebook="n").structured
    (bench.workspace / "b.ipynb").write_text(json.dumps({**document, "cells": {}}))
    with pytest.raises(ToolError, match="no notebook of format 4"):
        bench.ask("notebook_create", name="m", path="b.ipynb")


def test_two_notebooks_share_a_file(bench: Bench) -> None:
    """Cells of both that end at once are both in it."""
    for name in ("p", "q"):
        bench.ask("notebook_create", name=name, path="a.ipynb")

    async def both() -> None:
        async with anyio.create_task_group() as group:
            for name in ("p", "q"):
                code = "import time; time.sleep(1.5 - time.time() % 1)"
                work = functools.partial(bench.go, "notebook_execute", code=code, notebook=name)
                group.start_soon(work)

    for _ in range(2):
        anyio.run(both)
    cells = json.loads((bench.workspace / "a.ipynb").read_text())["cells"]
    assert len(cells) == 4
