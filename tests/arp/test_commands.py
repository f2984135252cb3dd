"""`jaato registry`: registries configured, trusted, listed and used from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.arp.serving import Refused, body, definition, done, failure, shop, streamed
from tests.arp.using import configure
from tests.cli.environment import CliEnvironment

Run = Callable[..., "Done"]
ANSWER = json.dumps(done(7)).encode()
TOKEN = "t0ken-of-the-user"


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command on a user's machine of its own."""
    desk = CliEnvironment(tmp_path)

    def made(*words: str, **environ: str) -> Done:
        ended = desk.run("registry", *words, environ=environ)
        return Done(ended.returncode, ended.stdout, ended.stderr)

    return made


def test_nothing_is_configured(run: Run) -> None:
    """Without a registry the list says how to add one; every other command names what is missing."""
    assert "jaato registry add" in run("list").out
    assert json.loads(run("list", "--json").out) == {"registries": [], "problems": []}
    for words in (["list", "x"], ["get", "x", "y"], ["invoke", "x", "y"], ["remove", "x"], ["trust", "x"]):
        made = run(*words)
        assert made.code == 2, words
        assert "no registry 'x'" in made.err


def test_by_its_address(run: Run, tmp_path: Path) -> None:
    """A registry that is only named on the command line is listed, described and called; nothing of it is kept."""
    with shop(definition("echo", "Say it again.", source={"by": "\u202eus\x9b"})) as it:
        assert run("list", it.url).out.split() == ["echo", "Say", "it", "again."]
        assert json.loads(run("list", it.url, "--json").out) == [
            {"name": "echo", "description": "Say it again."}
        ]
        got = run("get", f"{it.url}/", "echo")
        assert json.loads(got.out) == it.tools["echo"]
        assert "\\u202eus\\u009b" in got.out  # nothing steers a terminal
        made = run("invoke", f"{it.url}/v1/tools", "echo", '{"text": "é"}', "--token", "abc")
        assert (made.code, json.loads(made.out)) == (0, {"tool": "echo", "text": "é"})
        assert it.asked("POST")[0].headers["authorization"] == "Bearer abc"
        assert run("invoke", it.url, "echo", "{}").code == 2
        assert not it.asked("POST")[1:]
        said = b'{"type":"output","text":"at work\\n"}\n', b'{"type":"result","result":%b}' % ANSWER
        it.lies["POST"] = streamed("application/x-ndjson", *said)
        made = run("invoke", it.url, "echo", '{"text": "x"}', "--stream")
        assert (made.code, made.out, made.err) == (0, "7\n", "at work\n")
        assert run("get", it.url, "nothing").code == 1
        asked = len(it.seen)
        for words in (("get", it.url, ".."), ("invoke", it.url, "", "{}")):
            assert run(*words).code == 2  # what its path would lead to is no tool
        assert len(it.seen) == asked
        it.lies["POST"] = body({})
        assert "`schema_version`. Whether" in run("invoke", it.url, "echo", '{"text": "x"}').err
        it.lies["GET"] = body({}, "401 Unauthorized")
        refused = run("list", it.url)
        assert (refused.code, "--token" in refused.err) == (1, True)
    assert run("list", it.url).code == 1
    odd = run("list", "ftp://x")
    assert (odd.code, odd.err.endswith("https://host/path.\n")) == (2, True)
    bare = run("list", it.url.removeprefix("http://"))
    assert (bare.code, f"by its URL ({it.url})" in bare.err) == (2, True)
    assert not (tmp_path / "home/.cache" / "jaato" / "registries").exists()


def test_a_key_that_is_said_again_is_not_shown(run: Run, tmp_path: Path) -> None:
    """What a registry says of the key it was asked with is masked: in a list, a definition, its change, a result, an error, in
    pieces of a stream; so is that of a registry that is configured."""
    key = ("--token", TOKEN)
    said = {"you sent": f"Bearer {TOKEN}", TOKEN: 1}
    wrong = failure("tool.execution_error", f"not with {TOKEN}", result=True)
    half = len(TOKEN) // 2
    pieces = [
        b'{"type":"output","text":"with %b"}\n' % part
        for part in (TOKEN[:half].encode(), TOKEN[half:].encode() + b" ")
    ]
    pieces[1] = pieces[1].replace(b"with ", b"")
    with shop(definition("echo", f"Knows {TOKEN}.")) as it:
        given = {"registries": {"it": {"url": it.url, "token": TOKEN}}}
        (tmp_path / "home/.config/jaato").mkdir(parents=True)
        (tmp_path / "home/.config/jaato/registries.json").write_text(json.dumps(given))
        shown = [run("list", it.url, *key), run("get", it.url, "echo", *key)]
        it.lies["POST"] = body(done(said))
        call = ("invoke", it.url, "echo", '{"text": "x"}', *key)
        shown += [run(*call, "--json"), run("invoke", "it", "echo", '{"text": "x"}')]
        it.lies["POST"] = body(wrong, "500 X")
        shown.append(run(*call))
        it.lies["POST"] = streamed("application/x-ndjson", *pieces, b'{"type":"result","result":%b}' % ANSWER)
        shown.append(run(*call, "--stream"))
        it.lies["GET"] = body(failure("x.y", f"not {TOKEN}", result=False), "400 No")
        shown.append(run("get", it.url, "echo", *key))
        assert {one.headers["authorization"] for one in it.seen} == {f"Bearer {TOKEN}"}
        it.lies.clear()
        it.tools["echo"] = definition("echo", f"Knows {TOKEN} no more.")
        run("get", "it", "echo")
        shown.append(run("trust", "it"))
        assert "no more" in shown[-1].out
    for one in shown:
        assert TOKEN not in one.out + one.err, one
        assert "[masked:Authorization:" in one.out + one.err, one


@pytest.mark.spec("C10", "Environment variables and files")
def test_add_list_use_remove(run: Run, tmp_path: Path) -> None:
    """A registry is added, its token filled in from the environment, listed, used, and gone once it is removed."""

    def fails(_name: str, _args: Any) -> Any:
        raise Refused("It cannot be done.")

    with shop(definition("broken"), run=fails) as it:
        made = run("add", "far", it.url, "--token", "${FAR_TOKEN}", "--header", "X-Team: ${TEAM:-blue}")
        assert made.code == 0, made.err
        file = tmp_path / "home/.config/jaato/registries.json"
        assert file.stat().st_mode & 0o777 == 0o600
        assert run("add", "far", it.url).code == 2
        missing = run("list", "far")
        assert (missing.code, "needs the variable FAR_TOKEN" in missing.err) == (2, True)
        assert run("list", "far", FAR_TOKEN=TOKEN).out.startswith("broken")
        assert it.seen[-1].headers["authorization"] == f"Bearer {TOKEN}"
        assert it.seen[-1].headers["x-team"] == "blue"
        [row] = json.loads(run("list", "--json").out)["registries"]
        assert (row["name"], row["scope"], row["state"], row["tools"]) == ("far", "user", "known", 1)
        failed = run("invoke", "far", "broken", '{"text": "x"}', FAR_TOKEN=TOKEN)
        assert (failed.code, "It cannot be done." in failed.err) == (1, True)
    offline = run("list", "far", FAR_TOKEN=TOKEN)
    assert (offline.code, offline.out.split()[0]) == (1, "broken")
    assert "cannot be reached" in run("list", "--check", FAR_TOKEN=TOKEN).err
    assert run("remove", "far").code == 0
    assert json.loads(file.read_text()) == {"registries": {}}
    assert not list((tmp_path / "home/.cache/jaato/registries").iterdir())


def test_a_workspaces_registry_needs_trust(run: Run, tmp_path: Path) -> None:
    """A workspace's registry is asked only once a person has trusted it as it is; any change asks again."""
    with shop(definition("echo")) as it:
        configure(tmp_path, "workspace", near={"url": it.url, "token": "${HOME}"})
        listed = run("list", "--check")
        assert "needs trust" in listed.out
        assert "jaato registry trust near" in listed.err
        assert run("list", "near").code == 4
        assert run("trust", "near").code == 4
        shown = run("trust", "near", "--yes")
        assert it.url in shown.out
        assert "from your environment: HOME" in shown.out
        configure(tmp_path, "workspace", plain={"url": "http://tools.example.com"})
        assert "plain http" in run("trust", "plain").out
        configure(tmp_path, "workspace", near={"url": it.url, "token": "${HOME}"})
        assert not it.seen
        private = run("list", "near")
        assert (private.code, "allow_hosts" in private.err) == (2, True)
        configure(tmp_path, "workspace", near={"url": it.url, "token": "${PATH}"})
        assert run("list", "near").code == 4
        assert run("trust", "near", "--yes", "--revoke").code == 0
        assert not it.seen


def test_writes_nothing_that_is_wrong(run: Run, tmp_path: Path) -> None:
    """What cannot be used is not written, and a file that cannot be read is left as it is."""
    for words in (
        ["add", "a", "nowhere"],
        ["add", "mcp", "https://x.example"],
        ["add", " ", "https://x.example"],
        ["add", "https://x", "https://x.example"],
        ["add", "a", "https://x.example", "--prefix", "so long a prefix as nobody wants"],
        ["add", "a", "https://x.example", "--timeout", "-1"],
        ["add", "a", "https://x.example", "--header", "Host: y"],
        ["add", "a", "https://u:p@x.example"],
        ["list", ""],
        ["list", "--token", "t"],
    ):
        assert run(*words).code == 2, words
    file = configure(tmp_path / "home", w="https://x.example")
    before = file.read_bytes()
    for words in (
        ["add", "q", "https://y.example", "--prefix", "W"],
        ["add", "w", "https://y.example", "--scope", "workspace"],
    ):
        made = run(*words)
        assert (made.code, "could have names of 'w'" in made.err) == (2, True), words
    assert file.read_bytes() == before
    assert not (tmp_path / "work/.jaato/registries.json").exists()
    assert run("add", "w", "https://y.example", "--replace").code == 0
    file.write_text('{"registries": {"a": {}, "a": {}}}')
    assert run("add", "b", "https://x.example").code == 2
    assert file.read_text() == '{"registries": {"a": {}, "a": {}}}'
