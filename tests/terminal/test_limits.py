"""Programs at terminals: how many, how long, what cannot be started or typed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.terminal.desk import Desk, at_desk

from jaato.errors import InvalidArguments, ToolError

BASH = "PS1='$ ' exec bash --norc --noprofile -i"


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    """Sixty programs come and go; as many descriptors are open as after the first."""
    counts: list[int] = []

    async def work(desk: Desk) -> None:
        for number in range(60):
            begun = await desk.spawn("true" if number % 2 else "cat", wait_s=60 if number % 2 else 0)
            await desk.close(begun["session_id"])
            counts.append(len(os.listdir("/dev/fd")))

    at_desk(tmp_path, work)
    assert counts[-1] <= counts[0]  # one of an earlier test may have been closed


def test_limits(tmp_path: Path) -> None:
    """So many programs at once and no more; one that nobody looks at is ended; a session sees its own alone."""

    async def work(desk: Desk) -> None:
        first = await desk.spawn("cat", wait_s=0)
        other = await desk.spawn("cat", wait_s=0, of="s2")
        with pytest.raises(ToolError, match="is the most"):
            await desk.spawn("cat")
        assert [one["session_id"] for one in await desk.list()] == [first["session_id"]]
        for attempt in (
            desk.read(other["session_id"]),
            desk.type("t-nope", "x"),
            desk.close(other["session_id"]),
        ):
            with pytest.raises(ToolError, match="no terminal"):
                await attempt

    async def leave(desk: Desk) -> None:
        await desk.spawn("cat", wait_s=0)
        with anyio.fail_after(60):
            while (row := (await desk.list())[0])["state"] != "ended":
                await anyio.sleep(0.05)
        assert "not used for" in row["note"]

    at_desk(tmp_path, work, most=2)
    at_desk(tmp_path, leave, idle_s=0.5)


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("", {"keys": []}, None),
        ("", {"enter": False}, "is empty"),
        ("rm \x7f\x7f", {}, "control characters"),
        ("\x1b[A", {}, "control characters"),
        ("\ud800", {}, "surrogate"),
        ("x" * 70_000, {}, "characters"),
        ("", {"keys": ["hyper-q"]}, "is no key"),
        ("", {"keys": ["a"] * 300}, "more than"),
        ("x" * 5000, {}, "at most 4095 bytes"),
    ],
)
def test_input_that_cannot_be_typed(
    tmp_path: Path, text: str, more: dict[str, Any], said: str | None
) -> None:
    """What would do another thing than it says is refused, with the reason."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("cat")
        if said is None:
            assert (await desk.type(begun["session_id"], text, **more))["state"] == "awaiting_input"
        else:
            with pytest.raises((InvalidArguments, ToolError), match=said):
                await desk.type(begun["session_id"], text, **more)

    at_desk(tmp_path, work)


@pytest.mark.parametrize("command", ["", "  ", "a\0b", "x" * 200_000])
def test_commands_that_cannot_be_given(tmp_path: Path, command: str) -> None:
    """No terminal is opened for what no shell can run."""

    async def work(desk: Desk) -> None:
        with pytest.raises(InvalidArguments):
            await desk.spawn(command)

    at_desk(tmp_path, work)


def test_a_workspace_that_is_gone(tmp_path: Path) -> None:
    """The reason is told, and nothing stays behind."""

    async def work(desk: Desk) -> None:
        with pytest.raises(ToolError, match="could not be started"):
            await desk.spawn("cat")
        assert await desk.list() == []

    at_desk(tmp_path / "gone", work)


def test_a_program_that_never_reads_holds_nobody(tmp_path: Path) -> None:
    """What it does not take is told, in bounded time."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("stty raw -echo; echo ready; sleep 64", wait_s=1)
        await desk.until(begun["session_id"], lambda v: "ready" in v["screen"])
        said = {}
        for _ in range(2):
            said = await desk.type(begun["session_id"], "x" * 60_000, enter=False, wait_s=0)
        assert said["unsent_bytes"] > 0
        assert said["state"] == "running"

    at_desk(tmp_path, work)


def test_a_control_path_is_not_put_together_from_pieces(tmp_path: Path) -> None:
    """Two inputs that are harmless alone do not make one that would have been asked about."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn(BASH)
        await desk.type(begun["session_id"], "echo x > .gi", enter=False)
        with pytest.raises(ToolError, match="in one call"):
            await desk.type(begun["session_id"], "t/config")
        await desk.type(begun["session_id"], keys=["ctrl-c"])
        assert "ok" in (await desk.type(begun["session_id"], "echo t/hooks ok"))["screen"]

    at_desk(tmp_path, work)


def test_the_answer_comes_at_once(tmp_path: Path) -> None:
    """A prompt is reported within two seconds of appearing, however long one would wait."""

    async def work(desk: Desk) -> None:
        begun = await desk.spawn("sleep 1; read -r x", wait_s=60)
        since = time.time()
        said = await desk.type(begun["session_id"], "x", wait_s=60)
        assert (begun["state"], said["state"]) == ("awaiting_input", "ended")
        assert time.time() - since < 30

    at_desk(tmp_path, work)
