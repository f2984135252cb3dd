"""Work in a process of its own: bounded, and gone when its call is."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.processes import children

from jaato.errors import CancelledException, ToolError
from jaato.tools.call import problem_of
from jaato.tools.cancel import CancelToken
from jaato.tools.processes.sandbox_process import (
    NOWHERE,
    Mounts,
    ResourceLimits,
    WorkFailed,
    run_in_sandbox_process,
    run_in_sandbox_process_async,
)

HERE = "tests.tools.test_apart"
ROOM = ResourceLimits(20.0, 1 << 30, 1 << 20, "Ask for less.")


class Refused(ToolError):
    """An error of the work's own."""

    code = "odd"


def work(request: dict[str, Any]) -> Any:
    """What the tests have done in the other process."""
    match request["what"]:
        case "echo":
            return {"pid": os.getpid(), "text": request["text"], "cwd": os.getcwd()}
        case "read":
            return os.read(request["fd"], 100).decode()
        case "refuse":
            raise Refused("That is odd. Ask otherwise.")
        case "raise":
            raise RuntimeError("broken")
        case "memory":
            return len(bytearray(8 << 30))
        case "write":
            Path(request["path"]).write_bytes(bytes(2 << 20))
        case "crash":
            os.abort()
        case "spin":
            while True:
                pass
        case "much":
            return "x" * (80 << 20)
    return None


def do(
    what: str,
    bounds: ResourceLimits = ROOM,
    token: CancelToken | None = None,
    fds: tuple[int, ...] = (),
    places: Mounts = NOWHERE,
    **more: Any,
) -> Any:
    """Have something done apart."""
    request = {"what": what, **more}
    return run_in_sandbox_process(f"{HERE}:work", request, bounds, token or CancelToken(), fds, places=places)


def test_a_value_comes_back_from_another_process() -> None:
    """The request and the value are JSON, whatever characters are in them; descriptors are handed over."""
    said = do("echo", text="ä\n\0\ud800")
    assert said["text"] == "ä\n\0\ud800"
    assert said["pid"] != os.getpid()
    reader, writer = os.pipe()
    os.write(writer, b"through")
    os.close(writer)
    assert do("read", fds=(reader,), fd=reader) == "through"
    os.close(reader)


def test_a_refusal_keeps_its_code_and_other_errors_are_named() -> None:
    """A `ToolError` of the work is the same to the model; anything else says what broke."""
    with pytest.raises(WorkFailed, match="odd") as caught:
        do("refuse")
    problem = problem_of(caught.value)
    assert (problem.code, problem.message) == ("odd", "That is odd. Ask otherwise.")
    with pytest.raises(WorkFailed, match="RuntimeError: broken"):
        do("raise")
    with pytest.raises(WorkFailed, match="too large"):
        do("much")


def test_every_bound_holds(tmp_path: Path) -> None:
    """Too much memory, time or disk ends the work alone, with what to do."""
    with pytest.raises(WorkFailed, match="too large"):
        do("memory")
    with pytest.raises(WorkFailed, match=r"0\.5 s and was stopped\. Ask for less"):
        do("spin", ResourceLimits(0.5, 1 << 30, 1 << 20, "Ask for less."))
    with pytest.raises(WorkFailed):
        do("write", path=str(tmp_path / "big"), places=Mounts(writes=[tmp_path]))
    assert (tmp_path / "big").stat().st_size <= 1 << 20
    with pytest.raises(WorkFailed, match="memory"):
        do("crash")


def test_a_cancelled_call_leaves_no_process() -> None:
    """Cancelling ends the process before the call returns."""
    token = CancelToken()
    before = children(zombies=True)
    threading.Timer(0.2, token.cancel).start()
    with pytest.raises(CancelledException):
        do("spin", token=token)
    assert children(zombies=True) <= before


def test_a_cancelled_task_leaves_no_process() -> None:
    """The same for a task: its process has ended when the cancelled scope is left, and nothing waits for it."""
    before = children(zombies=True)

    async def main() -> bool:
        with anyio.move_on_after(0.2) as scope:
            await run_in_sandbox_process_async(f"{HERE}:work", {"what": "spin"}, ROOM)
        return scope.cancelled_caught

    assert anyio.run(main)
    assert children(zombies=True) <= before


def test_bytes_go_along_and_the_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work reads bytes of any size as they are, and sees neither keys nor the directory of the process."""
    monkeypatch.setenv("CANARY_KEY", "canary")
    data = bytes(range(256)) * 40_000
    said = anyio.run(lambda: run_in_sandbox_process_async(f"{HERE}:measure", {"a": 1}, ROOM, data))
    assert said == {
        "size": len(data),
        "sum": sum(data),
        "cwd": "/",
        "environ": ["LC_ALL"],
        "request": {"a": 1},
    }
    with pytest.raises(WorkFailed, match="odd"):
        anyio.run(lambda: run_in_sandbox_process_async(f"{HERE}:work", {"what": "refuse"}, ROOM))


def measure(request: dict[str, Any], data: bytes) -> Any:
    """What is known of the bytes and of the place."""
    seen = [name for name in os.environ if name != "PWD"]  # noqa: TID251 what this process was given
    return {"size": len(data), "sum": sum(data), "cwd": os.getcwd(), "environ": seen, "request": request}


def test_modules_of_the_working_directory_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `csv.py` that lies in the workspace is never run."""
    (tmp_path / "json.py").write_text("raise SystemExit('hijacked')")
    (tmp_path / "csv.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert do("echo", text="fine")["text"] == "fine"
