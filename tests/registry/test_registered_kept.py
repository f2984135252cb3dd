"""Registered tools outlive their registry: restarts, sudden death, several servers, broken files, a full disk."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.cli.warm import warm
from tests.registry.registering import Registry, during, put_body, serve, until, webhook

from jaato.settings import environment
from jaato.testing.arp.peer import Served, refuses, result_of
from jaato.tools.filesystem.atomic import TEMPORARY_SUFFIX

HOOK: dict[str, object] = {"type": "webhook", "url": "http://127.0.0.1:9/"}


def folder_of(path: Path) -> Path:
    """Where registered tools are kept."""
    return path / "state" / "registered-tools"


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    """Definitions, their tags and the order of the list are the same after a restart, handlers with their headers too; the
    files are the owner's alone."""
    known: dict[str, str] = {}
    queries = ("/v1/tools", "/v1/tools/say", "/v1/tools/say?version=b", "/v1/tools/two")
    with webhook() as hook:
        handler = {"type": "webhook", "url": hook.url, "headers": {"X-Api-Key": "hush-hush-hush"}}

        def put(one: Registry) -> None:
            for name, version in (("say", "a"), ("two", "1.0.0"), ("say", "b"), ("say", "c"), ("say", "a")):
                assert one.put(name, put_body(handler, version)).status < 300
            assert one.get("say").json["version"] == "c"  # a was put again, as it was
            assert one.put("say", put_body(handler, "a", description="Anew.")).status == 200
            assert one.get("say").json["version"] == "a"
            known.update({query: one.at.send("GET", query).headers["etag"] for query in queries})

        def look(one: Registry) -> None:
            assert {query: one.at.send("GET", query).headers["etag"] for query in queries} == known
            assert result_of(one.at.invoke("say", {"args": {"text": "a"}}), 200)["result"] == {"said": "a"}
            assert hook.seen[-1][0]["x-api-key"] == "hush-hush-hush"
            assert one.delete("two").status == 204

        during(tmp_path, put)
        during(tmp_path, look)
    files = sorted(folder_of(tmp_path).glob("*.json"))
    assert [file.name for file in files] == ["say@a.json", "say@b.json", "say@c.json"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert folder_of(tmp_path).stat().st_mode & 0o777 == 0o700


def test_two_servers_keep_each_others_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two registries at once over the same state lose nothing, let one of two changes win, and learn of each other's."""
    monkeypatch.setattr("jaato.server.registry.registered.registration.LOOK_S", 0.02)

    def body(one: Registry, other: Registry) -> None:
        statuses: list[int] = []

        def many(at: Registry, start: int) -> None:
            for number in range(start, start + 6):
                statuses.append(at.put(f"t{number}", put_body(HOOK), if_none_match="*").status)
                statuses.append(at.put(f"both{number % 6}", put_body(HOOK), if_none_match="*").status)

        threads = [threading.Thread(target=many, args=each) for each in ((one, 0), (other, 10))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [201] * 18 + [412] * 6
        everything = {f"t{n}" for n in (*range(6), *range(10, 16))} | {f"both{n}" for n in range(6)}
        for at in (one, other):
            until(lambda at=at: set(at.names()) == everything | {"echo", "calc", "time_now"})  # type: ignore[misc]
        etag = one.get("t0").headers["etag"]
        assert one.put("t0", put_body(HOOK, description="Anew."), if_match=etag).status == 200
        refuses(
            other.put("t0", put_body(HOOK, description="No."), if_match=etag),
            412,
            "request.precondition_failed",
        )
        assert other.get("t0").json["description"] == "Anew."
        assert other.delete("t1").status == 204
        until(lambda: one.get("t1").status == 404)

    async def main() -> None:
        with anyio.fail_after(30):
            async with serve(tmp_path) as one, serve(tmp_path) as other:
                await anyio.to_thread.run_sync(body, one, other)

    anyio.run(main)


def test_a_broken_file_keeps_out_nothing_but_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is wrong with files, the others are served; each is reported with its path, left where it is, and set aside
    when its tool is put anew."""

    def put(one: Registry) -> None:
        for name in ("good", "bad", "moved"):
            assert one.put(name, put_body(HOOK)).status == 201

    during(tmp_path, put)
    folder = folder_of(tmp_path)
    whole = json.loads((folder / "good@1.0.0.json").read_bytes())
    (folder / "bad@1.0.0.json").write_bytes(b'{"format": 1, "name": "bad"')
    (folder / "moved@1.0.0.json").rename(folder / "elsewhere@1.0.0.json")
    (folder / "newer@1.0.0.json").write_text(json.dumps({**whole, "name": "newer", "format": 2}))
    (folder / "link@1.0.0.json").symlink_to(folder / "good@1.0.0.json")
    (folder / "echo@1.0.0.json").write_text(json.dumps({**whole, "name": "echo"}))
    (folder / "folder@1.0.0.json").mkdir()
    (folder / "large@1.0.0.json").write_bytes(b" " * 4_000_001)
    (folder / "notes.txt").write_text("mine")

    def look(one: Registry) -> None:
        assert one.names() == ["echo", "calc", "time_now", "good"]
        assert one.get("echo").json["source"]["domain"] != "registered"
        refuses(one.delete("bad"), 404, "tool.not_found")
        assert one.put("bad", put_body(HOOK), if_none_match="*").status == 201
        refuses(one.put("folder", put_body(HOOK)), 507, "registry.not_kept")
        assert one.names()[-2:] == ["good", "bad"]

    with caplog.at_level(logging.WARNING):
        during(tmp_path, look)
    for name in ("bad", "elsewhere", "newer", "link", "echo", "folder", "large"):
        assert any(f"{name}@1.0.0.json is left out: " in message for message in caplog.messages), name
    aside = list(folder.glob("bad@1.0.0.json.*.broken"))
    assert [one.read_bytes() for one in aside] == [b'{"format": 1, "name": "bad"']
    assert (folder / "newer@1.0.0.json").exists()


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """What cannot be kept is refused as such, and everything stays as it was; deleting still makes room."""
    folder = folder_of(tmp_path)
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    large = {"type": "object", "description": "x" * 200_000}

    def body(one: Registry) -> None:
        statuses = [one.put(f"t{n}", put_body(HOOK, parameters=large)).status for n in range(6)]
        kept = statuses.index(507)
        assert statuses[:kept] == [201] * kept
        before = (one.names(), one.get("t0").headers["etag"])
        for name in ("t0", "new"):
            reply = one.put(name, put_body(HOOK, parameters=large, tags=["x"]))
            refuses(reply, 507, "registry.not_kept")
            assert reply.json["error"]["retryable"]
        assert (one.names(), one.get("t0").headers["etag"]) == before
        assert len(list(folder.iterdir())) == kept + 1  # and the lock
        assert one.delete("t0").status == 204
        assert one.put("t0", put_body(HOOK)).status == 201

    try:
        during(tmp_path, body)
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_killed_registry_has_what_it_said_it_had(tmp_path: Path) -> None:
    """After SIGKILL in the middle of changes every change that was answered is there, and no remains are left after the next."""
    environ = {**environment(), "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "xdg")}
    environ["JAATO_ALLOW_HOSTS"] = "127.0.0.1"
    words = ["registry", "serve", "--port", "0", "--token", "--workspace", str(tmp_path)]
    said: dict[str, str] = {}
    with warm().start(words, cwd=tmp_path, env=environ, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        where, _, token_file = process.stderr.readline().decode().strip().partition("; the token is in ")
        at = Served(where.partition(" at ")[2], token=Path(token_file).read_text().strip())
        begun = threading.Event()

        def put() -> None:
            number = 0
            while True:
                number += 1
                try:
                    reply = at.send(
                        "PUT", f"/v1/tools/t{number % 7}", put_body(HOOK, description=f"Number {number}.")
                    )
                except OSError:
                    return
                assert reply.status in (200, 201)
                said[f"t{number % 7}"] = reply.json["description"]
                if number == 20:
                    begun.set()

        thread = threading.Thread(target=put)
        thread.start()
        assert begun.wait(60)
        process.send_signal(signal.SIGKILL)
        thread.join()
    folder = tmp_path / "xdg" / "jaato" / "registered-tools"
    (folder / f".0123456789abcdef{TEMPORARY_SUFFIX}").write_bytes(b"{")  # as one that was being written

    def look(one: Registry) -> None:
        for name, words in said.items():
            found = one.get(name).json["description"]
            assert int(found.split()[1][:-1]) - int(words.split()[1][:-1]) in (
                0,
                7,
            )  # the last may not have been answered
        assert one.put("t0", put_body(HOOK)).status == 200

    (tmp_path / "state").symlink_to(tmp_path / "xdg" / "jaato")
    during(tmp_path, look)
    assert [one for one in os.listdir(folder) if one.startswith(".")] == [".lock"]
