"""Search by meaning: the real model, its cache, and how it stays out of the way."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.protocol.specs import ToolSpec
from jaato.settings import environment
from jaato.tools.catalog import Catalog
from jaato.tools.search import embeddings, tokenizer
from jaato.tools.search.embeddings import EmbeddingIndex, combine_scores
from jaato.tools.tool import Tool

needs_model = pytest.mark.skipif(
    not embeddings.is_installed(), reason="the extra `semantic` is not installed"
)
WAIT_S = 120.0
TOOLS = {
    "nearbyGarage": "Find a spot to park an automobile.",
    "sendMail": "Send an e-mail to somebody.",
    "removeBackground": "Cut out the subject of a photo.",
    "stockQuote": "The current price of a share.",
    "weatherForecast": "The weather of the coming days.",
}


def made(name: str, description: str) -> Tool:
    """A tool that answers its own name."""
    schema = {"type": "object", "properties": {"where": {"type": "string"}}}
    return Tool(ToolSpec(name, description, schema), lambda arguments, call: name)


def catalog(path: Path | None, tools: dict[str, str] = TOOLS) -> Catalog:
    """A catalogue of these tools, with the search by meaning when there is a path for its vectors."""
    known = Catalog(EmbeddingIndex(path) if path is not None else None)
    known.add(made(name, text) for name, text in tools.items())
    return known


def vector_threads() -> set[threading.Thread]:
    """The threads that compute vectors, those of earlier tests too."""
    return {thread for thread in threading.enumerate() if thread.name == "jaato-vectors"}


def names(known: Catalog, query: str) -> list[str]:
    """What a query finds, best first."""
    return [spec.name for spec, _ in known.search(query)]


@needs_model
def test_the_model_tells_nobody_of_its_use(tmp_path: Path) -> None:
    """What runs the model sends no figures to its makers, and leaves no identifier of this machine with the user."""
    known = ("CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY")  # nothing is collected where these are set
    left = {name: value for name, value in environment().items() if name not in known}
    program = "from jaato.tools.search.embeddings import Model; Model().vectors(['mail'])"
    subprocess.run(
        [sys.executable, "-c", program], env={**left, "HOME": str(tmp_path), "XDG_CACHE_HOME": ""}, check=True
    )
    assert list(tmp_path.iterdir()) == []


@needs_model
@pytest.mark.parametrize(
    ("query", "expected"),
    [("is it going to rain tomorrow, should I take an umbrella", "weatherForecast"),
     ("where to leave the van downtown", "nearbyGarage"),
     ("make the picture's backdrop transparent", "removeBackground"),
     ("how much is Apple worth on Nasdaq", "stockQuote")],
)  # fmt: skip
def test_what_shares_no_word_is_found(tmp_path: Path, query: str, expected: str) -> None:
    """A request in quite other words has its tool first, once the tools have been read."""
    known = catalog(tmp_path / "v")
    assert known.await_meaning(WAIT_S)
    assert names(known, query)[0] == expected


@needs_model
def test_each_step_has_its_tool(tmp_path: Path) -> None:
    """A request of several steps, none in the words of its tool, has all of them before the rest."""
    known = catalog(tmp_path / "v")
    assert known.await_meaning(WAIT_S)
    found = names(known, "Should I take an umbrella tomorrow? Then write my colleague on Gmail.")
    assert set(found[:2]) == {"weatherForecast", "sendMail"}


@needs_model
def test_until_there_are_vectors_words_answer(tmp_path: Path) -> None:
    """The first search answers as one without the extra does, and starts no more than one thread."""
    known, plain = catalog(tmp_path / "v"), catalog(None)
    query, before = "send the current weather", vector_threads()
    assert known.search(query) == plain.search(query)
    known.search(query)
    assert len(vector_threads() - before) <= 1
    assert known.await_meaning(WAIT_S)
    assert known.search(query) != plain.search(query)


@needs_model
def test_a_changed_catalogue_is_read_again(tmp_path: Path) -> None:
    """Tools added later are found by meaning once they have been read, and those removed are found no more."""
    known = catalog(tmp_path / "v")
    assert known.await_meaning(WAIT_S)
    known.add([made("umbrellaShop", "Sells umbrellas.")])
    found = known.find("weatherForecast")
    assert found is not None
    known.remove([found.tool])
    assert known.await_meaning(WAIT_S)
    assert names(known, "protection from the rain")[0] == "umbrellaShop"
    assert "weatherForecast" not in names(known, "protection from the rain")


@needs_model
def test_vectors_outlive_the_process(tmp_path: Path) -> None:
    """The second time they come from the file, which is not written again, and the answers are the same."""
    path = tmp_path / "deep" / "v"
    first = catalog(path)
    assert first.await_meaning(WAIT_S)
    state = path.stat()
    assert state.st_mode & 0o777 == 0o600
    second = catalog(path)
    assert second.await_meaning(WAIT_S)
    assert path.stat().st_mtime_ns == state.st_mtime_ns
    assert second.search("where to leave the van") == first.search("where to leave the van")


@needs_model
@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "other", "directory"])
def test_a_damaged_file_is_ignored(tmp_path: Path, harm: str) -> None:
    """Cut, changed, empty, foreign or no file at all: the vectors are made afresh and the file is right again."""
    path = tmp_path / "v"
    assert catalog(path).await_meaning(WAIT_S)
    whole = path.read_bytes()
    match harm:
        case "cut":
            path.write_bytes(whole[:-100])
        case "flip":
            path.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
        case "empty":
            path.write_bytes(b"")
        case "other":
            path.write_bytes(b"something else of a file\n" * 100)
        case _:
            path.unlink()
            path.mkdir()
    known = catalog(path)
    assert known.await_meaning(WAIT_S)
    assert names(known, "is it going to rain tomorrow")[0] == "weatherForecast"
    if harm != "directory":
        assert path.read_bytes() == whole


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the vectors that were not asked for longest go; another model's are of no use."""
    monkeypatch.setattr(embeddings, "MAX_ROWS", 3)
    path, model = tmp_path / "v", b"m" * 16
    rows = {bytes([n]) * 16: bytes([n]) * embeddings.SIZE for n in range(5)}
    old, new = dict(list(rows.items())[:3]), dict(list(rows.items())[3:])
    embeddings.save_vectors(path, model, old)
    embeddings.save_vectors(path, model, new)
    assert list(embeddings.load_vectors(path, model)) == [*new, next(iter(old))]
    assert embeddings.load_vectors(path, b"n" * 16) == {}


def test_without_the_extra_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a package is missing the answers are those by words, no thread starts, no file appears."""
    for name in embeddings.PACKAGES:
        monkeypatch.setitem(sys.modules, name, None)  # it cannot be imported, nor found
    known, plain, before = catalog(tmp_path / "v"), catalog(None), vector_threads()
    assert known.search("send mail") == plain.search("send mail")
    assert not known.await_meaning(WAIT_S)
    assert vector_threads() <= before
    assert list(tmp_path.iterdir()) == []


@needs_model
def test_a_broken_model_turns_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Files that cannot be read cost a line in the log and nothing else; nobody waits for what will not come."""
    embeddings.the_model.cache_clear()
    monkeypatch.setattr(embeddings, "TOKENIZER", Path("not there.json"))
    known, plain = catalog(tmp_path / "v"), catalog(None)
    assert not known.await_meaning(WAIT_S)
    assert known.search("send mail") == plain.search("send mail")
    assert "Search by meaning is off" in caplog.text


@needs_model
def test_a_process_has_one_model(tmp_path: Path) -> None:
    """Two catalogues of two sessions, read at once, share the model."""
    one, other = catalog(tmp_path / "v"), catalog(tmp_path / "w")
    one.search("x")
    assert other.await_meaning(WAIT_S)
    assert one.await_meaning(WAIT_S)
    assert embeddings.the_model() is embeddings.the_model()
    assert names(one, "is it going to rain")[0] == names(other, "is it going to rain")[0] == "weatherForecast"


PROGRAM = """
import sys, threading
from pathlib import Path
from jaato.protocol.specs import ToolSpec
from jaato.tools.catalog import Catalog
from jaato.tools.search.embeddings import EmbeddingIndex
from jaato.tools.tool import Tool
known = Catalog(EmbeddingIndex(Path(sys.argv[1])))
known.add(Tool(ToolSpec(f"tool_{n}", f"Does number {n}.", {"type": "object"}), print) for n in range(3000))
known.in_category("x"), known.find("tool_1"), len(known)
assert not {"numpy", "onnxruntime", "tokenizers"} & set(sys.modules)
assert threading.active_count() == 1
known.search("do something")
print("done")
"""


@needs_model
def test_nothing_is_loaded_before_the_first_search_and_the_end_waits_for_nobody(tmp_path: Path) -> None:
    """A process knows its tools without the model; ending in the midst of three thousand vectors it ends cleanly."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "v")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    path = tmp_path / "v"
    assert not path.exists() or len(path.read_bytes()) < 3000 * (embeddings.KEY_BYTES + embeddings.SIZE)


@needs_model
@pytest.mark.parametrize(
    "query",
    ["", "   ", "\ud800 \x00", "word " * 20_000, "a and b. " * 10_000, "Wie wird das Wetter morgen?", "明日の天気", "🌧"],
    ids=["empty", "blank", "surrogate", "long", "steps", "German", "Japanese", "sign"],
)  # fmt: skip
def test_any_query_is_answered(tmp_path: Path, query: str) -> None:
    """Empty, broken, endless or foreign requests are answered, with scores from 0 to 1."""
    known = catalog(tmp_path / "v", {**TOOLS, "odd": "\ud800" * 10, "void": ""})
    assert known.await_meaning(WAIT_S)
    assert all(0.0 <= score <= 1.0 for _, score in known.search(query))


@needs_model
def test_an_empty_catalogue_has_nothing(tmp_path: Path) -> None:
    """No tools, nothing found, nothing fails."""
    known = catalog(tmp_path / "v", {})
    assert known.await_meaning(WAIT_S)
    assert known.search("anything") == []


@needs_model
def test_a_name_still_comes_first(tmp_path: Path) -> None:
    """A query that is a tool's name has that tool first, whatever it means."""
    known = catalog(tmp_path / "v", {**TOOLS, "sun": "Restart the server."})
    assert known.await_meaning(WAIT_S)
    assert known.search("sun")[0][0].name == "sun"
    assert known.search("sun")[0][1] == 1.0


SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.0, 1.0), max_size=8)


@given(SCORES, SCORES)
def test_mixed_scores_are_as_sure_as_meaning(words: dict[str, float], meaning: dict[str, float]) -> None:
    """Every tool of either has a score from 0 to 1, and the best is as sure as the nearest in meaning."""
    both = combine_scores(words, meaning)
    assert both.keys() == words.keys() | meaning.keys()
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in both.values())
    if meaning:
        assert max(both.values()) == pytest.approx(max(meaning.values()))
    else:
        assert both == words


def test_the_steps_of_a_request() -> None:
    """A request is read step by step, neighbours together where there are too many; one of one step as a whole."""
    request = "send the mail and then delete the draft"
    assert tokenizer.split_steps(request, 8) == ["send the mail", "delete the draft"]
    assert tokenizer.split_steps("send the mail", 8) == ["send the mail"]
    many = tokenizer.split_steps(" and then ".join(f"step {at}" for at in range(5)), 3)
    assert many == ["step 0", "step 1. step 2", "step 3. step 4"]


@needs_model
def test_the_runtime_of_models_says_nothing_to_its_maker(tmp_path: Path) -> None:
    """Loading it sends nothing and leaves no identifier of the machine in the user's directory."""
    program = (
        "from pathlib import Path\nfrom jaato.tools.search.embeddings import open_session\n"
        "try: open_session(Path('none'))\nexcept Exception: print('loaded')"
    )
    known = {"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=known, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr
    assert [*tmp_path.rglob("*")] == []
