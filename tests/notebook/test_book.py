"""Notebook files: cells appended and run in place, through the file tools, and refused when they are no notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.plugin_workspace import Bench

from jaato.errors import ToolError
from jaato.plugins.notebook.plugin import NotebookPlugin


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(NotebookPlugin, tmp_path / "work")
    yield made
    made.close()


def cells(bench: Bench, path: str = "a.ipynb") -> list[dict[str, Any]]:
    document = json.loads((bench.workspace / path).read_text())
    assert document["nbformat"] == 4
    found: list[dict[str, Any]] = document["cells"]
    return found


def test_a_new_file_gets_every_cell_with_what_it_gave(bench: Bench) -> None:
    """Source, count, stream, value and error stand in the file as the format has them; undo takes the last one back."""
    made = bench.ask("notebook_create", name="a", path="sub/a.ipynb")
    assert made["cells"] == 0
    bench.ask("notebook_execute", code="print('é')\n1 + 1", notebook="a")
    bench.ask("notebook_execute", code="1 / 0", notebook="a")
    first, second = cells(bench, "sub/a.ipynb")
    assert first["source"] == ["print('é')\n", "1 + 1"]
    assert first["execution_count"] == 1
    assert first["outputs"][0] == {"output_type": "stream", "name": "stdout", "text": ["é\n"]}
    assert first["outputs"][1]["data"]["text/plain"] == ["2"]
    assert first["outputs"][1]["execution_count"] == 1
    assert second["outputs"][0]["ename"] == "ZeroDivisionError"
    assert first["id"] != second["id"]
    bench.ask("undoFileChange", path="sub/a.ipynb")
    assert len(cells(bench, "sub/a.ipynb")) == 1


def test_cells_of_a_file_run_by_number(bench: Bench) -> None:
    """The outputs of the cell are replaced in place, the rest of the file stays as it was."""
    document = {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": "# Title"},
            {
                "cell_type": "code",
                "metadata": {"k": 1},
                "source": "6 * 7",
                "outputs": [],
                "execution_count": None,
            },
        ],
        "metadata": {"mine": {"kept": True}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    (bench.workspace / "a.ipynb").write_text(json.dumps(document))
    made = bench.ask("notebook_create", name="a", path="a.ipynb")
    assert [row["type"] for row in made["first_cells"]] == ["markdown", "code"]
    assert bench.ask("notebook_execute", cell=2, notebook="a").text == "42"
    assert cells(bench)[1]["metadata"] == {"k": 1}
    assert cells(bench)[1]["outputs"][0]["data"]["text/plain"] == ["42"]
    assert json.loads((bench.workspace / "a.ipynb").read_text())["metadata"] == {"mine": {"kept": True}}
    with pytest.raises(ToolError, match="markdown, not code"):
        bench.ask("notebook_execute", cell=1, notebook="a")
    with pytest.raises(ToolError, match="There is no cell 3"):
        bench.ask("notebook_execute", cell=3, notebook="a")
    with pytest.raises(ToolError, match="has no file"):
        bench.ask("notebook_execute", cell=1)
    with pytest.raises(ToolError, match="not both"):
        bench.ask("notebook_execute", code="1", cell=1)


NO_NOTEBOOKS = [
    *("", "[]", "{}", "nonsense", "[" * 100_000),
    *('{"cells": 3, "nbformat": 4}', '{"cells": [3], "nbformat": 4}', '{"cells": [], "nbformat": 3}'),
    '{"cells": [{"cell_type": "code", "source": 5}], "nbformat": 4}',
]


@pytest.mark.parametrize("text", NO_NOTEBOOKS)
def test_what_is_no_notebook_is_refused(bench: Bench, text: str) -> None:
    """Nothing is started for it, and the file stays as it is."""
    (bench.workspace / "a.ipynb").write_text(text)
    with pytest.raises(ToolError, match="no notebook of format 4"):
        bench.ask("notebook_create", name="a", path="a.ipynb")
    assert (bench.workspace / "a.ipynb").read_text() == text
    assert bench.ask("notebook_list")["notebooks"] == []


@pytest.mark.parametrize("path", ["../out.ipynb", "/etc/out.ipynb", "a.txt", ""])
def test_a_file_elsewhere_or_of_another_kind_is_refused(bench: Bench, path: str) -> None:
    """A notebook file lies beneath the roots and is called so."""
    with pytest.raises(ToolError):
        bench.ask("notebook_create", name="a", path=path)
    assert not (bench.workspace.parent / "out.ipynb").exists()
