"""Kernels in the sandbox of the call that makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hostile import ALL, Lair
from tests.plugin_workspace import Bench

from jaato.plugins.notebook.plugin import NotebookPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.tools.permissions.access import ReachesFurther

READ_ONLY = SandboxAccess("read-only")
WORKSPACE = SandboxAccess("workspace-write")


@pytest.mark.parametrize(
    ("access", "harm"), [(READ_ONLY, set()), (WORKSPACE, {"planted"}), (SandboxAccess("full"), ALL)]
)
def test_a_cell_does_what_its_profile_lets_it(tmp_path: Path, access: SandboxAccess, harm: set[str]) -> None:
    """Its code and what it starts: it reads no key, writes nothing outside, reaches no socket and no network."""
    with Lair(tmp_path) as lair:
        bench = Bench(NotebookPlugin, lair.work, environ=lair.environ)
        try:
            for code in (lair.source + "\nprint('attacked')", f"!{lair.line} 2>&1"):
                done = bench.ask("notebook_execute", code=code, access=access)
                assert "attacked" in done.text
                assert done.structured["sandbox"] == access.profile
            (row,) = bench.ask("notebook_list", access=access)["notebooks"]
            assert row["sandbox"] == access.profile
        finally:
            bench.close()
        assert lair.harm == harm


def test_a_kernel_is_used_with_no_more_and_with_less_only_by_saying_so(tmp_path: Path) -> None:
    """A call that is allowed less than the kernel has is refused; one that is allowed more hears that it did not get it."""
    bench = Bench(NotebookPlugin, tmp_path / "work")
    try:
        bench.ask("notebook_execute", code="x = 41", access=READ_ONLY)
        more = bench.ask("notebook_execute", code="open('a', 'w')", access=WORKSPACE)
        assert more.structured["error"].startswith("OSError: [Errno 30]")
        assert "was started with read-only, so the cell ran with that, not with workspace-write" in more.text
        assert "notebook_reset" in more.structured["sandbox_note"]
        bench.ask("notebook_reset", access=WORKSPACE)
        done = bench.ask(
            "notebook_execute", code="print('x' in globals(), file=open('a', 'w'))", access=WORKSPACE
        )
        assert "sandbox_note" not in done.structured
        assert (bench.workspace / "a").read_text() == "False\n"
        with pytest.raises(
            ReachesFurther,
            match=r"workspace-write, and this call is allowed read-only only\. Use notebook_reset",
        ):
            bench.ask("notebook_execute", code="open('b', 'w')", access=READ_ONLY)
        assert not (bench.workspace / "b").exists()
    finally:
        bench.close()


def test_a_confined_kernel_works_as_any_other(tmp_path: Path) -> None:
    """It keeps variables, shows images, is interrupted in time, and lists what it holds."""
    bench = Bench(NotebookPlugin, tmp_path / "work")
    try:
        bench.ask("notebook_execute", code="import tempfile\nx = len(tempfile.mkdtemp())", access=WORKSPACE)
        slow = bench.ask(
            "notebook_execute", code="import time; time.sleep(60)", timeout_s=0.5, access=WORKSPACE
        )
        assert "KeyboardInterrupt" in slow.text
        found = bench.ask("notebook_variables", access=WORKSPACE)
        assert [one["name"] for one in found["variables"] if one["type"] == "int"] == ["x"]
    finally:
        bench.close()
