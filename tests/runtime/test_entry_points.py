"""Plugins of installed distributions are found without loading what finds them, where there are none."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jaato.runtime.plugins.discovery import entry_points_of

ENTRY = "[jaato.plugins]\nnotes = notes_of_mine:Plugin\n"


def names(group: str = "jaato.plugins") -> list[str]:
    """The names that distributions offer."""
    return [point.name for point in entry_points_of(group)]


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_an_installed_distribution_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In both forms of metadata, and as soon as it is there."""
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "notes" not in names()
    place = tmp_path / f"mine-1.0.{kind}"
    place.mkdir()
    (place / "entry_points.txt").write_text(ENTRY)
    (place / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text("Name: mine\nVersion: 1.0\n")
    assert "notes" in names()
    assert "notes" not in names("jaato.gc_plugins")


def test_a_distribution_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive on the path may have some."""
    archive = tmp_path / "mine.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("mine-1.0.dist-info/entry_points.txt", ENTRY)
        file.writestr("mine-1.0.dist-info/METADATA", "Name: mine\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(archive))
    assert "notes" in names()


def test_odd_metadata_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for a directory, a directory for a file, bytes that are no text, a path that is not there."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "missing"))
    (tmp_path / "file.dist-info").write_text("x")
    (tmp_path / "folder.dist-info" / "entry_points.txt").mkdir(parents=True)
    (tmp_path / "bytes.dist-info").mkdir()
    (tmp_path / "bytes.dist-info" / "entry_points.txt").write_bytes(b"\xff\x00")
    assert "notes" not in names()


def test_where_there_is_none_the_finder_is_not_loaded(tmp_path: Path) -> None:
    """Without plugins of others `importlib.metadata`, some 40 ms, is left out."""
    code = (
        "import sys; from jaato.runtime.plugins.discovery import entry_points_of\n"
        "assert list(entry_points_of('jaato.nobody_offers_this')) == []\n"
        "assert 'importlib.metadata' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
