"""`ToolExecutor` as its page documents it."""

from __future__ import annotations

import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jaato.abc.background import TaskStatus
from jaato.abc.plugin import ToolSchema, UserCommand
from jaato.runtime.executor import ToolExecutor, get_current_tool_output_callback
from jaato.runtime.registry import PluginRegistry
from jaato.tools.background import BackgroundCapableMixin
from jaato.tools.ledger import TokenLedger


class SlowPlugin(BackgroundCapableMixin):
    """A documented plugin whose tool takes as long as it is told."""

    name = "slow"
    auto_background_s = {"wait": 0.05}
    runs = 0

    def get_tool_schemas(self) -> list[ToolSchema]:
        return [ToolSchema("wait", "Wait.", {"type": "object", "properties": {"s": {"type": "number"}}})]

    def get_executors(self) -> dict[str, Any]:
        return {"wait": self.wait}

    def wait(self, args: dict[str, Any]) -> dict[str, Any]:
        self.runs += 1
        time.sleep(args.get("s", 0))
        return {"waited": args.get("s", 0)}

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def get_system_instructions(self) -> str | None:
        return None

    def get_auto_approved_tools(self) -> list[str]:
        return []

    def get_user_commands(self) -> list[UserCommand]:
        return []


def slow_executor(tmp_path: Path, **options: Any) -> tuple[ToolExecutor, SlowPlugin]:
    registry = PluginRegistry(workspace=tmp_path)
    plugin = SlowPlugin()
    registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor(**options)
    executor.set_registry(registry)
    return executor, plugin


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


@pytest.mark.spec("S1", "Auto-Background")
@pytest.mark.spec("S3", "Background Task Flow")
def test_a_slow_call_goes_on_in_the_background_and_runs_once(tmp_path: Path) -> None:
    """Past its threshold a call returns the documented promise; its plugin has the result later; it ran once."""
    executor, plugin = slow_executor(tmp_path)
    ok, result = executor.execute("wait", {"s": 0.3})
    assert ok
    assert result["auto_backgrounded"] is True
    assert result["plugin_name"] == "slow"
    assert result["tool_name"] == "wait"
    assert result["threshold_seconds"] == 0.05
    assert result["message"] == (
        "Task exceeded 0.05s threshold, continuing in background. "
        f"Use task_id '{result['task_id']}' to check status and output."
    )
    assert plugin.get_status(result["task_id"]) is TaskStatus.RUNNING
    assert plugin.background_tasks.get(result["task_id"]).done.wait(5)  # type: ignore[union-attr]
    assert plugin.get_result(result["task_id"]).result == {"waited": 0.3}
    assert plugin.runs == 1


@pytest.mark.spec("S1", "How It Works")
def test_a_call_within_the_threshold_returns_its_result(tmp_path: Path) -> None:
    """Nothing is moved to the background that ends in time."""
    executor, _ = slow_executor(tmp_path)
    assert executor.execute("wait", {"s": 0}) == (True, {"waited": 0})


@pytest.mark.spec("S1", "Constructor")
def test_auto_background_can_be_switched_off(tmp_path: Path) -> None:
    """With auto_background_enabled=False the caller waits to the end."""
    executor, _ = slow_executor(tmp_path, auto_background_enabled=False)
    assert executor.execute("wait", {"s": 0.1}) == (True, {"waited": 0.1})


@pytest.mark.spec("S1", "Constructor")
def test_the_pool_bounds_how_many_calls_run_in_the_background(tmp_path: Path) -> None:
    """With a pool of two, two calls run at a time; the others wait for a place and are not lost."""
    executor, plugin = slow_executor(tmp_path, auto_background_pool_size=2)
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def wait(_args: dict[str, Any]) -> str:
        with lock:
            running.append(1)
            most.append(len(running))
        time.sleep(0.1)
        with lock:
            running.pop()
        return "ok"

    plugin.wait = wait  # type: ignore[method-assign, assignment]  # the plugin's own tool
    executor.set_registry(None)
    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(plugin, expose=True)
    executor.set_registry(registry)
    ids = [executor.execute("wait", {})[1]["task_id"] for _ in range(5)]
    for task_id in ids:
        task = plugin.background_tasks.get(task_id)
        assert task is not None
        assert task.done.wait(5)
        assert task.status is TaskStatus.COMPLETED
    assert max(most) == 2


def test_a_background_task_that_fails_says_why(tmp_path: Path) -> None:
    """The task's result carries the error."""
    executor, plugin = slow_executor(tmp_path)
    ok, result = executor.execute("wait", {"s": 0.1})
    assert ok
    task = plugin.background_tasks.get(result["task_id"])
    assert task is not None
    failing = plugin.start_background("wait", {"s": -1})
    found = plugin.background_tasks.get(failing.task_id)
    assert found is not None
    assert found.done.wait(5)
    assert plugin.get_result(failing.task_id).status is TaskStatus.FAILED
    assert "ValueError" in (plugin.get_result(failing.task_id).error or "")
    assert task.done.wait(5)


@pytest.mark.spec("S1", "set_ledger(ledger)")
def test_the_ledger_records_what_happened(tmp_path: Path) -> None:
    """Results and background moves are entries of the ledger."""
    ledger = TokenLedger()
    executor, _ = slow_executor(tmp_path)
    executor.set_ledger(ledger)
    executor.execute("wait", {"s": 0})
    _, promised = executor.execute("wait", {"s": 0.1})
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
    assert result["issues"] == [{"path": "/s", "message": '"soon" is not of type "number"'}]
    assert plugin.runs == 0
