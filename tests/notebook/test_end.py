"""Where a kernel ends: with its session, with jaato, however that ends."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import anyio
import pytest
from tests.kit import call, results, say, session
from tests.plugin_workspace import gone, python
from tests.shell.test_edges import carrying

PROGRAM = """
import sys, tempfile
from pathlib import Path
from tests.plugin_workspace import Bench
from jaato.plugins.notebook.plugin import NotebookPlugin

tempfile.tempdir = sys.argv[3]
bench = Bench(NotebookPlugin, Path(sys.argv[1]))
code = f'''
import subprocess, os
subprocess.Popen(["setsid", "sleep", "{sys.argv[2]}"])
os.getppid()
'''
bench.ask("notebook_execute", code=code)
print("up", flush=True)
sys.stdin.readline()
"""


def test_a_killed_jaato_takes_its_kernel_with_it(tmp_path: Path) -> None:
    """SIGKILL for jaato: kernel, bridge and what a cell started in a session of its own are gone, and no file is left."""
    mark = f"4545{os.getpid()}"
    with tempfile.TemporaryDirectory() as private, python(PROGRAM, str(tmp_path), mark, private) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        assert carrying(mark)
        assert not list(Path(private).iterdir())
        bridges = carrying(str(tmp_path)) + carrying("kernel_startup.py")
        assert bridges
        program.send_signal(signal.SIGKILL)
    assert gone(lambda: carrying(mark))


@pytest.mark.slow
def test_a_kernel_ends_with_its_session(tmp_path: Path) -> None:
    """A session runs cells, one of them in the background; when it closes nothing of them is left."""
    mark = f"4646{os.getpid()}"
    start = f"import subprocess; p = subprocess.Popen(['sleep', '{mark}']); 'on'"

    async def main() -> None:
        script = [
            call("get_tool_schemas", names=["notebook_execute", "start_background"]),
            call("notebook_execute", code=start),
            call("start_background", tool="notebook_execute", args={"code": "import time; time.sleep(1000)"}),
            say("done"),
        ]
        plugins = ["introspection", "background", "file_edit", "notebook"]
        async with session(tmp_path, script, plugins=plugins) as live:
            await live.post("go")
            assert "'on'" in str(results(live)[1].content)
            assert carrying(mark)
        assert gone(lambda: carrying(mark), 10)

    anyio.run(main)
