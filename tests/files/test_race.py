"""Replacing one file from many threads at once, with nothing between the looks and the exchanges but the disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from jaato.tools.filesystem.atomic import read_at
from jaato.tools.filesystem.atomic_replace import FileChanged, FileState, draft
from jaato.tools.filesystem.containment import Roots


def add_line(roots: Roots, staging: int, line: bytes) -> None:
    """Put one line before the end of the file, again and again until nobody was quicker."""
    while True:
        with roots.locate("f") as place:
            info = os.stat(place.name, dir_fd=place.dir_fd)
            data = read_at(place.dir_fd, place.name, 1 << 20)
            with draft(place, "f", data.replace(b"end", line + b"\nend"), staging) as made:
                try:
                    made.publish_over(FileState(info, data))
                    return
                except FileChanged:
                    continue


def test_no_exchange_undoes_a_third(tmp_path: Path) -> None:
    """Of edits that meet in the last moment each is either refused or in the file, never taken back later."""
    (tmp_path / "staging").mkdir()
    (tmp_path / "f").write_bytes(b"end")
    roots = Roots(tmp_path)

    def work(number: int) -> None:
        staging = os.open(tmp_path / "staging", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for turn in range(40):
                add_line(roots, staging, f"{number}.{turn}".encode())
        finally:
            os.close(staging)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = sorted(["end", *(f"{number}.{turn}" for number in range(6) for turn in range(40))])
    assert sorted((tmp_path / "f").read_text().split()) == wanted
    assert os.listdir(tmp_path / "staging") == []
