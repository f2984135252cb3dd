"""The embedded model of this machine: which file, fetched with the user's leave, and what suits a small model."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from jaato.abc.provider import Provider
from jaato.errors import CancelledException, ConfigError, ProviderMissing
from jaato.settings import Settings

if TYPE_CHECKING:
    from jaato.providers.local.models import LocalModel

Progress = Callable[[str, int, int | None], None]
Confirm = Callable[[str], Awaitable[bool]]
STEPS = {
    "download": "fetching the model",
    "verify": "checking the model",
    "wait": "waiting for another download",
}
CLEANUP_S = 5.0
INSTEAD = "Otherwise save a key (jaato login PROVIDER), name a server (OPENAI_BASE_URL), or start Ollama."


def get_pinned_model(model: str | None) -> LocalModel:
    """The model of this name, or the usual one. Raises `ConfigError` for a name there is none of."""
    from jaato.providers.local.models import DEFAULT_MODEL, MODELS

    found = MODELS.get(model or DEFAULT_MODEL)
    if found is None:
        raise ConfigError(
            f"There is no embedded model {model!r}; choose one of {', '.join(MODELS)}, "
            "or name a GGUF file in JAATO_LOCAL_MODEL."
        )
    return found


def local_state(settings: Settings) -> tuple[bool, str]:
    """Whether the embedded model can answer without a download, and from which file."""
    from jaato.providers.local.download import is_downloaded, model_file

    own = settings["local_model"]
    if own:
        return Path(own).expanduser().is_file() and has_engine(), str(own)
    pinned = get_pinned_model(None)
    path = model_file(settings.cache_dir, pinned)
    if not is_downloaded(settings.cache_dir, pinned):
        return False, f"{path} is not there yet ({pinned.size_bytes / 1e9:.1f} GB)"
    return has_engine(), str(path)


def has_engine() -> bool:
    """Whether the engine is installed."""
    return importlib.util.find_spec("xllamacpp") is not None


async def prepare(
    settings: Settings,
    model: str | None = None,
    *,
    progress: Progress | None,
    allowed: bool,
    confirm: Confirm | None,
) -> None:
    """Have the embedded model's file on this machine: fetched first, if the user agrees.

    Raises `ProviderMissing` when the engine is missing or the download was not confirmed, `ProviderError`s when the download fails.
    """
    from jaato.providers.local.download import is_downloaded, model_file

    if not has_engine():
        raise ProviderMissing(f"The embedded model is not installed: pip install 'jaato[local]'. {INSTEAD}")
    if settings["local_model"]:
        return
    pinned = get_pinned_model(model)
    if is_downloaded(settings.cache_dir, pinned):
        return
    size = f"{pinned.size_bytes / 1e9:.1f} GB"
    place = model_file(settings.cache_dir, pinned).parent
    if not allowed and confirm is None:
        raise ProviderMissing(
            f"The embedded model {pinned.name} would have to be downloaded first ({size} into {place}). "
            f"Run `jaato chat` at a terminal to be asked; --yes allows it, and every call that no rule denies. {INSTEAD}"
        )
    if not allowed and confirm is not None:
        question = f"The embedded model {pinned.name} has to be downloaded once: {size} into {place}. Do it?"
        if not await confirm(question):
            raise ProviderMissing(f"The embedded model was not downloaded. {INSTEAD}")
    await download(settings, pinned, progress)


async def download(settings: Settings, pinned: LocalModel, progress: Progress | None) -> None:
    """Download in a worker thread; cancelled, it stops at its next report; a later download resumes it."""
    from jaato.providers.local.download import download_model

    loop, stopped, over = asyncio.get_running_loop(), threading.Event(), anyio.Event()

    def report(done_bytes: int, total_bytes: int, step: str) -> None:
        if stopped.is_set():
            raise CancelledException("The download was stopped; it goes on from there the next time.")
        if progress is not None:
            loop.call_soon_threadsafe(progress, STEPS.get(step, step), done_bytes, total_bytes)

    def work() -> None:
        try:
            download_model(settings.cache_dir, settings.environ, report, model=pinned)
        finally:
            try:
                loop.call_soon_threadsafe(over.set)
            except RuntimeError:
                pass  # the loop has ended

    try:
        await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except asyncio.CancelledError:
        stopped.set()
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_S):
            await over.wait()
        raise


def local_provider(settings: Settings, model: str | None) -> tuple[Provider, str]:
    """The embedded model, whose file is on this machine already. Raises `ConfigError` when it is not, `ModelNotFound`
    for a file of one's own that is no model."""
    from jaato.providers.local.download import get_configured_model, is_downloaded, model_file
    from jaato.providers.local.provider import LocalProvider

    if settings["local_model"]:
        path = get_configured_model(settings["local_model"])
        return LocalProvider(path, cache_dir=settings.cache_dir), model or path.stem
    pinned = get_pinned_model(model)
    if not is_downloaded(settings.cache_dir, pinned):
        raise ProviderMissing(
            f"The embedded model {pinned.name} is not on this machine; `jaato run --yes` fetches it."
        )
    return LocalProvider(model_file(settings.cache_dir, pinned), cache_dir=settings.cache_dir), pinned.name


def small_profile(workspace: Path, user_file: Path) -> tuple[str, tuple[str, ...]]:
    """System prompt and core tools for a small model: few and short, and the same bytes wherever they can be."""
    from jaato.agent.prompt import INSTRUCTION_FILES, read_instructions
    from jaato.providers.local.prompt import CORE, SYSTEM

    texts = [
        read_instructions(path) for path in (user_file, *[workspace / name for name in INSTRUCTION_FILES])
    ]
    return "\n\n".join([SYSTEM, *[text for text in texts if text]]), CORE
