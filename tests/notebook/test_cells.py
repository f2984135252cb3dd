"""Cells in a real kernel: what they give, what they may not do, and what is left when one goes wrong."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.notebook.waiting import begun, endless
from tests.plugin_workspace import Bench

from jaato.errors import CancelledException
from jaato.plugins.notebook.plugin import NotebookPlugin
from jaato.tools.call import Output
from jaato.tools.cancel import CancelToken

PNG_1X1 = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One plugin for the tests that leave its kernel as they found it."""
    made = Bench(NotebookPlugin, tmp_path_factory.mktemp("notebook"))
    yield made
    made.close()


def run(bench: Bench, code: str, **options: Any) -> Output:
    result = bench.ask("notebook_execute", code=code, **options)
    assert isinstance(result, Output)
    return result


@pytest.mark.spec("C1", "Tool names", "C1.names.8")
def test_variables_stay_and_the_last_value_is_shown(bench: Bench) -> None:
    """A cell sees what earlier ones made, across event loops; prints and its value are its text."""
    run(bench, "x = 41")
    result = run(bench, "print('hi'); x + 1")
    assert result.text == "hi\n42"
    assert result.structured["status"] == "ok"


def test_the_debugger_is_neither_loaded_nor_withheld(bench: Bench) -> None:
    """The kernel starts without it, and a cell may import it."""
    assert run(bench, "import sys; 'debugpy' in sys.modules").text == "False"
    assert run(bench, "import importlib.util as i; i.find_spec('debugpy') is not None").text == "True"


def test_an_error_is_a_short_traceback_without_colours(bench: Bench) -> None:
    """The error's line, where it was raised, no escape codes; the kernel goes on."""
    result = run(bench, "def f():\n    raise ValueError('no')\nf()")
    assert result.structured["error"] == "ValueError: no"
    assert "raise ValueError('no')" in result.text
    assert "\x1b" not in result.text


def test_input_is_an_error_that_says_what_to_do(bench: Bench) -> None:
    """A cell that asks for input is told at once that nobody answers."""
    result = run(bench, "input('name? ')")
    assert result.structured["status"] == "error"
    assert "put the value into the code" in result.text


def test_images_are_media(bench: Bench) -> None:
    """What a cell displays as PNG is kept as a blob and shown to the model."""
    data = base64.b64encode(PNG_1X1).decode()
    result = run(
        bench, f"from IPython.display import Image\nimport base64\nImage(base64.b64decode('{data}'))"
    )
    (image,) = result.media
    assert (image.mime_type, bench.blobs[-1]) == ("image/png", PNG_1X1)


def test_images_that_providers_refuse_are_not_shown(bench: Bench) -> None:
    """A damaged image would have the provider refuse every later request: the text has the reason instead."""
    data = base64.b64encode(PNG_1X1[:40]).decode()
    result = run(
        bench,
        f"from IPython.display import display\ndisplay({{'image/png': '{data}', 'text/plain': 'a plot'}}, raw=True)",
    )
    assert result.media == ()
    assert "a plot [image/png, 40 bytes, not shown: This is a damaged file" in result.text


def test_output_without_end_is_bounded_and_the_kernel_kept(bench: Bench) -> None:
    """An endless flood is interrupted at its time, its ends kept, the loop free meanwhile, the variables there."""
    shown: list[str] = []

    async def main() -> tuple[Output, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await anyio.sleep(0.01)
                ticks += 1

        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            code = "kept = 7\nn = 0\nwhile True:\n    n += 1\n    print(n, 'x' * 1000)"
            result = await bench.go("notebook_execute", code=code, timeout_s=1, output=shown.append)
            group.cancel_scope.cancel()
        return result, ticks

    result, ticks = anyio.run(main)
    assert result.structured["status"] == "timed_out"
    assert len(result.text) < 250_000
    assert "characters left out" in result.text
    assert result.text.startswith("1 xxx")
    assert sum(map(len, shown)) < 1_000_000
    assert ticks > 25
    assert run(bench, "kept").text == "7"


HUGE = ["'a' * 10**7", "raise ValueError('b' * 10**7)", "print('c' * 10**7)"]


@pytest.mark.parametrize("code", HUGE)
def test_a_single_huge_thing_is_cut(bench: Bench, code: str) -> None:
    """A value, an error and a line of 10 MB are cut, and the kernel lives."""
    result = run(bench, code)
    assert "characters left out" in result.text
    assert len(result.text) < 250_000
    assert run(bench, "1 + 1").text == "2"


def test_a_cancelled_cell_is_interrupted(bench: Bench) -> None:
    """The call ends, the cell too, and the kernel takes the next one with its variables."""

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(bench.go, "notebook_execute", code=f"y = 5\n{endless(bench)}"))
            await begun(bench)
            group.cancel_scope.cancel()
        assert (await bench.go("notebook_execute", code="y")).text == "5"
        token = CancelToken()
        async with anyio.create_task_group() as group:

            async def cancelled() -> None:
                with pytest.raises(CancelledException):
                    await bench.go("notebook_execute", code=endless(bench), token=token)

            group.start_soon(cancelled)
            await begun(bench)
            token.cancel()
        assert (await bench.go("notebook_execute", code="y + 1")).text == "6"

    anyio.run(main)


HOSTILE = """
class Raises:
    def __repr__(self): raise SystemExit
class Hangs:
    def __repr__(self):
        while True: pass
class Huge:
    def __repr__(self): return 'r' * 10**7
class Shape:
    @property
    def shape(self):
        while True: pass
raises, hangs, huge, shaped = Raises(), Hangs(), Huge(), Shape()
many = [0] * 10**6
text = 'é' * 10**6
"""


def test_variables_are_listed_whatever_their_reprs_do(bench: Bench) -> None:
    """A repr that raises, hangs or is huge is a short text; types and lengths are told; pages."""
    run(bench, HOSTILE)
    listed = bench.ask("notebook_variables", limit=500)
    rows = {row["name"]: row for row in listed["variables"]}
    assert "raises SystemExit" in rows["raises"]["value"]
    assert "more than 0.5 s" in rows["hangs"]["value"]
    assert len(rows["huge"]["value"]) <= 200
    assert (rows["many"]["type"], rows["many"]["shape"]) == ("list", [10**6])
    assert len(rows["text"]["value"]) <= 200
    assert "shape" not in rows["shaped"]
    page = bench.ask("notebook_variables", limit=1)
    assert len(page["variables"]) == 1
    assert page["next_offset"] == 1
    run(bench, "del raises, hangs, huge, shaped, many, text")


def test_keys_of_providers_are_not_in_the_kernel(tmp_path: Path) -> None:
    """The environment of a cell has the user's variables, not the keys jaato calls models with."""
    environ = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "sk-secret", "MINE": "yes"}
    bench = Bench(NotebookPlugin, tmp_path, environ=environ)
    try:
        text = run(bench, "import os; print(os.environ.get('MINE'), os.environ.get('OPENAI_API_KEY'))").text
        assert text == "yes None"
        found = run(bench, "open(f'/proc/{os.getppid()}/environ').read()").text
        assert "sk-secret" not in found
    finally:
        bench.close()
