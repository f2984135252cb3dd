"""The remote sources of one kind, as a command sees them: which there are, and what every kind can do with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Generic

import anyio

from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.ending import ERROR, INTERRUPTED, OK, say
from jaato.cli.output.tables import print_json, print_line, print_rows
from jaato.cli.signals import interruptible
from jaato.errors import ConfigError, JaatoError
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.remote.fields import C
from jaato.tools.remote.sources import SourceContext, SourceDirectory, source_context

CHECKS_AT_ONCE = 8
TEXTS = ("server", "registry", "tool", "arguments", "url", "token", "prefix")


class SourceCommands(ABC, Generic[C]):
    """The user's sources and those of the workspace. `secrets` are what registries are asked with: one that says them again
    has them shown to nobody."""

    plural: ClassVar[str]
    verb: ClassVar[str]
    """What a workspace's source may do once it is trusted: `start`, `be asked`."""
    tools_hint: ClassVar[str]
    """The command that shows the tools of a source."""
    columns: ClassVar[dict[str, str]]
    """What is shown of each, by the field of its row."""

    def __init__(self, args: Namespace, name: str | None) -> None:
        for field in TEXTS:
            if isinstance(getattr(args, field, None), str):
                setattr(args, field, clean_text(getattr(args, field)))
        self.args = args
        self.name = clean_text(name) or ""
        self.workspace = workspace_of(args)
        self.settings = settings_for(SessionOptions(workspace=self.workspace), self.workspace)
        self.secrets = Redactor.none()
        self.directory = self.open_directory(
            source_context(self.workspace, self.settings.environ, self.settings)
        )

    @abstractmethod
    def open_directory(self, context: SourceContext) -> SourceDirectory[C]:
        """The sources in these places."""

    @abstractmethod
    def entry(self) -> dict[str, Any]:
        """The entry that the arguments of `add` describe. Raises `ConfigError`."""

    @abstractmethod
    def find(self) -> C:
        """The source that `trust` is about. Raises `ConfigError`."""

    @abstractmethod
    def changes(self, config: C) -> tuple[list[tuple[str, str]], Callable[[], object]]:
        """The definitions that have changed since they were accepted: what has, with a diff; and how they are accepted as
        they are shown."""

    @abstractmethod
    def forget(self, config: C) -> None:
        """Keep nothing of a source that is removed."""

    @abstractmethod
    async def check(self, config: C) -> None:
        """See whether a source answers. Raises `JaatoError`s."""

    @abstractmethod
    def row(self, config: C, failure: JaatoError | None) -> dict[str, Any]:
        """One source as data; its `tools` are None while they are not known."""

    def added(self, config: C) -> None:
        """Say what else there is to know of a source that was just configured."""

    def cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row as it is shown to people."""
        return row

    def remarks(self, row: dict[str, Any]) -> list[str]:
        """What a person has to know of a row beside the columns."""
        command = f"jaato {self.directory.kind.COMMAND}"
        if row["state"] == "needs trust":
            return [f"look at it and trust it with `{command} trust {row['name']}`"]
        return [row["why"]] if row["why"] else []

    def run(self, work: Callable[[], Awaitable[int]]) -> int:
        """The exit code of some work that Ctrl-C may end. Raises `JaatoError`s, without the keys."""
        try:
            return anyio.run(run_interruptible, work)
        except JaatoError as error:
            error.args = tuple(map(self.secrets.mask_data, error.args))
            raise


async def run_interruptible(work: Callable[[], Awaitable[int]]) -> int:
    """The exit code of some work that Ctrl-C may end."""
    with interruptible():
        try:
            return await work()
        except anyio.get_cancelled_exc_class():
            say("Interrupted.")
            return INTERRUPTED


async def list_sources(commands: SourceCommands[C]) -> int:
    """All sources with their state, and what is wrong with the files."""
    directory, args = commands.directory, commands.args
    failures: dict[str, JaatoError] = {}
    limiter = anyio.CapacityLimiter(CHECKS_AT_ONCE)

    async def check(config: C) -> None:
        async with limiter:
            try:
                await commands.check(config)
            except JaatoError as error:
                failures[config.name] = error

    if args.check:
        async with anyio.create_task_group() as tasks:
            for config in directory.sources.values():
                if not config.disabled and directory.trusts(config):
                    tasks.start_soon(check, config)
    rows = [commands.row(one, failures.get(one.name)) for one in directory.sources.values()]
    rows = commands.secrets.mask_data(rows)
    if args.json:
        noun = directory.kind.SHORT
        problems = [{noun: one.name, "file": str(one.origin), "text": one.text} for one in directory.problems]
        print_json({commands.plural: rows, "problems": problems})
    else:
        print_sources(commands, rows)
        for problem in directory.problems:
            say(str(problem))
    return ERROR if failures or (args.check and directory.problems) else OK


def print_sources(commands: SourceCommands[C], rows: list[dict[str, Any]]) -> None:
    """The sources for people."""
    config = commands.directory.kind
    if not rows:
        print_line(f"No {config.NOUN} is configured; `jaato {config.COMMAND} add` adds one.")
        return
    cells = [commands.cells(row) for row in rows]
    shown = [["-" if one[key] is None else str(one[key]) for key in commands.columns] for one in cells]
    print_rows([list(commands.columns.values()), *shown])
    for row in rows:
        for text in commands.remarks(row):
            say(f"{row['name']}: {text}")


def pairs(texts: Sequence[str], mark: str, flag: str) -> dict[str, str]:
    """`NAME=VALUE` or `NAME: VALUE` texts as a table. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for text in texts:
        name, parted, value = (clean_text(text) or "").partition(mark)
        if not parted or not name.strip():
            raise ConfigError(f"{flag} is written NAME{mark}VALUE, not {text[:80]!r}.")
        found[name.strip()] = value.strip() if mark == ":" else value
    return found
