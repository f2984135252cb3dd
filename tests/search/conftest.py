"""A tree to search in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.search.desk import plant


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace with text, binary, hidden and ignored files, and links that lead out."""
    home = tmp_path / "work"
    plant(
        home,
        {
            "src/one.py": "import os\n\ndef needle():\n    return 1\n",
            "src/two.py": "x = 'Needle'\n",
            "src/deep/three.txt": "a needle\nb\nc needle\n",
            "logo.bin": b"\0\1needle\0",
            ".secret/env": "needle=1\n",
            "build/out.txt": "needle\n",
            ".gitignore": "build/\n",
            ".git/config": "needle\n",
            "min.js": "x" * 5000 + "needle" + "y" * 5000 + "\n",
        },
    )
    (tmp_path / "outside.txt").write_text("needle\n")
    (home / "link.txt").symlink_to(tmp_path / "outside.txt")
    (home / "linkdir").symlink_to(tmp_path)
    os.mkfifo(home / "pipe")
    return home
