"""Where spans are exported to: the settings, OpenTelemetry's variables, and what is malformed in either."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaato.errors import ConfigError
from jaato.runtime.tracing.config import TracingConfig, read_config
from jaato.runtime.tracing.tracer import tracer_for
from jaato.settings import load
from jaato.tools.redaction.redactor import Redactor

WORK = Path("/somewhere")


def configured(tmp_path: Path, **variables: str) -> TracingConfig:
    """The configuration under these variables."""
    return read_config(load(environ={"HOME": str(tmp_path), **variables}), WORK)


def test_nothing_is_traced_by_itself(tmp_path: Path) -> None:
    """Without a setting and a variable there is no tracer, and none where a variable switches it off."""
    for variables in (
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "TRUE"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "JAATO_TRACE_ENDPOINT": "off"},
    ):
        settings = load(environ={"HOME": str(tmp_path), **variables})
        assert tracer_for(settings, tmp_path, Redactor.none()) is None


def test_a_file_is_in_the_workspace_unless_it_says_where(tmp_path: Path) -> None:
    """A relative path is one in the workspace, `~/` the user's home."""
    assert configured(tmp_path, JAATO_TRACE_FILE="a/b.jsonl").file == WORK / "a/b.jsonl"
    assert configured(tmp_path, JAATO_TRACE_FILE="/x/b.jsonl").file == Path("/x/b.jsonl")
    assert configured(tmp_path, JAATO_TRACE_FILE="~/b.jsonl").file == tmp_path / "b.jsonl"
    assert configured(tmp_path, JAATO_TRACE_FILE="b", JAATO_TRACE_FILE_MB="0.5").max_bytes == 500_000


@pytest.mark.parametrize(
    "variables",
    [
        {"JAATO_TRACE_ENDPOINT": "localhost:4318"},
        {"JAATO_TRACE_ENDPOINT": "ftp://localhost"},
        {"JAATO_TRACE_ENDPOINT": "http://localhost:port"},
        {"JAATO_TRACE_ENDPOINT": "http://local\nhost/"},
        {"JAATO_TRACE_FILE": "directory/"},
        {"JAATO_TRACE_FILE": "a\0b"},
        {"JAATO_TRACE_FILE_MB": "0"},
        {"JAATO_TRACE_FILE_MB": "nan"},
        {"JAATO_TRACE_FILE_MB": "much"},
        {"JAATO_TRACE_CONTENT": "perhaps"},
    ],
)
def test_a_setting_that_makes_no_sense_is_said(tmp_path: Path, variables: dict[str, str]) -> None:
    """A malformed setting of jaato's own is an error that names it."""
    with pytest.raises(ConfigError, match=r"(?i)trace_"):
        configured(tmp_path, **variables)


@pytest.mark.parametrize(
    ("variables", "said", "sent"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT", False),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "not gRPC", False),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "nonsense"}, "name=value", True),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0aX-Evil: 1"}, "no header can carry", True),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a b=c"}, "no header's name", True),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "milliseconds", True),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "neither gzip nor none", True),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a,b"}, "name=value", True),
    ],
)
def test_a_variable_that_makes_no_sense_harms_nothing(
    tmp_path: Path, variables: dict[str, str], said: str, sent: bool
) -> None:
    """OpenTelemetry's variables may be meant for another program: what is wrong with them is told, never raised."""
    found = configured(tmp_path, **({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"} | variables))
    assert said in " ".join(found.notes)
    assert (found.endpoint is not None) == sent
    assert found.endpoint is None or "X-Evil" not in str(found.endpoint.headers)


def test_what_the_variables_say_of_a_collector(tmp_path: Path) -> None:
    """A login in the address becomes a header, the one for traces goes before the one for everything."""
    found = configured(
        tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT="https://me:s%40cret@example.com/otel/",
        OTEL_EXPORTER_OTLP_TRACES_HEADERS="b=2",
        OTEL_EXPORTER_OTLP_HEADERS="a=1",
        OTEL_EXPORTER_OTLP_TIMEOUT="2500",
        OTEL_EXPORTER_OTLP_TRACES_COMPRESSION="gzip",
        OTEL_EXPORTER_OTLP_CERTIFICATE="/ca.pem",
        OTEL_SERVICE_NAME="agents",
    )
    endpoint = found.endpoint
    assert endpoint is not None
    assert endpoint.url == "https://example.com/otel/v1/traces"
    assert endpoint.headers == {"Authorization": "Basic bWU6c0BjcmV0", "b": "2"}
    assert (endpoint.timeout_s, endpoint.gzip, endpoint.certificates) == (2.5, True, "/ca.pem")
    assert found.resource["service.name"] == "agents"
    assert found.notes == []


def test_a_workspace_chooses_no_target(tmp_path: Path) -> None:
    """What a repository says of tracing counts only once its file is trusted."""
    work = tmp_path / "work"
    (work / ".jaato").mkdir(parents=True)
    (work / ".jaato/config.toml").write_text(
        'trace_endpoint = "http://evil.example"\ntrace_file = "x"\ntrace_content = true\n'
    )
    environ = {"HOME": str(tmp_path)}
    found = read_config(load(environ=environ, workspace=work), work)
    assert (found.file, found.endpoint, found.content) == (None, None, False)
    trusted = load(environ=environ, workspace=work, trusted=lambda _path, _data: True)
    assert read_config(trusted, work).endpoint is not None
