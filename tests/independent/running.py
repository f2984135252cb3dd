"""Run the command as a user does, with each dialect, and read the events it prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.warm import ROOT, warm

SOURCES = f"{ROOT / 'src'}:{ROOT}"
PATIENCE_S = 60.0
KEY = "sk-test-0123456789"
VARIABLES = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "google_genai": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}


class Dialect(NamedTuple):
    """One way to speak to the server; `proxied` is reached as the vendor's own host, through a proxy on loopback."""

    name: str
    provider: str
    model: str
    path: str
    proxied: str = ""
    flagged: bool = True

    def by_variable(self) -> Dialect:
        """The same, with the base URL in the vendor's variable instead of a flag."""
        return self._replace(flagged=False)

    def base_url(self, url: str) -> str:
        """Where the provider is on the server; OpenAI's base URL holds the version."""
        return self.proxied or (f"{url}/v1" if self.provider == "openai" else url)

    def environ(self, url: str) -> dict[str, str]:
        """The variables that lead here and nowhere else."""
        key, base = VARIABLES[self.provider]
        found = {key: KEY} | ({"HTTP_PROXY": url} if self.proxied else {})
        return found if self.flagged else found | {base: self.base_url(url)}

    def flags(self, url: str) -> list[str]:
        """The flags that lead here."""
        words = ["--provider", self.provider, "--model", self.model]
        return [*words, "--base-url", self.base_url(url)] if self.flagged else words


CHAT = Dialect("chat", "openai", "gpt-5-mini", "/v1/chat/completions")
RESPONSES = Dialect("responses", "openai", "gpt-5.5", "/v1/responses", "http://api.openai.com/v1")
ANTHROPIC = Dialect("anthropic", "anthropic", "claude-sonnet-5", "/v1/messages")
GEMINI = Dialect(
    "gemini", "google_genai", "gemini-3-flash", "/v1beta/models/gemini-3-flash:streamGenerateContent"
)
DIALECTS = (CHAT, RESPONSES, ANTHROPIC, GEMINI)


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """What `--output events` printed."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event["type"] in kinds]

    def said(self, source: str = "model") -> list[str]:
        """The pieces of text as they came."""
        return [event["text"] for event in self.of("agent.output") if event["source"] == source]


class Desk:
    """A home and a workspace of their own, where the command is run."""

    def __init__(self, folder: Path, url: str, path: str) -> None:
        self.home, self.workspace = folder / "home", folder / "work"
        self.home.mkdir()
        self.workspace.mkdir()
        self._url, self._path = url, path

    def run(self, dialect: Dialect, prompt: str, *flags: str, output: str = "events") -> Outcome:
        """`jaato run` with a dialect to its end, everything allowed; stdin is empty."""
        words = ["run", "--yes", "--workspace", str(self.workspace), "--output", output]
        environ = {"PATH": self._path, "HOME": str(self.home), "PYTHONPATH": SOURCES}
        done = warm().run(
            [*words, *dialect.flags(self._url), *flags, prompt],
            data=None,
            cwd=self.home,
            env=environ | dialect.environ(self._url),
            timeout_s=PATIENCE_S,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run_all(
        self,
        prompt: str,
        dialects: Iterable[Dialect] = DIALECTS,
        *,
        flags: tuple[str, ...] = (),
        output: str = "events",
    ) -> dict[str, Outcome]:
        """The same with several dialects at once, by the dialect's name."""
        with ThreadPoolExecutor() as threads:
            going = [
                (dialect.name, threads.submit(self.run, dialect, prompt, *flags, output=output))
                for dialect in dialects
            ]
            return {name: outcome.result() for name, outcome in going}
