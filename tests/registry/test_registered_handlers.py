"""Handlers: functions the operator allows, tools of MCP servers, and calls that are under way while their tool changes."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from pathlib import Path

import pytest
from tests.mcp import small_server
from tests.registry.registering import TARGETS, Registry, during, fine, put_body, webhook

from jaato.errors import ToolError
from jaato.plugins.mcp.pool import SERVER_POOL
from jaato.server.registry.registered.handlers import EntryPoints
from jaato.testing.arp.peer import fails, refuses, result_of


def code(function: str) -> dict[str, object]:
    """A handler of this function."""
    return {"type": "entry_point", "target": TARGETS + function}


def test_an_entry_point_is_called_where_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions of both kinds are called in the pipeline; what is no function, or not allowed, is refused when it is put."""

    def body(one: Registry) -> None:
        for name, said in (("shout", {"said": "A"}), ("whisper", {"said": "a", "door": "registry"})):
            made = one.put(name, put_body(code(name)))
            assert (made.status, made.json["source"]["access"]) == (201, "execute")
            assert result_of(one.at.invoke(name, {"args": {"text": "A"}}), 200)["result"] == said
        assert one.put("breaks", put_body(code("breaks"))).status == 201
        error = fails(one.at.invoke("breaks", {"args": {"text": "hunter2"}}), 500, "tool.handler_error")
        assert "hunter2" not in json.dumps(error)
        for target in (
            "tests.registry.targets:NOTHING",
            "tests.registry.targets:none",
            "tests.registry.none:f",
        ):
            refuses(
                one.put("bad", put_body({"type": "entry_point", "target": target})),
                400,
                "tool.invalid_definition",
            )
        for target in ("os:system", "subprocess:run", "tests.contract.showing:pair"):
            refuses(
                one.put("bad", put_body({"type": "entry_point", "target": target})),
                403,
                "tool.handler_forbidden",
            )

    def not_allowed_now(one: Registry) -> None:
        assert one.names() == ["echo", "calc", "time_now", "whisper"]
        refuses(one.put("whisper", put_body(None), if_none_match="*"), 412, "request.precondition_failed")
        assert result_of(one.at.invoke("whisper", {"args": {"text": "A"}}), 200)
        assert one.delete("shout").status == 204  # what is kept and not served can be deleted

    def again(one: Registry) -> None:
        assert one.names()[3:] == ["whisper", "breaks"]

    monkeypatch.chdir(tmp_path)  # the tests' own directory is where nothing is imported from
    during(tmp_path, body, entry_points=("tests.registry.*",))
    during(tmp_path, not_allowed_now, entry_points=(f"{TARGETS}whisper",))
    during(tmp_path, again, entry_points=("tests.registry.*",))


def test_no_code_of_the_workspace_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is not imported from the workspace, nor from the directory of the process, whatever patterns say; one that is
    installed in an environment below the workspace is."""
    work, venv = tmp_path / "work", tmp_path / "work" / ".venv"
    for place in (work, work / "deep", venv / "lib", tmp_path / "here"):
        (place / f"pack_{place.name.strip('.')}").mkdir(parents=True)
        (place / f"pack_{place.name.strip('.')}" / "__init__.py").touch()
        module = place / f"pack_{place.name.strip('.')}" / "mod.py"
        module.write_text("def run(text: str) -> str:\n    return text\n")
        monkeypatch.syspath_prepend(str(place))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "prefix", str(venv))
    importlib.invalidate_caches()
    points = EntryPoints(["*"], work)
    for name in ("pack_work", "pack_deep", "pack_here"):
        with pytest.raises(ToolError, match="in the workspace or the directory of the process"):
            points.tool(f"{name}.mod:run")
        assert name not in sys.modules
    assert points.tool("pack_lib.mod:run").name == "run"
    for name in ("pack_lib", "pack_lib.mod"):
        del sys.modules[name]


def test_a_tool_of_an_mcp_server_is_called(tmp_path: Path) -> None:
    """A tool of a configured server is put, and called with its data; one that is not configured, or that a workspace names
    and nobody has trusted, is refused."""
    described = tmp_path / "described.json"
    described.write_text("{}")
    entry = {"command": sys.executable, "args": [str(Path(small_server.__file__)), str(described)]}
    gone = {"command": sys.executable, "args": ["-c", "import nothing_of_this_name"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"small": entry, "gone": gone}}))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}

    def body(one: Registry) -> None:
        handler = {"type": "mcp", "server": "small", "tool": "structured"}
        made = one.put("double", put_body(handler, parameters=schema))
        assert (made.status, made.json["source"]["access"]) == (201, "execute")
        assert result_of(one.at.invoke("double", {"args": {"number": 4}}), 200)["result"] == {"double": 8}
        assert (
            one.put("hail", put_body({**handler, "tool": "greet"}, parameters={"type": "object"})).status
            == 201
        )
        assert result_of(one.at.invoke("hail", {"args": {"name": "Ann"}}), 200)["result"] == "hi Ann"
        assert one.put("fail", put_body({**handler, "tool": "fail"})).status == 201
        assert (
            "it broke"
            in fails(one.at.invoke("fail", {"args": {"text": ""}}), 500, "tool.execution_error")["message"]
        )
        refuses(one.put("bad", put_body({**handler, "tool": "none"})), 400, "tool.invalid_definition")
        for server in ("theirs", "other"):
            refuses(one.put("bad", put_body({**handler, "server": server})), 403, "tool.handler_forbidden")
        assert one.put("lost", put_body({**handler, "server": "gone", "tool": "x"})).status == 201
        error = fails(one.at.invoke("lost", {"args": {"text": ""}}), 502, "tool.unreachable")
        assert error["retryable"] is True
        assert "ModuleNotFoundError" not in error["message"]  # what its process said is the operator's
        assert "the registry's log has why, under request" in error["message"]

    try:
        during(tmp_path, body)
    finally:
        SERVER_POOL.close()


def test_a_call_under_way_ends_as_it_began(tmp_path: Path) -> None:
    """Whoever replaces or deletes a tool changes nothing of the calls that are under way; later ones are the new tool's."""
    with webhook() as hook:
        begun = threading.Event()

        def answer(_body: object) -> tuple[int, object]:
            if hook.seen[-1][0]["x-which"] != "old":
                return fine("new")
            begun.set()
            hook.hold.wait(60)
            return fine("old")

        def body(one: Registry) -> None:
            def put(which: str) -> int:
                handler = {"type": "webhook", "url": hook.url, "headers": {"X-Which": which}}
                return one.put("say", put_body(handler)).status

            assert put("old") == 201
            found: list[object] = []
            call = {"args": {"text": "a"}}
            thread = threading.Thread(target=lambda: found.append(one.at.invoke("say", call).json["result"]))
            thread.start()
            assert begun.wait(60)
            assert put("new") == 200
            assert result_of(one.at.invoke("say", call), 200)["result"] == "new"
            assert one.delete("say").status == 204
            hook.hold.set()
            thread.join()
            assert found == ["old"]

        hook.answer = answer
        during(tmp_path, body)
