"""What is wrong in the file of tokens lets nobody in, and ends nothing."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from tests.security.auth_server import Keep, awaited, status


def test_a_broken_file_of_tokens_lets_nobody_in_by_it(tmp_path: Path) -> None:
    """Readable by others, no JSON, or with a token that has no hash, which would let in whoever has none: its tokens no
    longer count, the owner's does, and the log says why."""
    keep = Keep(tmp_path, "--web-socket", ":0")
    guests = ExitStack()
    try:
        assert status(keep.ask(keep.head(token=keep.tokens["viewer"]))) == 200
        tokens = keep.state / "tokens.json"
        good = tokens.read_bytes()
        entry = b'{"version":1,"tokens":[{"name":"odd","role":"owner","created":0,"sha256":"%s"}]}'
        broken = [b"{", b"x" * 2_000_000, entry % b"", entry % "\xe9".encode(), entry % b"\xff"]
        watching = guests.enter_context(keep.client(keep.tokens["owner"]))
        for content, mode in [(good, 0o644)] + [(one, 0o600) for one in broken]:
            tokens.write_bytes(content)
            tokens.chmod(mode)
            awaited(
                lambda: (
                    status(keep.ask(keep.head(token=keep.tokens["viewer"]), who=os.getpid() % 250))
                    in (401, 429)
                )
            )
            assert status(keep.ask(keep.head(token=keep.tokens["owner"]))) == 200
            for nothing in ("", "x" * 600):
                assert status(keep.ask(keep.head(token=nothing), who=77)) in (401, 429)
        assert "result" in watching.command("session.list"), "who is there is looked at all the while"
        tokens.write_bytes(good)
        tokens.chmod(0o600)
        awaited(lambda: status(keep.ask(keep.head(token=keep.tokens["viewer"]))) == 200)
    finally:
        guests.close()
        code, said = keep.stop()
    assert code == 0
    assert "Only the owner's token is accepted" in said
