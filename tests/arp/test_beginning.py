"""A registry that serves tools of others on, as it begins."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.arp.using import configure
from tests.cli.warm import warm
from tests.ports import unused_port

from jaato.settings import environment


def test_one_that_serves_itself_on_begins_at_once(tmp_path: Path) -> None:
    """A registry that is asked by one of those it asks while it begins answers then: nobody waits for another's beginning."""
    port = str(unused_port())
    configure(tmp_path, itself=f"http://127.0.0.1:{port}")
    words = ["registry", "serve", "--port", port, "--plugins", "arp", "--yes", "--workspace", str(tmp_path)]
    environ = {**environment(), "HOME": str(tmp_path)}
    with warm().start(words, cwd=tmp_path, env=environ, stderr=subprocess.PIPE) as it:
        assert it.stderr is not None
        told: list[bytes] = []
        try:
            while not told or b"serving" not in told[-1]:
                told.append(it.stderr.readline())
                assert told[-1], told
        finally:
            it.terminate()
            it.stderr.read()
    assert b"did not answer" not in b"".join(told)
    assert b"401" in b"".join(told)
