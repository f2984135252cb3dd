"""Kernels: how they end, how many there are, what they start from."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.notebook.waiting import begun, endless
from tests.plugin_workspace import Bench

from jaato.errors import ToolError
from jaato.plugins.notebook.plugin import MAX_NOTEBOOKS, NotebookPlugin
from jaato.tools.call import Call, Output


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One plugin for the tests that do with whatever kernel they find, or with none."""
    made = Bench(NotebookPlugin, tmp_path_factory.mktemp("kernels"))
    yield made
    made.close()


def run(bench: Bench, code: str, **options: Any) -> Output:
    result = bench.ask("notebook_execute", code=code, **options)
    assert isinstance(result, Output)
    return result


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_a_kernel_that_dies_is_said_and_replaced(bench: Bench, code: str, said: str) -> None:
    """The cell that killed it says how, the next one says that all is new."""
    run(bench, "z = 1")
    result = run(bench, code)
    assert result.structured["status"] == "kernel_died"
    assert said in result.text
    fresh = run(bench, "'z' in globals()")
    assert fresh.structured["fresh_kernel"] is True
    assert fresh.text.endswith("False")
    assert "fresh_kernel" not in run(bench, "2").structured


@pytest.mark.slow
def test_a_cell_that_heeds_no_interrupt_ends_with_its_kernel(bench: Bench) -> None:
    """Interrupted twice without effect, the kernel is ended and the loss is said."""
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(1000)"
    result = run(bench, code, timeout_s=0.5)
    assert result.structured["status"] == "kernel_died"
    assert "did not heed" in result.text


def test_notebooks_are_apart_and_bounded(tmp_path: Path) -> None:
    """Each has its own variables, a session sees its own alone, and there are so many and no more."""
    bench = Bench(NotebookPlugin, tmp_path)
    try:
        bench.ask("notebook_create", name="one")
        run(bench, "a = 1", notebook="one")
        assert "NameError" in run(bench, "a").text
        assert [row["name"] for row in bench.ask("notebook_list")["notebooks"]] == ["one", "main"]
        assert bench.ask("notebook_list", session="other")["notebooks"] == []
        with pytest.raises(ToolError, match="There is no notebook two"):
            run(bench, "a", notebook="two")
        with pytest.raises(ToolError, match="already"):
            bench.ask("notebook_create", name="one")
        for number in range(2, MAX_NOTEBOOKS):
            bench.plugin._find(f"n{number}", call_of(bench), make=True)
        with pytest.raises(ToolError, match="the most"):
            bench.ask("notebook_create", name="more")
    finally:
        bench.close()


def call_of(bench: Bench) -> Any:
    return Call("c1", "notebook_create", {}, workspace=bench.workspace)


def test_reset_ends_a_busy_kernel(bench: Bench) -> None:
    """The cell that runs fails, the variables are gone, the next cell starts fresh."""

    async def main() -> None:
        await bench.go("notebook_execute", code="a = 1")
        async with anyio.create_task_group() as group:

            async def busy() -> None:
                with pytest.raises(ToolError, match="ended"):
                    await bench.go("notebook_execute", code=endless(bench))

            group.start_soon(busy)
            await begun(bench)
            with pytest.raises(ToolError, match="A cell runs"):
                await bench.go("notebook_variables")
            await bench.go("notebook_reset")
        assert "NameError" in (await bench.go("notebook_execute", code="a")).text

    anyio.run(main)


def test_without_the_packages_the_tool_says_what_to_install(tmp_path: Path) -> None:
    """A Python without Jupyter's packages is named, with the extra that brings them."""
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    bench = Bench(NotebookPlugin, tmp_path / "work", {"python": str(bare)})
    try:
        with pytest.raises(ToolError, match=r"jaato\[notebook\]"):
            run(bench, "1")
    finally:
        bench.close()


def test_a_python_that_is_not_there_is_said(tmp_path: Path) -> None:
    """The reason is the system's own."""
    bench = Bench(NotebookPlugin, tmp_path, {"python": "/no/such/python"})
    try:
        with pytest.raises(ToolError, match="No such file"):
            run(bench, "1")
    finally:
        bench.close()


def test_nothing_of_the_workspace_runs_when_a_kernel_starts(tmp_path: Path) -> None:
    """Modules planted under the names the kernel imports are not imported by its start, but by a cell that says so."""
    for name in (
        "ipykernel",
        "IPython",
        "zmq",
        "tornado",
        "jupyter_client",
        "comm",
        "json",
        "sitecustomize",
    ):
        (tmp_path / f"{name}.py").write_text(f"open('TRAPPED-{name}', 'w')\n")
    (tmp_path / "mine.py").write_text("value = 5\n")
    bench = Bench(NotebookPlugin, tmp_path)
    try:
        bench.ask("notebook_create", name="main")
        assert not list(tmp_path.glob("TRAPPED*"))
        assert run(bench, "import mine; mine.value").text == "5"
    finally:
        bench.close()


def test_shut_down_it_takes_nothing_more(tmp_path: Path) -> None:
    """A call in flight and one afterwards end with an error that says so, in moments."""
    bench = Bench(NotebookPlugin, tmp_path)

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def busy() -> None:
                with pytest.raises(ToolError, match="shut down"):
                    await bench.go("notebook_execute", code=endless(bench))

            group.start_soon(busy)
            await begun(bench)
            told = time.monotonic()
            await anyio.to_thread.run_sync(bench.close)
            assert time.monotonic() - told < 15
        with pytest.raises(ToolError, match="shut down"):
            await bench.go("notebook_execute", code="1")

    anyio.run(main)
