"""Enrichment: plugins add to a prompt before the model reads it and to results of calls, in order of priority."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.plugin import PromptEnrichmentResult
from jaato.agent.tool_runner import copy_arguments, make_cancellable
from jaato.errors import PluginError, ToolError
from jaato.log import logger
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.isolation import run_bounded, short_message
from jaato.tools.call import Call

LOG = logger("registry")
WITHIN_S, RESULT_WITHIN_S = 10.0, 5.0
MOST_CHARS = 2_000_000
"""A prompt may become as long as this, or stay as long as it was."""
PASSED_ON = (KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
"""Exceptions that are passed on, unless a third-party plugin raised them."""


class SlowEnrichment(PluginError):
    """A plugin of others has not answered in its time."""


class Round(msgspec.Struct, frozen=True):
    """One thing that plugins are asked about, and how: `ask` gives what asks the plugin, or None where it is not asked any
    more, `take` what becomes of its answer; both may raise. `function` is the plugin's own; `forget` is called for one
    that is too slow."""

    what: str
    seconds: float
    ask: Callable[[Toolset, Any], Callable[[], Any] | None]
    take: Callable[[Any, Any], Any]
    function: Callable[[Toolset], Any]
    forget: Callable[[Toolset], None]
    failed: Callable[[Any, str], Any]
    """What becomes of the value of a plugin that is passed over, and why it was."""


# --- the frame -------------------------------------------------------------------------------------------------------


def enrich_now(turn: Round, toolset: Toolset, value: Any, *, waits: bool = False) -> Any:
    """The value as one plugin would have it, of a failing one as it was; a third-party plugin has a timeout. With `waits` an
    asynchronous answer comes back as it is."""
    ask = turn.ask(toolset, value)
    if ask is None:
        return turn.failed(value, "")

    def work() -> Any:
        given = ask()
        if not inspect.isawaitable(given):
            return turn.take(value, given)
        if waits:
            return given
        if inspect.iscoroutine(given):
            given.close()
        raise PluginError("it is asynchronous, and there is no loop here")

    try:
        return run_bounded(turn.seconds, work, "", late=SlowEnrichment) if toolset.foreign else work()
    except PASSED_ON:
        raise
    except BaseException as error:  # the user's words and the result must reach the model whatever it does
        if isinstance(error, ToolError) and toolset.enrichment.refuses and not toolset.foreign:
            raise
        return skip_plugin(turn, toolset, value, error)


async def enrich_in_thread(turn: Round, toolset: Toolset, value: Any) -> Any:
    """The same off the loop; an asynchronous answer is awaited on it, for as long as the plugin may take."""
    work = turn.ask(toolset, value) if inspect.iscoroutinefunction(turn.function(toolset)) else None
    if work is not None:
        return await await_answer(turn, toolset, value, work())
    ask = functools.partial(enrich_now, turn, toolset, value, waits=True)
    given: Any = None
    with anyio.move_on_after(turn.seconds + toolset.foreign) as waited:
        given = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    if waited.cancelled_caught:
        return skip_plugin(turn, toolset, value, timeout_error(turn))
    return await await_answer(turn, toolset, value, given) if inspect.isawaitable(given) else given


async def await_answer(turn: Round, toolset: Toolset, value: Any, given: Awaitable[Any]) -> Any:
    """What an asynchronous answer comes to."""
    runner = asyncio.current_task()
    try:
        with anyio.move_on_after(turn.seconds):
            return turn.take(value, await make_cancellable(given, toolset.name, runner))
    except BaseException as error:
        if isinstance(error, (asyncio.CancelledError, GeneratorExit)) and (
            runner is None or runner.cancelling()
        ):
            raise
        return skip_plugin(turn, toolset, value, error)
    return skip_plugin(turn, toolset, value, timeout_error(turn))


def timeout_error(turn: Round) -> SlowEnrichment:
    """That a plugin took too long."""
    return SlowEnrichment(f"it took longer than {turn.seconds:g} s")


def skip_plugin(turn: Round, toolset: Toolset, value: Any, error: BaseException) -> Any:
    """The value as it was, and the reason in the log; one that was too slow is not asked again."""
    problem = short_message(error)
    if not isinstance(error, PluginError):
        problem = f"{type(error).__name__}: {problem}" if problem else type(error).__name__
    if isinstance(error, SlowEnrichment) and toolset.foreign:
        turn.forget(toolset)
        problem = f"{problem}; it is not asked again"
    LOG.warning("Plugin '%s' could not enrich %s: %s", toolset.name, turn.what, problem)
    return turn.failed(value, problem)


# --- prompts ---------------------------------------------------------------------------------------------------------

Noted = tuple[str, dict[str, Any]]
"""A prompt, and what the plugin that saw it last notes about it."""


def enrichers(toolsets: Iterable[Toolset]) -> list[Toolset]:
    """Those that subscribe to prompts, in the order they are asked."""
    return sorted((t for t in toolsets if t.enrich is not None), key=lambda t: t.enrichment.priority)


def is_wanted(toolset: Toolset, prompt: str, workspace: Path) -> bool:
    """Whether the plugin has something to do with this prompt; decided without asking it."""
    when = toolset.enrichment
    if not when.pattern and not when.present:
        return True
    if when.pattern and compile_pattern(when.pattern).search(prompt):
        return True
    return any(os.path.exists(f"{workspace}/{name}") for name in when.present)


@functools.cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, made ready once."""
    return re.compile(pattern)


def check_prompt(value: Noted, given: Any) -> Noted:
    """The prompt a plugin gives. Raises `PluginError` for what is none."""
    text, notes = given.prompt, dict(given.metadata)
    if not isinstance(text, str):
        raise PluginError(f"enrich_prompt() gave a prompt that is a {type(text).__name__}, not text")
    if len(text) > max(MOST_CHARS, len(value[0])):
        raise PluginError(f"it would make the prompt {len(text)} characters long")
    return text, notes


def forget_prompts(toolset: Toolset) -> None:
    """Ask this plugin about prompts no more."""
    toolset.enrich = None


def prompt_round() -> Round:
    """The round of a prompt."""
    return Round(
        "the prompt",
        WITHIN_S,
        lambda toolset, value: toolset.enrich and functools.partial(toolset.enrich, value[0]),
        check_prompt,
        lambda toolset: toolset.enrich,
        forget_prompts,
        lambda value, problem: (value[0], {"error": problem} if problem else {}),
    )


def enrich_prompt(prompt: str, toolsets: Iterable[Toolset], workspace: Path) -> PromptEnrichmentResult:
    """The prompt after each of them has seen what the one before made of it; a failing one is passed over."""
    metadata: dict[str, Any] = {}
    for toolset in toolsets:
        if is_wanted(toolset, prompt, workspace):
            prompt, metadata[toolset.name] = enrich_now(prompt_round(), toolset, (prompt, {}))
    return PromptEnrichmentResult(prompt, metadata)


async def enrich_prompt_async(
    prompt: str, toolsets: Iterable[Toolset], workspace: Path
) -> tuple[str, list[str]]:
    """The same off the loop, with the names of the tools that what was added speaks of; a plugin that takes longer than
    `WITHIN_S` is passed over too."""
    named: list[str] = []
    for toolset in toolsets:
        if not is_wanted(toolset, prompt, workspace):
            continue
        if toolset.enrichment.instant and not toolset.foreign:
            prompt, notes = enrich_now(prompt_round(), toolset, (prompt, {}))
        else:
            prompt, notes = await enrich_in_thread(prompt_round(), toolset, (prompt, {}))
        found = notes.get("activates")
        named += [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    return prompt, named


# --- results ---------------------------------------------------------------------------------------------------------


def result_enrichers(toolsets: Iterable[Toolset], name: str) -> list[Toolset]:
    """Those that see the results of this tool."""
    return [
        toolset
        for toolset in toolsets
        if toolset.enriches_results and (name in toolset.enriches_results or "*" in toolset.enriches_results)
    ]


def check_result(value: Any, given: Any) -> Any:
    """What a plugin makes of a result. Raises `PluginError` where a result would be lost."""
    if given is None and value is not None:
        raise PluginError("it gave nothing back; a plugin gives the result, changed or not")
    return given


def forget_results(toolset: Toolset) -> None:
    """Ask this plugin about results no more."""
    toolset.enrich_result, toolset.enriches_results = None, ()


def result_round(call: Call) -> Round:
    """The round of the result of a call."""

    def ask(toolset: Toolset, value: Any) -> Callable[[], Any] | None:
        enrich = toolset.enrich_result
        shown = copy_arguments(value) if toolset.foreign else value
        return None if enrich is None else functools.partial(enrich, call, shown)

    return Round(
        f"the result of {call.name}",
        RESULT_WITHIN_S,
        ask,
        check_result,
        lambda toolset: toolset.enrich_result,
        forget_results,
        lambda value, _problem: value,
    )


async def enrich_result_async(call: Call, value: Any, toolsets: Iterable[Toolset]) -> Any:
    """The value after each of them has seen what the one before made of it; a failing or late one is passed over."""
    for toolset in toolsets:
        value = await enrich_in_thread(result_round(call), toolset, value)
    return value


def enrich_result(call: Call, value: Any, toolsets: Iterable[Toolset]) -> Any:
    """The same without a loop; asynchronous plugins are passed over."""
    for toolset in toolsets:
        value = enrich_now(result_round(call), toolset, value)
    return value
