"""The built page in the package is what its sources give, to the byte, with the pinned Node.js and the lock file."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.page.node import CLIENT, node

from jaato.server.web.static_files import BUILT
from jaato.settings import environment

FIRST_LOAD_BYTES = 120_000


def files_of(directory: Path) -> dict[str, bytes]:
    """The files below a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.system
def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """In another directory, with packages installed anew from the lock file."""
    sources = tmp_path / "web"
    shutil.copytree(CLIENT, sources, ignore=shutil.ignore_patterns("node_modules"))
    programs = Path(node()).parent
    npm = programs.parent / "lib/node_modules/npm/bin/npm-cli.js"
    environ = environment() | {
        "PATH": f"{programs}:{environment()['PATH']}",
        "npm_config_cache": str(tmp_path / "cache"),
    }
    for words in (
        [node(), str(npm), "ci"],
        [node(), "node_modules/typescript/bin/tsc", "--noEmit"],
        [node(), "node_modules/vite/bin/vite.js", "build", "--outDir", str(tmp_path / "built")],
    ):
        made = subprocess.run(words, cwd=sources, env=environ, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    built, committed = files_of(tmp_path / "built"), files_of(BUILT)
    assert built.keys() == committed.keys()
    assert [name for name in built if built[name] != committed[name]] == []


def test_the_first_load_is_small() -> None:
    """All that the start refers to, compressed, is at most 120 kB; the highlighter is not part of it."""
    start = (BUILT / "index.html").read_text()
    loaded = [BUILT / link[1:] for link in re.findall(r"(?:src|href)=\"([^\"]*)\"", start)]
    size = sum(len(gzip.compress(path.read_bytes(), 9)) for path in [BUILT / "index.html", *loaded])
    assert 20_000 < size < FIRST_LOAD_BYTES
    assert not any("highlight" in path.name for path in loaded)
    assert any("highlight" in name for name in files_of(BUILT))


def test_the_lock_file_names_no_registry() -> None:
    """Packages are pinned by version and hash, wherever they are fetched from."""
    lock = json.loads((CLIENT / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert len(packages) > 20
    assert all(
        "resolved" not in entry and entry["integrity"].startswith("sha512-") for entry in packages.values()
    )
