"""What masking leaves alone, in events and files, and what is logged."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from tests.secrets.canaries import VALUE

from jaato.agent.event_redaction import STRUCTURAL, free_fields, redact_file
from jaato.log import MASKED, logger
from jaato.protocol.events import Event
from jaato.protocol.messages import Opaque, Text, Thinking
from jaato.tools.redaction.redactor import Redactor


def test_files_keep_their_bytes(tmp_path: Path) -> None:
    """Binary files and those without a secret go on as they are; bytes that are no UTF-8 survive beside a secret."""
    secrets = Redactor({"T": VALUE})
    samples = {
        b"\0PNG" + VALUE.encode(): False,
        b"plain \xff text": False,
        b"\xff\xfe \xc3" + VALUE.encode() + b"\xe2\x82": True,
    }
    for number, (data, changed) in enumerate(samples.items()):
        path = tmp_path / f"f{number}"
        path.write_bytes(data)
        with redact_file(path, secrets) as shown:
            assert (shown != path) == changed
            assert shown.read_bytes() == data if not changed else VALUE.encode() not in shown.read_bytes()
            if changed:
                assert shown.read_bytes().startswith(b"\xff\xfe \xc3[masked:T:")
                assert shown.read_bytes().endswith(b"]\xe2\x82")
        assert path.read_bytes() == data
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f0", "f1", "f2"]


def test_what_identifies_is_never_masked() -> None:
    """Fields that name, order or steer, a provider's own bytes and thoughts it has signed stay as they are."""
    for kind in get_args(Event):
        assert not STRUCTURAL & set(free_fields(kind))
        assert {"session_id", "seq", "timestamp"}.isdisjoint(free_fields(kind))
    from jaato.agent.event_redaction import redact_struct

    signed = Thinking(VALUE, Opaque("anthropic", msgspec.Raw(b'"sig"')))
    secrets = Redactor({"T": VALUE})
    assert redact_struct(signed, secrets) is signed
    assert redact_struct(Thinking(VALUE), secrets).text.startswith("[masked:T:")
    kept = Text("clean words of some length")
    assert redact_struct(kept, secrets) is kept


def test_logs_have_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    """What jaato logs is masked, arguments and traceback included, while the secrets are known."""
    secrets = Redactor({"T": VALUE})
    MASKED.learn(secrets.mask)
    log = logger("test.masking")
    with caplog.at_level(logging.INFO, "jaato"):
        try:
            raise ValueError(f"no {VALUE}")
        except ValueError:
            log.exception("failed with %s", VALUE)
        log.info("plain %d", 5)
    assert VALUE not in caplog.text
    assert "[masked:T:" in caplog.text
    assert "plain 5" in caplog.text
