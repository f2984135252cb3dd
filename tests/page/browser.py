"""Chromium and a server for the tests of the page; whatever the browser complains about fails the test."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ports import unused_port

from jaato.settings import environment

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or ""
WAIT_MS = 15_000
USAGE = {"input_tokens": 1_200, "output_tokens": 80, "cached_input_tokens": 900}
VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def need_chromium() -> Any:
    """Playwright's synchronous interface; skips the test where it or Chromium is missing."""
    if not CHROMIUM:
        pytest.skip("Chromium is not installed (Debian's package chromium)")
    return pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")


class Desk:
    """A server in a process, with the scripts of its agents."""

    pause_s = 0.02
    """After each piece of text, a readable pace."""

    def __init__(self, root: Path, **scripts: list[dict[str, Any]]) -> None:
        self.home = root
        self.work = root / "dates"
        self.work.mkdir(parents=True)
        steps = {
            name: [
                {"usage": USAGE, "chunks": max(1, len(step.get("text", "")) // 12), **step} for step in script
            ]
            for name, script in scripts.items()
        }
        self.script = root / "script.json"
        self.script.write_text(json.dumps(steps))
        self.port = unused_port()
        self.start()

    @property
    def origin(self) -> str:
        """Where the page is."""
        scheme = "https" if (self.home / "server.pem").exists() else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serve at the same address as before."""
        words = [
            sys.executable,
            "-m",
            "tests.page.serve_page",
            str(self.home),
            str(self.port),
            str(self.script),
            str(self.pause_s),
        ]
        self.process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """As by the kernel, when memory runs out."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        """End it, also where a test that has failed left it stopped."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.communicate()

    def link(self, role: str = "owner") -> str:
        """A link for one browser."""
        words = [sys.executable, "-m", "jaato", "web", "--no-open", "--role", role, "--ipc-socket"]
        environ = {"HOME": str(self.home), "PATH": environment()["PATH"], "PYTHONPATH": str(ROOT / "src")}
        made = subprocess.run(
            [*words, str(self.home / "run/jaato.sock")],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return made.stdout.strip()


@contextmanager
def desk(root: Path, **scripts: list[dict[str, Any]]) -> Iterator[Desk]:
    """A server that is ended with the body."""
    made = Desk(root, **scripts)
    try:
        yield made
    finally:
        made.stop()


class Watched:
    """A page of the browser, and what it has asked for and complained about."""

    def __init__(self, context: Any, origin: str) -> None:
        self.origin = origin
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context.add_init_script(VIOLATIONS)
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.offline_is_expected = False
        self.page.on("console", self.read_console)
        self.page.on("pageerror", lambda error: self.complain(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def read_console(self, said: Any) -> None:
        """Read a line of the console."""
        if said.type in ("error", "warning"):
            self.complain(said.text)

    def complain(self, text: str) -> None:
        """Remember a complaint; a lost server is one only where it is not what the test is about."""
        lost = ("ERR_CONNECTION", "closed before the connection is established")
        if not (self.offline_is_expected and any(words in text for words in lost)):
            self.complaints.append(text)

    def check(self) -> None:
        """No error, no warning, no violation of the policy, no request to anywhere else."""
        found = self.page.evaluate("window.violations")
        local = (self.origin, self.origin.replace("http", "ws", 1), "blob:" + self.origin, "data:")
        outside = [url for url in self.requests if not url.startswith(local)]
        assert (self.complaints, found, outside) == ([], [], [])

    def open(self, desk: Desk, role: str = "owner") -> None:
        """Pair, and wait for the page."""
        self.page.goto(desk.link(role))
        self.page.get_by_role("navigation", name="Sessions").wait_for()

    def begin(self, desk: Desk, **fields: str) -> None:
        """Create a session in the page."""
        page = self.page
        before = page.evaluate("location.hash")
        page.get_by_role("button", name="New", exact=True).click()
        page.get_by_label("Directory on the server").fill(str(desk.work))
        if "name" in fields:
            page.get_by_label("Name").fill(fields["name"])
        if "mode" in fields:
            page.get_by_label("Without a question").select_option(fields["mode"])
        page.get_by_role("button", name="Create", exact=True).click()
        page.wait_for_function("(before) => location.hash !== before", arg=before)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.get_by_text("Send a message to begin.").wait_for()

    def see(self, text: str) -> None:
        """Wait for a text in the conversation."""
        self.page.get_by_role("log").get_by_text(text).first.wait_for()

    def send(self, text: str) -> None:
        """Write a message and press Enter; on a phone, where Enter begins a line, the button."""
        field = self.page.get_by_label("Message", exact=True)
        field.fill(text)
        if self.page.evaluate("matchMedia('(pointer: coarse)').matches"):
            self.page.locator(".composer .primary").click()
        else:
            field.press("Enter")


@contextmanager
def watched(desk: Desk, arguments: Sequence[str] = (), **context: Any) -> Iterator[Watched]:
    """A page in a browser of its own, started with these `arguments`, checked at the end."""
    api = need_chromium()
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *arguments])
        made = Watched(
            browser.new_context(**{"viewport": {"width": 1_280, "height": 800}, **context}), desk.origin
        )
        try:
            yield made
            made.check()
        except BaseException:
            made.page.screenshot(path=str(desk.home / "failed.png"))
            raise
        finally:
            browser.close()
