"""Downloads the embedded model before a session begins in a server, which cannot ask whether to."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaato.cli.output.console import Console
    from jaato.runtime.session_options import SessionOptions
    from jaato.settings import Settings


def offer_download(args: Namespace, console: Console) -> None:
    """Download the embedded model if the new session of a command would use it, it is not here, and the user agrees.

    Does nothing without a terminal, for a session that is resumed or on another machine, and with `--no-daemon`, where the
    session asks itself. Raises `JaatoError`s, such as `ProviderMissing` if the user declines.
    """
    if args.no_daemon or args.connect or args.session or args.resume or not console.can_ask:
        return
    from jaato.runtime.local_model import has_engine, local_state

    if not has_engine():
        return
    import anyio

    from jaato.cli.arguments.values import clean_text, workspace_of
    from jaato.runtime.session_options import SessionOptions, settings_for

    workspace = workspace_of(args)
    options = SessionOptions(
        workspace=workspace,
        provider=clean_text(args.provider),
        model=clean_text(args.model),
        base_url=clean_text(args.base_url),
        yes=args.yes,
    )
    settings = settings_for(options, workspace)
    if not local_state(settings)[0]:
        anyio.run(download_if_chosen, options, settings, console)


async def download_if_chosen(options: SessionOptions, settings: Settings, console: Console) -> None:
    """Download the model if it is what the settings choose and the user agrees. Raises `JaatoError`s."""
    from functools import partial

    from jaato.cli.repl.questions import confirm
    from jaato.runtime.local_model import prepare
    from jaato.runtime.provider_selection import choose_provider

    if (settings["provider"] or (await choose_provider(settings)).name) == "local":
        await prepare(
            settings,
            settings["model"],
            progress=console.progress,
            allowed=options.yes,
            confirm=partial(confirm, console),
        )
