"""The engine below the provider: its saved states, its socket, damaged models, the end of a process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest
from tests.local.test_provider import TOOLS, asked, chunks_of, reply_of

from jaato.errors import ContextOverflow, ModelNotFound, ServerFault
from jaato.providers.local.engine import EngineShare, Job
from jaato.providers.local.provider import LocalProvider
from jaato.settings import environment


def test_a_new_process_restores_the_fixed_prompt(shallow_model: Path, tmp_path: Path) -> None:
    """The state of the fixed prompt is kept on disk, for its owner alone, and spares the next process the
    reading."""

    async def main() -> None:
        cached: list[int] = []
        for _ in range(2):
            provider = LocalProvider(shallow_model, cache_dir=tmp_path, context_tokens=2048, threads=1)
            progress = reply_of(await chunks_of(provider, asked("Hi", TOOLS, max_output_tokens=5)))
            assert progress.usage is not None
            cached.append(progress.usage.cached_input_tokens)
            states = list((tmp_path / "prompts").iterdir())
            assert [path.suffix for path in states] == [".state"]
            assert states[0].stat().st_mode & 0o077 == 0
            await provider.aclose()
        assert min(cached) > 100

    anyio.run(main)


def test_a_damaged_state_is_as_if_there_were_none(shallow_model: Path, tmp_path: Path) -> None:
    """A state file that cannot be restored costs time, not the turn."""

    async def main() -> None:
        for _ in range(2):
            provider = LocalProvider(shallow_model, cache_dir=tmp_path, context_tokens=2048, threads=1)
            reply_of(await chunks_of(provider, asked("Hi", max_output_tokens=3)))
            await provider.aclose()
            for path in (tmp_path / "prompts").iterdir():
                path.write_bytes(b"x" * 1000)

    anyio.run(main)


def test_nothing_listens_once_the_model_is_loaded(provider: LocalProvider) -> None:
    """The engine's own server cannot be reached by anyone: no port, and its socket's folder is gone."""

    async def main() -> None:
        await chunks_of(provider, asked("Hi", max_output_tokens=5))

    anyio.run(main)
    mine = {os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if entry.is_symlink()}
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    ours = [
        fields[-1]
        for fields in lines
        if fields[-1].endswith("engine.sock") and f"socket:[{fields[6]}]" in mine
    ]
    assert ours
    assert not [path for path in ours if Path(path).exists()]
    assert environment()["OMP_WAIT_POLICY"] == "PASSIVE"


def test_a_model_of_less_context_says_how_much_it_has(shallow_model: Path) -> None:
    """A model that was trained for less than is set up refuses a longer conversation with its own bound."""

    async def main() -> None:
        provider = LocalProvider(shallow_model, threads=1)
        with pytest.raises(ContextOverflow, match="reads 8192"):
            await chunks_of(provider, asked("word " * 8_300))
        await provider.aclose()

    anyio.run(main)


def test_a_damaged_model_is_named(small_model: Path, tmp_path: Path) -> None:
    """A model file that was cut is refused with the remedy, and the provider can be closed."""
    cut = tmp_path / "cut.gguf"
    with small_model.open("rb") as file:
        cut.write_bytes(file.read(20_000_000))

    async def main() -> None:
        provider = LocalProvider(cut)
        with pytest.raises(ModelNotFound, match=r"cannot load .*JAATO_LOCAL_MODEL"):
            await chunks_of(provider, asked("Hi"))
        await provider.aclose()
        with pytest.raises(ServerFault, match="closed"):
            await chunks_of(provider, asked("Hi"))

    anyio.run(main)


def test_without_the_engine_the_extra_is_named(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without xllamacpp the error says how to install it."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    async def main() -> None:
        provider = LocalProvider(small_model)
        with pytest.raises(ModelNotFound, match=r"pip install 'jaato\[local\]'"):
            await chunks_of(provider, asked("Hi"))
        await provider.aclose()

    anyio.run(main)


def test_a_process_can_end_in_the_middle_of_a_turn(shallow_model: Path) -> None:
    """A program that leaves without closing the provider ends normally."""
    program = (
        "import sys, anyio; from pathlib import Path\n"
        "from jaato.providers.local.provider import LocalProvider\n"
        "from jaato.abc.provider import ModelRequest\n"
        "from jaato.protocol.messages import Message, Text\n"
        "async def main():\n"
        "    provider = LocalProvider(Path(sys.argv[1]), context_tokens=1024, threads=1)\n"
        "    said = [Message('user', [Text('Tell a long story.')])]\n"
        "    async for chunk in provider.stream(ModelRequest('m', said)):\n"
        "        return\n"
        "anyio.run(main); print('left')\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", program, str(shallow_model)],
        env={**environment(), "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


def test_shares_that_are_used_from_several_threads_have_one_engine(tmp_path: Path) -> None:
    """The engine is started by one of the threads alone."""
    path = tmp_path / "model.gguf"
    path.touch()
    barrier, ended = threading.Barrier(8), threading.Semaphore(0)

    def submit(share: EngineShare) -> None:
        job = Job({}, [], on_event=print, on_end=lambda _failure: ended.release())
        job.stop.set()  # nothing is loaded for it
        barrier.wait()
        share.submit(job)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            shares = [EngineShare(path, context_tokens=512, threads=1, states=None) for _ in range(8)]
            before = set(threading.enumerate())
            users = [threading.Thread(target=submit, args=(share,)) for share in shares]
            for user in users:
                user.start()
            for user in users:
                user.join()
                ended.acquire()
            assert len(set(threading.enumerate()) - before) == 1
            for share in shares:
                share.close()
    finally:
        sys.setswitchinterval(interval)
