"""The loop beside the callers': where it cannot be started, that is an error and no silence."""

from __future__ import annotations

from tests.plugin_workspace import python

TIGHT = """
import asyncio, os, resource
from jaato.errors import ToolError
from jaato.tools.processes.loop_thread import LoopThread

async def work():
    return 42

async def main():
    beside = LoopThread("jaato-test")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) - 1, hard))
    try:
        await beside.run(work())
    except ToolError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(await beside.run(work()))
    beside.close()

asyncio.run(main())
"""


def test_without_descriptors_it_is_said_and_tried_again() -> None:
    """When no file can be opened, the call fails at once; when some can, the next one works."""
    process = python(TIGHT)
    try:
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    first, second = output.decode().splitlines()
    assert "jaato-test cannot be started now: Too many open files" in first
    assert second == "42"
