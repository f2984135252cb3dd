"""`apply_patch` against what git itself makes of a tree."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from tests.files.desk import Desk, state

TEXT = "".join(f"line {n}\n" for n in range(1, 21))
FILES = {
    "a.txt": TEXT,
    "gone": "x\ny\n",
    "move me": TEXT * 2,
    "crlf": "a\r\nb\r\nc\r\n",
    "open": "a\nb",
    "run": "#!\n",
    "zero": "",
}


def test_git_diffs_are_applied_as_git_does(tmp_path: Path) -> None:
    """New, deleted, renamed, copied, executable, empty and oddly named files: the tree is the one git has."""
    source, desk = tmp_path / "git", Desk(tmp_path / "w")
    source.mkdir()

    def git(*arguments: str) -> bytes:
        command = [
            "git",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "core.autocrlf=false",
            *arguments,
        ]
        return subprocess.run(command, cwd=source, capture_output=True, check=True).stdout

    git("init", "-q")
    for name, text in FILES.items():
        for top in (source, desk.workspace):
            (top / name).write_bytes(text.encode())
    git("add", "."), git("commit", "-qm", "1")
    (source / "a.txt").write_text(TEXT.replace("line 3\n", "").replace("line 18", "LINE 18") + "more\n")
    (source / "gone").unlink()
    (source / "zero").unlink()
    (source / "sub").mkdir()
    (source / "move me").rename(source / 'sub/moved ä\t"q')
    with open(source / 'sub/moved ä\t"q', "a") as file:
        file.write("tail")
    (source / "crlf").write_bytes(b"a\r\nB\r\nc\r\nd\r\n")
    (source / "open").write_bytes(b"a\nb\nc")
    (source / "run").chmod(0o755)
    (source / "new.sh").write_text("#!/bin/sh\n")
    (source / "new.sh").chmod(0o755)
    (source / "void").write_text("")
    git("add", "-A")
    patch = git("diff", "--cached", "-M").decode()
    said = desk.call("apply_patch", patch=patch)
    assert len(said["files"]) >= 9
    wanted = {
        str(p.relative_to(source)): (p.read_bytes(), p.stat().st_mode & 0o100)
        for p in source.rglob("*")
        if p.is_file() and ".git" not in p.parts
    }
    found = {
        name: (content, (desk.workspace / name).stat().st_mode & 0o100)
        for name, content in state(desk).items()
    }
    assert found == wanted
    back = git("diff", "--cached", "-M", "-R").decode()
    desk.call("apply_patch", patch=back)
    assert state(desk)["gone"] == b"x\ny\n"
    assert state(desk)["move me"].decode() == TEXT * 2
    assert state(desk)["open"] == b"a\nb"


def test_random_changes_come_out_as_git_says(tmp_path: Path) -> None:
    """Any two texts, with any context, line ends and last line: the patch between them turns one into the other."""
    desk = Desk(tmp_path / "w")
    rng = random.Random(11)
    for _ in range(40):
        old = [rng.choice("abcd ") * rng.randrange(0, 4) for _ in range(rng.randrange(2, 40))]
        new = [line for line in old if rng.random() > 0.1]
        for _ in range(rng.randrange(1, 5)):
            new.insert(rng.randrange(len(new) + 1), f"n{rng.random()}")
        end = rng.choice(["\n", "\r\n"])
        texts = [(end.join(side) + rng.choice(["", end])).encode() for side in (old, new)]
        if not texts[0] or not texts[1] or texts[0] == texts[1]:
            continue
        (tmp_path / "f").write_bytes(texts[1])
        (desk.workspace / "f").write_bytes(texts[0])
        command = ["git", "diff", "--no-index", f"-U{rng.choice([0, 1, 3])}", "w/f", "f"]
        patch = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout.decode()
        desk.call("apply_patch", patch=patch.replace("a/w/f", "a/f"))
        assert (desk.workspace / "f").read_bytes() == texts[1]
