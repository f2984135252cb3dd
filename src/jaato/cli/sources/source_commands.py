"""Commands for remote tool sources of any kind: list, add, remove and trust them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Generic

import anyio

from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.exit_codes import DENIED, ERROR, INTERRUPTED, OK, print_message
from jaato.cli.output.console import print_json, print_line, print_rows
from jaato.cli.repl.questions import confirm_now
from jaato.cli.signals import cancel_on_signal
from jaato.errors import ConfigError, JaatoError
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.remote.fields import C, Scope
from jaato.tools.remote.sources import (
    SourceContext,
    SourceDirectory,
    edit_source,
    find_conflict,
    parse_entry,
    source_context,
    with_marks,
)

MAX_CONCURRENT_CHECKS = 8
SECRET_NAME = re.compile(r"key|token|secret|password|passwd|credential|authorization|cookie", re.IGNORECASE)
TEXTS = ("server", "registry", "tool", "arguments", "url", "token", "prefix")


class SourceCommands(ABC, Generic[C]):
    """The sources of a user and a workspace. `secrets` redacts the keys sent to sources from what they return."""

    plural: ClassVar[str]
    verb: ClassVar[str]
    """What trust allows a workspace's source: `start`, `be used`."""
    tools_hint: ClassVar[str]
    """The command that lists the tools of a source."""
    columns: ClassVar[dict[str, str]]
    """The headings of the table, by field of the row."""

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
        """The configured sources."""

    @abstractmethod
    def entry(self) -> dict[str, Any]:
        """The configuration entry for the arguments of `add`. Raises `ConfigError`."""

    @abstractmethod
    def find(self) -> C:
        """The source that the arguments name. Raises `ConfigError`."""

    @abstractmethod
    def changes(self, config: C) -> tuple[list[tuple[str, str]], Callable[[], object]]:
        """The tool definitions that changed since they were accepted, as (headline, diff), and the function that accepts
        exactly these."""

    @abstractmethod
    def forget(self, config: C) -> None:
        """Delete the data kept for a source that is removed."""

    @abstractmethod
    async def check(self, config: C) -> None:
        """Connect to a source. Raises `JaatoError`s."""

    @abstractmethod
    def row(self, config: C, failure: JaatoError | None) -> dict[str, Any]:
        """A source as data; its `tools` are None while they are unknown."""

    def print_added(self, config: C) -> None:
        """Print further information about a source that was added."""

    def cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row as displayed in the table."""
        return row

    def remarks(self, row: dict[str, Any]) -> list[str]:
        """What the user must know of a source besides the table."""
        if row["state"] == "needs trust":
            return [f"review and trust it with `jaato {self.directory.kind.COMMAND} trust {row['name']}`"]
        return [row["why"]] if row["why"] else []

    def run(self, work: Callable[[], Awaitable[int]]) -> int:
        """Run some work until it is done or a signal cancels it. Raises `JaatoError`s with secrets redacted."""

        async def main() -> int:
            with cancel_on_signal():
                try:
                    return await work()
                except anyio.get_cancelled_exc_class():
                    print_message("Interrupted.")
                    return INTERRUPTED

        try:
            return anyio.run(main)
        except JaatoError as error:
            error.args = tuple(map(self.secrets.mask_data, error.args))
            raise

    # --- list ----------------------------------------------------------------------------------------------------

    async def list_all(self) -> int:
        """Print all sources with their state, and the errors in the configuration files."""
        directory, args = self.directory, self.args
        failures: dict[str, JaatoError] = {}
        limiter = anyio.CapacityLimiter(MAX_CONCURRENT_CHECKS)

        async def check(config: C) -> None:
            async with limiter:
                try:
                    await self.check(config)
                except JaatoError as error:
                    failures[config.name] = error

        if args.check:
            async with anyio.create_task_group() as tasks:
                for config in directory.sources.values():
                    if not config.disabled and directory.trusts(config):
                        tasks.start_soon(check, config)
        rows = [self.row(one, failures.get(one.name)) for one in directory.sources.values()]
        rows = self.secrets.mask_data(rows)
        if args.json:
            noun = directory.kind.SHORT
            problems = [
                {noun: one.name, "file": str(one.origin), "text": one.text} for one in directory.problems
            ]
            print_json({self.plural: rows, "problems": problems})
        else:
            self._print_rows(rows)
            for problem in directory.problems:
                print_message(str(problem))
        return ERROR if failures or (args.check and directory.problems) else OK

    def _print_rows(self, rows: list[dict[str, Any]]) -> None:
        kind = self.directory.kind
        if not rows:
            print_line(f"No {kind.NOUN} is configured; `jaato {kind.COMMAND} add` adds one.")
            return
        cells = [self.cells(row) for row in rows]
        shown = [["-" if one[key] is None else str(one[key]) for key in self.columns] for one in cells]
        print_rows([list(self.columns.values()), *shown])
        for row in rows:
            for text in self.remarks(row):
                print_message(f"{row['name']}: {text}")

    # --- add, remove ---------------------------------------------------------------------------------------------

    def add(self) -> int:
        """Configure a source; in a workspace's file it is trusted as written."""
        directory, args, name = self.directory, self.args, self.name
        entry = self.entry()
        path, within = directory.file(args.scope)
        self._check_conflict(parse_entry(directory.kind, path, within, name, entry))
        state_dir = directory.context.state_dir
        edit_source(directory.kind, path, within, name, entry, state_dir, replace=args.replace)
        directory.reload()
        config = directory.sources.get(name)
        if config is None or config.scope != args.scope:
            why = next((one.text for one in directory.problems if one.name == name), "another one hides it")
            print_message(f"written to {path}, but {why}")
            return OK
        directory.trust.add(config)
        print_line(
            f"added {name} to {path}; `jaato {config.COMMAND} {self.tools_hint} {name}` lists its tools"
        )
        self.print_added(config)
        for field in plain_secrets(entry):
            print_message(
                f"{field} looks like a secret in plain text, readable in {path}. Write ${{{variable_name(field)}}} instead, "
                "and set that environment variable."
            )
        return OK

    def _check_conflict(self, config: C) -> None:
        """Raise `ConfigError` for a source whose tools could have the names of another one's."""
        others = [
            one
            for one in self.directory.sources.values()
            if (one.name, one.scope) != (config.name, config.scope) and one.scope in ("user", config.scope)
        ]
        other = find_conflict(with_marks(others), config) if self.directory.kind.UNIQUE else None
        if other is not None:
            raise ConfigError(
                f"The tools of {config.name!r} could have names of {other.name!r} in {other.origin}; give it another "
                + ("prefix." if other.name != config.name else "name.")
            )

    def remove(self) -> int:
        """Remove a source from its file, and the data kept for it."""
        directory, name = self.directory, self.name
        config = directory.sources.get(name)
        scope: Scope = self.args.scope or (config.scope if config else self._scope_of_problem())
        path, within = directory.file(scope)
        edit_source(directory.kind, path, within, name, None, directory.context.state_dir)
        if config is not None and config.scope == scope:
            self.forget(config)
            if scope == "workspace":
                directory.trust.remove(config)
        print_line(f"removed {name} from {path}")
        return OK

    def _scope_of_problem(self) -> Scope:
        """The file of an invalid entry. Raises `ConfigError` when there is none of this name."""
        for problem in self.directory.problems:
            if problem.name == self.name:
                return "user" if problem.origin == self.directory.file("user")[0] else "workspace"
        return self.directory.get_configured(self.name).scope

    # --- trust ---------------------------------------------------------------------------------------------------

    def trust(self) -> int:
        """Show what is not accepted yet, ask, and accept exactly that."""
        config, trust = self.find(), self.directory.trust
        is_own = config.scope != "workspace"
        if self.args.revoke:
            trust.remove(config)
            print_line(self._own_text(config) if is_own else f"{config.name} is no longer trusted")
            return OK
        is_new = not trust.holds(config)
        if is_new and not self._trust_entry(config):
            return DENIED
        changes, accept = self.changes(config)
        if changes:
            for headline, diff in changes:
                print_line(f"{config.name}: {headline}")
                print_line(f"{diff}\n")
            these = "this definition" if len(changes) == 1 else f"these {len(changes)} definitions"
            if not self._agrees(f"Accept {these} of {config.name}?"):
                return DENIED
            accept()
            print_line(f"accepted {len(changes)} of {config.name}, as shown; the next change asks again")
        elif not is_new:
            print_line(self._own_text(config) if is_own else f"{config.name}: there is nothing to accept")
        return OK

    def _own_text(self, config: C) -> str:
        """Why a source of the user needs no trust."""
        if config.scope == "argument":
            return f"{config.name} is given on the command line; there is nothing to accept"
        return (
            f"{config.name} is in your own {config.origin}, so it may {self.verb}; there is nothing to accept"
        )

    def _trust_entry(self, config: C) -> bool:
        """Show the configuration of a workspace's source, ask, and trust it. Raises `ConfigError`."""
        directory = self.directory
        seen = directory.trust.content(config)
        print_line(f"{config.name} is configured in {config.origin}, which came with the workspace:")
        print_rows([(f"  {label}", text) for label, text in directory.trust.describe(config)])
        if not self._agrees(f"Let {config.name} {self.verb}, as shown?"):
            return False
        directory.reload()
        directory.trust.add(directory.get_configured(config.name), seen=seen)
        print_line(f"trusted {config.name}; any change of what is shown above asks again")
        return True

    def _agrees(self, question: str) -> bool:
        """Whether the user confirms, by `--yes` or at the terminal."""
        if self.args.yes:
            return True
        answer = confirm_now(question)
        if answer is None:
            print_message(f"{question} There is no terminal to ask on; review it, and pass --yes.")
        return bool(answer)


def plain_secrets(entry: dict[str, Any]) -> list[str]:
    """The variables, headers and tokens of an entry that seem to be secrets in plain text."""
    texts = {"token": entry.get("token", "")} | entry.get("env", {}) | entry.get("headers", {})
    return [
        name
        for name, text in texts.items()
        if SECRET_NAME.search(name) and text and "${" not in text and not text.startswith("keyring:")
    ]


def variable_name(name: str) -> str:
    """A name for the environment variable of a secret."""
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "SECRET"


def parse_pairs(texts: Sequence[str], separator: str, flag: str) -> dict[str, str]:
    """Parse `NAME=VALUE` or `NAME: VALUE` arguments. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for text in texts:
        name, parted, value = (clean_text(text) or "").partition(separator)
        if not parted or not name.strip():
            raise ConfigError(f"{flag} must be NAME{separator}VALUE, not {text[:80]!r}.")
        found[name.strip()] = value.strip() if separator == ":" else value
    return found
