"""`ToolExecutor` as its page documents it: registration, results, errors, metadata, output callbacks, ledger."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.slow import SlowPlugin, slow_executor

from jaato.runtime.embedding.executor import ToolExecutor, get_current_tool_output_callback
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.ledger import TokenLedger


@pytest.mark.spec("S1", "Basic usage")
def test_a_registered_function_runs_with_its_arguments() -> None:
    """`execute` gives (True, what the function returned)."""
    executor = ToolExecutor()
    executor.register("double_string", lambda args: {"result": args.get("input", "") * 2})
    assert executor.execute("double_string", {"input": "hello"}) == (True, {"result": "hellohello"})


@pytest.mark.spec("S1", "register(name, fn)")
def test_any_callable_can_be_registered() -> None:
    """Functions, lambdas, partials, bound methods and callable objects run; others are refused at once."""

    class Caller:
        def __call__(self, args: dict[str, Any]) -> str:
            return f"called {args['x']}"

        def method(self, args: dict[str, Any]) -> str:
            return f"method {args['x']}"

    def two(prefix: str, args: dict[str, Any]) -> str:
        return f"{prefix} {args['x']}"

    executor = ToolExecutor()
    executor.register("object", Caller())
    executor.register("method", Caller().method)
    executor.register("partial", functools.partial(two, "partial"))
    for name in ("method", "partial"):
        assert executor.execute(name, {"x": 1}) == (True, f"{name} 1")
    assert executor.execute("object", {"x": 1}) == (True, "called 1")
    with pytest.raises(TypeError, match="cannot be called"):
        executor.register("nothing", 5)  # type: ignore[arg-type]


@pytest.mark.spec("S1", "clear_executors()")
def test_clear_executors_forgets_all() -> None:
    """After clearing, no registered name runs; a new registration does."""
    executor = ToolExecutor()
    executor.register("a", lambda _args: 1)
    executor.clear_executors()
    assert executor.execute("a", {})[0] is False
    executor.register("a", lambda _args: 2)
    assert executor.execute("a", {}) == (True, 2)


@pytest.mark.spec("S1", "Error handling")
def test_an_unknown_tool_says_so_in_the_documented_words() -> None:
    """(False, {"error": "No executor registered for NAME"})."""
    ok, result = ToolExecutor().execute("unknown_tool", {})
    assert not ok
    assert result["error"] == "No executor registered for unknown_tool"


@pytest.mark.spec("S1", "Result Structure")
@pytest.mark.parametrize("error", [ValueError("bad"), KeyError("k"), SystemExit(3), RecursionError("deep")])
def test_an_exception_becomes_an_error_with_its_traceback(error: BaseException) -> None:
    """Whatever a tool raises, the caller gets (False, {"error", "traceback"})."""

    def broken(_args: dict[str, Any]) -> None:
        raise error

    executor = ToolExecutor()
    executor.register("broken", broken)
    ok, result = executor.execute("broken", {})
    assert not ok
    assert type(error).__name__ in result["error"]
    assert "broken" in result["traceback"]


@pytest.mark.parametrize("args", [None, [1], "text", 5])
def test_arguments_that_are_no_object_are_an_error(args: Any) -> None:
    """The tool is not run."""
    ran: list[Any] = []
    executor = ToolExecutor()
    executor.register("tool", ran.append)
    ok, result = executor.execute("tool", args)
    assert not ok
    assert "no JSON object" in result["error"]
    assert not ran


@pytest.mark.spec("S1", "Executor Metadata")
def test_executor_metadata_is_merged_into_a_new_dict() -> None:
    """(result, metadata) becomes one dict; the tool's own dicts stay as they were."""
    inner, metadata = (
        {"output": "..."},
        {"continuation_id": "sess_1", "show_output": False, "show_popup": True},
    )
    executor = ToolExecutor()
    executor.register("shell_input", lambda _args: (inner, metadata))
    ok, result = executor.execute("shell_input", {"session_id": "sess_1", "text": "ls"})
    assert ok
    assert result == {"output": "...", "continuation_id": "sess_1", "show_output": False, "show_popup": True}
    assert inner == {"output": "..."}
    assert result is not inner


def test_other_tuples_are_results_like_any_other() -> None:
    """Only a pair of dicts is metadata."""
    executor = ToolExecutor()
    executor.register("pair", lambda _args: ({"a": 1}, "text"))
    assert executor.execute("pair", {}) == (True, ({"a": 1}, "text"))


@pytest.mark.spec("S1", "Output Callbacks")
def test_a_call_finds_the_callback_it_was_given() -> None:
    """`tool_output_callback` is what `get_current_tool_output_callback` gives inside the tool, and only there."""
    heard: list[str] = []

    def talk(args: dict[str, Any]) -> str:
        callback = get_current_tool_output_callback()
        assert callback is not None
        callback(args["say"])
        return "ok"

    executor = ToolExecutor()
    executor.register("talk", talk)
    assert executor.execute("talk", {"say": "hi"}, tool_output_callback=heard.append) == (True, "ok")
    assert heard == ["hi"]
    assert get_current_tool_output_callback() is None


@pytest.mark.spec("S1", "get_tool_output_callback()")
def test_the_calls_own_callback_comes_before_the_executors() -> None:
    """Inside a call its own callback is found, elsewhere the executor's."""
    found: list[Any] = []
    own, general = (lambda _text: None), (lambda _text: None)
    executor = ToolExecutor()
    executor.register("look", lambda _args: found.append(executor.get_tool_output_callback()))
    executor.set_tool_output_callback(general)
    assert executor.get_tool_output_callback() is general
    executor.execute("look", {}, tool_output_callback=own)
    executor.execute("look", {})
    assert found == [own, general]


@pytest.mark.spec("S1", "set_output_callback(callback)")
def test_the_general_callback_is_forwarded_to_plugins_that_support_it(tmp_path: Path) -> None:
    """Plugins with set_output_callback get it, whether the registry comes before or after."""

    class Talking(SlowPlugin):
        name = "talking"
        callback: Any = None

        def set_output_callback(self, callback: Any) -> None:
            self.callback = callback

    def on_output(source: str, text: str, mode: str) -> None: ...

    for registry_first in (True, False):
        registry = PluginRegistry(workspace=tmp_path)
        plugin = Talking()
        registry.register_plugin(plugin, expose=True)
        executor = ToolExecutor()
        if registry_first:
            executor.set_registry(registry)
        executor.set_output_callback(on_output)
        executor.set_registry(registry)
        assert plugin.callback is on_output
        assert executor.get_output_callback() is on_output


@pytest.mark.spec("S1", "Parallel Execution")
def test_parallel_calls_keep_their_callbacks_apart() -> None:
    """Sixteen calls in four threads: each hears its own output and nothing else."""
    executor = ToolExecutor()

    def analyze(args: dict[str, Any]) -> str:
        for n in range(20):
            callback = get_current_tool_output_callback()
            assert callback is not None
            callback(f"{args['f']}{n}")
            time.sleep(0)
        return str(args["f"])

    executor.register("analyze", analyze)
    heard: dict[str, list[str]] = {f"call_{n}": [] for n in range(16)}
    with ThreadPoolExecutor(max_workers=4) as pool:
        futures = [
            pool.submit(
                executor.execute,
                "analyze",
                {"f": f"{name}:"},
                tool_output_callback=heard[name].append,
                call_id=name,
            )
            for name in heard
        ]
        assert all(future.result()[0] for future in futures)
    assert all(lines == [f"{name}:{n}" for n in range(20)] for name, lines in heard.items())


@pytest.mark.spec("S1", "set_ledger(ledger)")
def test_the_ledger_records_what_happened(tmp_path: Path) -> None:
    """Results and background moves are entries of the ledger."""
    ledger = TokenLedger()
    executor, plugin = slow_executor(tmp_path, threshold_s=1)
    executor.set_ledger(ledger)
    executor.execute("wait", {"s": 0})
    _, promised = executor.execute("wait", {"s": 60})
    plugin.go.set()
    stages = [entry["stage"] for entry in ledger.entries]
    assert stages == ["tool-result", "auto-background", "tool-result"]
    assert ledger.entries[1]["task_id"] == promised["task_id"]


@pytest.mark.spec("S1", "set_registry(registry)")
def test_tools_of_the_registry_run_under_all_their_names(tmp_path: Path) -> None:
    """With a registry, plugin tools run by canonical name and alias; discoverable ones need no activation here."""
    (tmp_path / "a.txt").write_text("hello\n")
    registry = PluginRegistry(workspace=tmp_path)
    registry.expose_tool("file_edit")
    executor = ToolExecutor()
    executor.set_registry(registry)
    ok, result = executor.execute("writeFile", {"path": "b.txt", "content": "x"})
    assert ok, result
    assert (tmp_path / "b.txt").read_text() == "x"
    ok, result = executor.execute("readFile", {"path": "a.txt"})
    assert ok
    registry.shutdown()


def test_every_problem_of_the_arguments_is_named_by_its_path(tmp_path: Path) -> None:
    """Arguments are held against the whole schema before anything runs."""
    executor, plugin = slow_executor(tmp_path)
    ok, result = executor.execute("wait", {"s": "soon"})
    assert not ok
    assert result["issues"] == [
        {
            "path": "/s",
            "message": '"soon" is not of type "number"',
            "expected": ["number"],
            "actual": "string",
        }
    ]
    assert plugin.runs == 0
