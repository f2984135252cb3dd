"""`jaato registry key` and `log`, and a registry in a process of its own that hears of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.warm import warm
from tests.registry.registering import Registry, during, put_body
from tests.registry.test_keys import refused

from jaato.settings import environment
from jaato.testing.arp.peer import Served, fails


def cli(env: dict[str, str], *words: str, status: int = 0) -> str:
    """What a command prints."""
    done = warm().run(["registry", *words], data=None, cwd=Path(env["HOME"]), env=env, timeout_s=60)
    assert done.returncode == status, done.stderr.decode()
    return done.stdout.decode()


@contextmanager
def process(env: dict[str, str], home: Path, *flags: str) -> Iterator[Served]:
    """A registry that serves `core`, if nothing else is said, as a program of its own."""
    words = ["registry", "serve", "--port", "0", "--workspace", str(home), "--log", str(home / "log"), *flags]
    with warm().start(words, cwd=home, env=env, stderr=subprocess.PIPE) as running:
        try:
            assert running.stderr is not None
            line = running.stderr.readline().decode()
            yield Served("http://127.0.0.1:" + line.rpartition(":")[2].split(";")[0].strip())
        finally:
            running.terminate()
            running.wait(60)


def test_the_first_key_closes_the_door(tmp_path: Path, desk_env: dict[str, str]) -> None:
    """A registry that lets anyone in lets in only keys from when the first is made, and stays closed when the last has gone."""
    with process(desk_env, tmp_path) as at:
        assert at.send("GET", "/v1/tools").status == 200
        key = cli(
            desk_env, "key", "add", "ci", "--tools", "echo", "--expires", "30d", "--rate", "9/s"
        ).strip()
        while at.send("GET", "/v1/tools").status == 200:
            threading.Event().wait(0.02)
        mine = replace(at, token=key)
        assert [tool["name"] for tool in mine.send("GET", "/v1/tools").json] == ["echo"]
        row = json.loads(cli(desk_env, "key", "list", "--json"))[0]
        assert (row["name"], row["tools"], row["rate"]) == ("ci", ["echo"], "9/s")
        assert row["scopes"] == ["tools:read", "tools:invoke"]
        assert mine.invoke("echo", {"args": {"text": "x"}}, x_request_id="made-1").status == 200
        call = json.loads(cli(desk_env, "log", "--key", "ci", "--json"))
        assert (call["request_id"], call["outcome"]) == ("made-1", "ok")
        for option in ("--tools", "--scope"):
            for nothing in ("", " , "):
                cli(desk_env, "key", "add", "unset", option, nothing, status=2)
        assert len(json.loads(cli(desk_env, "key", "list", "--json"))) == 1
        cli(desk_env, "key", "remove", "ci")
        refused(mine.send("GET", "/v1/tools", x_request_id="gone-1"), 401, "auth.required")
        refused(at.send("GET", "/v1/tools"), 401, "auth.required")
    told = (tmp_path / "log").read_text()
    assert "Request gone-1 from 127.0.0.1: 401 for GET '/v1/tools'" in told
    assert key not in told
    cli(desk_env, "key", "remove", "ci", status=2)


def test_tools_that_were_put_are_for_who_has_a_key(tmp_path: Path, desk_env: dict[str, str]) -> None:
    """A registry that lets anyone in has what its operator has named: with a tool that somebody put there, by way of another
    registry too, it asks for a key, and says where the token is when it begins."""
    hook = {"type": "webhook", "url": "http://127.0.0.1:9/", "headers": {"X-Api-Key": "hush-hush-hush"}}

    def put(one: Registry) -> None:
        assert one.put("say", put_body(hook)).status == 201

    (tmp_path / "other").mkdir()
    during(tmp_path / "other", put)
    with process(desk_env, tmp_path) as at:
        assert at.send("GET", "/v1/tools").status == 200
        shutil.copytree(tmp_path / "other/state/registered-tools", tmp_path / "s/jaato/registered-tools")
        while at.send("GET", "/v1/tools").status == 200:
            threading.Event().wait(0.05)
        fails(at.invoke("say", {"args": {"text": "x"}}), 401, "auth.required")
    with process(desk_env, tmp_path, "--domains", ",") as at:  # they are enough to serve
        fails(at.invoke("say", {"args": {"text": "x"}}), 401, "auth.required")
        mine = replace(at, token=(tmp_path / "s/jaato/registry-token").read_text().strip())
        assert [tool["name"] for tool in mine.send("GET", "/v1/tools").json] == ["say"]
        assert mine.send("DELETE", "/v1/tools/say").status == 204
    reaching = {**desk_env, "JAATO_ALLOW_HOSTS": "127.0.0.1"}
    with process(reaching, tmp_path, "--domains", ",", "--token") as at:
        mine = replace(at, token=mine.token)
        assert mine.send("GET", "/v1/tools").json == []
        assert mine.send("PUT", "/v1/tools/say", put_body(hook)).status == 201


@pytest.fixture
def desk_env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has nothing yet."""
    path = {name: value for name, value in environment().items() if name in ("PATH", "PYTHONPATH")}
    return {**path, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "s")}
