"""What a command prints: as it comes, bounded to the model, all of it behind a handle."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import anyio
import pytest
from tests.shell.running import Shell


def test_bytes_that_are_not_text(shell: Shell) -> None:
    """What is not UTF-8 becomes the replacement character, whole characters stay whole."""
    assert shell.run(r"printf 'a\xff\xfeb\xe2\x82\xac\xe2\x82'")["output"] == "a��b€�"
    seen: list[str] = []
    shell.run(r"printf '\xe2'; sleep 0.1; printf '\x82\xac'", call=shell.call(output=seen.append))
    assert "".join(seen) == "€"


def test_output_is_shown_while_the_command_runs(shell: Shell) -> None:
    """Output streams as it comes: a command can wait for what its own output caused."""
    flag = shell.workspace / "seen"
    seen: list[str] = []

    def output(text: str) -> None:
        seen.append(text)
        flag.touch()

    done = shell.run(
        "echo first; while [ ! -e seen ]; do sleep 0.01; done; echo second", call=shell.call(output)
    )
    assert done["exit_code"] == 0
    assert "".join(seen) == "first\nsecond\n"
    assert len(seen) == 2


def test_large_output_is_cut_in_the_middle_and_kept(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the bound the model reads head and tail, and all of it is behind the handle."""
    (tmp_path / "spool").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))
    kept: list[bytes] = []

    def keep(data: bytes | Path) -> str:
        assert isinstance(data, Path)
        assert data.parent == tmp_path / "spool"
        kept.append(data.read_bytes())
        return "result:abc"

    done = shell.run("seq 100000", call=shell.call(keep=keep))
    whole = "".join(f"{number}\n" for number in range(1, 100001)).encode()
    assert kept == [whole]
    assert (done["truncated"], done["handle"], done["output_bytes"]) == (True, "result:abc", len(whole))
    head, marker, tail = done["output"].partition("\n[… ")
    assert head.startswith("1\n2\n")
    assert tail.endswith("\n100000\n")
    omitted = int(marker and tail.split(" bytes")[0].replace(",", ""))
    last = tail.split("…]\n", 1)[1]
    assert len(head) + 1 + omitted + len(last) == len(whole)
    assert len(done["output"]) < 17_000
    assert shell.plugin.launcher.warden_pid
    assert not list(tmp_path.glob("spool/*"))


def test_without_a_session_the_cut_is_said(shell: Shell) -> None:
    """A call that has nowhere to keep output says that it was cut."""
    done = shell.run("seq 100000")
    assert "handle" not in done
    assert "not kept" in done["note"]


def test_one_huge_line(shell: Shell) -> None:
    """A line of megabytes is cut at whole characters."""
    done = shell.run("python3 -c \"print('€' * 1000000)\"")
    assert "�" not in done["output"]
    assert done["output_bytes"] == 3_000_001


def test_output_over_the_cap_stops_the_command(tmp_path: Path) -> None:
    """A command that never stops printing is stopped."""
    shell = Shell(tmp_path, {"cap_bytes": 1_000_000})
    done = shell.run("yes")
    assert "more than 1,000,000 bytes" in done["note"]
    shell.plugin.shutdown()


def test_a_full_disk_keeps_head_and_tail(shell: Shell) -> None:
    """Where the rest cannot be kept the command goes on and the result says so."""

    async def main() -> None:
        from jaato.tools.processes.command import Command, CommandLimits

        running = Command(
            ["seq", "100000"], shell.workspace, {"PATH": os.defpath}, limits=CommandLimits(), show=print
        )
        running.request["spool"] = "/dev/full"
        ended = await running.run(shell.plugin.launcher)
        assert (ended.code, ended.spool, ended.total) == (0, None, 588895)
        assert ended.spool_error
        assert ended.tail.endswith(b"100000\n")

    anyio.run(main)
