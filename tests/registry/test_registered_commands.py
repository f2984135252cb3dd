"""`jaato registry put` and `delete`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from tests.registry.registering import TOKEN, Registry, put_body, serve, webhook

from jaato.cli.arguments.parser import make_parser
from jaato.cli.exit_codes import run_command
from jaato.testing.arp.peer import result_of

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry that serves in a thread."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serve(tmp_path)) as one:
        yield one


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command for a user of its own."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user"))

    def made(*words: str) -> tuple[int, str, str]:
        code = run_command(make_parser().parse_args(["registry", *words, "--workspace", str(tmp_path)]))
        said = capsys.readouterr()
        return code, said.out, said.err

    return made


def test_a_tool_is_put_replaced_and_deleted(
    registry: Registry, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A definition from a file or stdin is put with a handler, under conditions, and deleted; every refusal is said."""
    file = tmp_path / "say.json"
    file.write_text(json.dumps(put_body(None)))
    at = (registry.at.url, "say")
    key = ("--token", TOKEN)
    with webhook() as hook:
        made = run(
            "put",
            *at,
            str(file),
            "--webhook",
            hook.url,
            "--header",
            "X-A: b",
            "--timeout",
            "5",
            "--create",
            *key,
        )
        etag = registry.get("say").headers["etag"]
        assert made == (0, f"created say 1.0.0, ETag {etag}\n", "")
        assert result_of(registry.at.invoke("say", {"args": {"text": "a"}}), 200)["result"] == {"said": "a"}
        assert hook.seen[0][0]["x-a"] == "b"
        monkeypatch.setattr(
            "sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(put_body(None, tags=["t"])).encode()))
        )
        code, out, _ = run("put", *at, "-", "--if-match", etag.strip('"'), "--json", *key)
        assert (code, json.loads(out)) == (0, registry.get("say").json)
    for code, words, said in (
        (1, ("put", *at, str(file), "--create", *key), "(request.precondition_failed)"),
        (1, ("put", *at, str(file), "--if-match", etag, *key), "(request.precondition_failed)"),
        (4, ("put", *at, str(file)), "(auth.required)"),
        (4, ("put", *at, str(file), "--entry-point", "os:system", *key), "(tool.handler_forbidden)"),
        (4, ("put", *at, str(file), "--mcp", "server/tool", *key), "(tool.handler_forbidden)"),
        (2, ("put", at[0], "echo", str(file), *key), "(tool.fixed)"),
        (2, ("put", at[0], "new", str(file), *key), "/handler is missing"),
        (2, ("put", *at, str(file), "--mcp", "server", *key), "SERVER/TOOL"),
        (2, ("put", *at, str(file), "--timeout", "5", *key), "need a handler"),
        (2, ("put", *at, str(tmp_path / "none"), *key), "cannot be read"),
        (2, ("put", *at, __file__, *key), "must be a JSON object"),
        (1, ("delete", *at, "--version", "9", *key), "(tool.not_found)"),
        (1, ("delete", *at, "--if-match", etag, *key), "(request.precondition_failed)"),
    ):
        made = run(*words)
        assert (made[0], said in made[2]) == (code, True), (words, made)
    assert run("delete", *at, "--version", "1.0.0", *key) == (0, "deleted say 1.0.0\n", "")
    assert registry.get("say").status == 404
