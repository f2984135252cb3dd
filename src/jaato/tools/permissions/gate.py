"""The permission gate that every call passes: evaluated by rules, else asked, else denied with the reason.

It uses no event loop and no thread: what waits is injected, so that a coroutine whose strategies never suspend can be
stepped.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from jaato.abc.asker import Answer, Asker
from jaato.errors import ConfigError, JaatoError, NotAllowed
from jaato.protocol.events import Permission
from jaato.protocol.specs import Grant, Mode, SandboxProfile, Scope
from jaato.tools.filesystem.control_files import STANDARD, ControlNames
from jaato.tools.permissions.access import WORKSPACE_WRITE, covers, difference, union
from jaato.tools.permissions.context import PermissionContext, none_enforced
from jaato.tools.permissions.decision import (
    Decision,
    PartVerdict,
    PendingCall,
    Verdict,
    allow,
    canonical_answer,
    deny,
    deny_without_channel,
    make_question,
    to_decision,
)
from jaato.tools.permissions.grants import digest_of, grant_of, is_in_force, literal_pattern, shape_text
from jaato.tools.permissions.policy import Policy
from jaato.tools.permissions.rules import SHELL_TOOLS, TYPED_TOOLS

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool

__all__ = ["Decision", "Gate", "PartVerdict", "Policy", "Verdict", "digest_of"]

CallKey = tuple[str, str, str]
"""An agent, its call, and the digest that an answer is bound to."""
SCOPES: dict[str, Scope] = {"a": "always", "t": "turn", "i": "idle", "never": "always"}
MAX_QUESTIONS, MAX_SETTLED = 3, 4_096
INDIVIDUAL = frozenset(("control_path", "plan"))
"""Methods of verdicts whose questions an answer `all` does not cover."""
AS_SHOWN = frozenset(("y", "once", "all"))
"""Answers that allow a call for what its question shows: they do not hold once its diff is another."""


def preview_call(tool: Tool, call: Call) -> str:
    """A unified diff of what a call would change; empty where its tool makes none, or the call would fail."""
    if tool.previews is None:
        return ""
    try:
        return tool.previews(call.arguments)
    except (JaatoError, OSError, ValueError):
        return ""


class NoSerialization:
    """A turnstile that never waits, for a caller that asks one question at a time anyway."""

    async def __aenter__(self) -> None:
        """Enter without waiting."""

    async def __aexit__(self, *_exc: object) -> None:
        """Leave."""


def ignore_event(_told: object) -> None:
    """Ignore the event."""


def leave_open(_key: CallKey, _permission: Permission) -> bool:
    """Leave a question open: its answer is given elsewhere."""
    return False


class Gate:
    """Decides about calls.

    `turnstile` serializes questions; behind it the call is evaluated again. `on_grant` and `on_revoke` are called for
    every grant that begins or ends, `on_mode` for another mode. `settle` settles the open question about a call, as the mode
    or a rule has decided, and returns whether there was one. `grants` are those of a resumed session, `protected`
    directories that no lasting grant covers. A question waits `timeout_s`, unless the channel sets a time. `profiles`
    returns those that a sandbox enforces for tools that confine what they start. `preview` makes the diff of a question.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        asker: Asker | None = None,
        workspace: Path | None = None,
        turnstile: Callable[[], AbstractAsyncContextManager[None]] = NoSerialization,
        on_grant: Callable[[Grant], None] = ignore_event,
        on_revoke: Callable[[Grant], None] = ignore_event,
        on_mode: Callable[[Mode], None] = ignore_event,
        settle: Callable[[CallKey, Permission], bool] = leave_open,
        grants: Iterable[Grant] = (),
        protected: Iterable[Path] = (),
        control_names: ControlNames = STANDARD,
        timeout_s: float | None = None,
        profiles: Callable[[], frozenset[SandboxProfile]] = none_enforced,
        preview: Callable[[Tool, Call], str | Awaitable[str]] = preview_call,
    ) -> None:
        self.policy = policy
        self._asker = asker
        self._workspace = workspace
        self._turnstile = turnstile
        self._on_grant = on_grant
        self._on_revoke = on_revoke
        self._on_mode = on_mode
        self._settle = settle
        self._grants: tuple[Grant, ...] = tuple(one for one in grants if one.scope != "always")
        self._control = (tuple(one.resolve() for one in protected), control_names)
        self._timeout_s = timeout_s
        self.profiles = profiles
        self._preview = preview
        self._waiting: list[PendingCall] = []
        self._edited: dict[str, str] = {}
        self._given: PermissionContext | None = None
        self._latest: tuple[Verdict, Decision] | None = None
        self._settled: dict[Tool, tuple[bool, int, Decision]] = {}

    async def check(self, call: Call, tool: Tool) -> Decision:
        """Decide about a call; suspends only where the turnstile or the asker does."""
        self.policy.refresh()
        known = self._settled.get(tool)
        if known is not None and known[0] == tool.auto_approved and known[1] == self.policy.version:
            return known[2]
        verdict = self._judge(call, tool)
        if verdict.effect == "ask":
            spent = self._use_approval(call, verdict) if self._edited or self._grants else None
            return spent or await self._ask(call, tool)
        last = self._latest
        if last is not None and last[0] is verdict:
            return last[1]
        decision = to_decision(verdict)
        self._latest = (verdict, decision)
        if verdict.fixed and not self._grants:
            if len(self._settled) > MAX_SETTLED:
                self._settled.clear()
            self._settled[tool] = (tool.auto_approved, self.policy.version, decision)
        return decision

    def explain(self, call: Call, tool: Tool) -> Verdict:
        """Evaluate a call without asking anyone (dry run)."""
        self.policy.reload()
        return self._judge(call, tool)

    @property
    def mode(self) -> Mode:
        """The mode, which says what runs without a question."""
        return self.policy.mode

    def set_mode(self, mode: Mode) -> None:
        """Change what runs without a question, because the user says so: no file, and nothing that runs under a call, may.
        Raises `ConfigError` where the session is to stay read-only; what `on_mode` raises leaves the mode as it was."""
        before = self.policy.mode
        self.policy.set_mode(mode)
        try:
            self._on_mode(mode)
        except BaseException:
            self.policy.set_mode(before)
            raise
        self._settled = {}
        self.reconsider()

    def reconsider(self) -> None:
        """Settle the open questions that the mode and the rules decide by now."""
        for waiting in self._waiting:
            verdict = self._judge(waiting.call, waiting.tool)
            if verdict.effect == "ask" or digest_of(waiting.call) != waiting.digest:
                continue
            decision = to_decision(verdict)
            if self._settle((waiting.call.agent_id, waiting.call.id, waiting.digest), decision.permission):
                waiting.decided = decision

    def end_turn(self) -> None:
        """End the grants of the turn."""
        self._end(("turn", "once", "call"))

    def go_idle(self) -> None:
        """End the grants of the turn and those until idle."""
        self._end(("turn", "idle", "once", "call"))

    def grants(self) -> list[Grant]:
        """Every grant in force: lasting ones first, then those of this session."""
        return [*self.policy.grants(), *self._grants]

    def revoke(self, grant_id: str) -> None:
        """End a grant. Raises `ConfigError` when there is none of this id, OSError when its file cannot be
        written."""
        found = next((one for one in self.grants() if one.id == grant_id), None)
        if found is None:
            raise ConfigError(f"There is no grant {grant_id!r}; `jaato permissions` lists them.")
        self._grants = tuple(one for one in self._grants if one.id != grant_id)
        self._settled = {}
        if found.scope == "always":
            self.policy.forget(grant_id)
        self._on_revoke(found)
        self.reconsider()

    def trust(self) -> None:
        """Trust the permission file as it is now. Raises `ConfigError`, OSError."""
        self.policy.trust()
        self._settled = {}
        self.reconsider()

    def _judge(self, call: Call, tool: Tool) -> Verdict:
        workspace = self._workspace_of(call)
        if any(one.expires is not None and not is_in_force(one) for one in self._grants):
            self._expire_grants()
        given = self._given
        if given is None or given.grants is not self._grants or given.workspace is not workspace:
            given = self._given = PermissionContext(
                self.policy, self._grants, workspace, *self._control, self.profiles
            )
        return self._evaluate(call, tool, given)

    @functools.cached_property
    def _evaluate(self) -> Callable[[Call, Tool, PermissionContext], Verdict]:
        """Evaluates by the rules; imported with the first call, as many prompts make none."""
        from jaato.tools.permissions.evaluation import evaluate_call

        return evaluate_call

    def _workspace_of(self, call: Call) -> Path:
        return self._workspace or call.workspace

    def _expire_grants(self) -> None:
        """End the grants of this session whose time is over."""
        ended = [one for one in self._grants if not is_in_force(one)]
        self._grants = tuple(one for one in self._grants if is_in_force(one))
        for grant in ended:
            self._on_revoke(grant)

    def _end(self, scopes: tuple[str, ...]) -> None:
        self._edited = {}
        if ended := [one for one in self._grants if one.scope in scopes]:
            self._grants = tuple(one for one in self._grants if one.scope not in scopes)
            self._settled = {}
            for grant in ended:
                self._on_revoke(grant)
        self.policy.reload()

    def _use_approval(self, call: Call, verdict: Verdict) -> Decision | None:
        """Use an approval that is bound to exactly this call, once."""
        digest = digest_of(call)
        if self._edited.get(call.id) == digest:
            del self._edited[call.id]
            reason = "the user edited the arguments and allowed exactly these"
            return self._approve(verdict, reason)
        for grant in self._grants:
            if grant.scope in ("once", "call") and grant.effect == "allow" and grant.shape == digest:
                self._grants = tuple(one for one in self._grants if one is not grant)
                self._on_revoke(grant)
                return self._approve(verdict, "allowed once, for exactly this call", "once")
        return None

    async def _ask(self, call: Call, tool: Tool) -> Decision:
        """Wait for the turnstile, evaluate again, and ask if that is still needed."""
        if self._asker is None:
            return self._deny_unasked(call, tool, self._judge(call, tool))
        waiting = PendingCall(call, tool, digest_of(call))
        self._waiting.append(waiting)
        try:
            async with self._turnstile():
                self.policy.reload()
                verdict = self._judge(call, tool)
                if verdict.effect != "ask":
                    return to_decision(verdict)
                if digest_of(call) == waiting.digest and self._is_settled(waiting, verdict):
                    return self._approve(verdict, "allowed with everything that was waiting")
                return await self._question_user(waiting, tool, verdict)
        finally:
            self._waiting.remove(waiting)

    def _deny_unasked(self, call: Call, tool: Tool, verdict: Verdict) -> Decision:
        return deny_without_channel(call, tool, verdict, self.policy.path, self.policy.distrust)

    def _is_settled(self, waiting: PendingCall, verdict: Verdict) -> bool:
        """Whether an answer `all` covers this question: not an individual one, nor one that opens more than was shown."""
        if waiting.settled is None or verdict.method in INDIVIDUAL:
            return False
        place = str(self._workspace_of(waiting.call))
        return verdict.access is None or covers(waiting.settled, verdict.access, place)

    async def _question_user(self, waiting: PendingCall, tool: Tool, verdict: Verdict) -> Decision:
        """Ask until there is a valid answer to what the call would do by then, at most three times."""
        assert self._asker is not None
        reason = verdict.reason
        preview = await self._show(waiting.call, tool)
        for _question in range(MAX_QUESTIONS):
            question = make_question(
                waiting, verdict, reason, self.policy.channel.timeout_s or self._timeout_s
            )
            question = replace(question, preview=preview)
            try:
                given = self._asker.ask(question)
                answer = (
                    given
                    if given is None or isinstance(given, Answer)
                    else await cast("Awaitable[Any]", given)
                )
            except TimeoutError:
                return waiting.decided or deny("no answer came in time, so the call is denied", "timeout")
            if waiting.decided is not None:
                return waiting.decided
            if answer is None:
                return self._deny_unasked(waiting.call, tool, verdict)
            self.policy.reload()
            overtaken = self._superseding_decision(waiting, tool)
            shown, preview = preview, await self._show(waiting.call, tool)
            if overtaken is None and preview != shown and canonical_answer(answer) in AS_SHOWN:
                reason = f"what it would change is different since the question was asked; {verdict.reason}"
                continue
            decision = overtaken or self._apply_answer(waiting, tool, verdict, answer)
            if decision is not None:
                return decision
            reason = f"{answer.answer[:40]!r} is no answer to this; {verdict.reason}"
        return deny(f"no usable answer in {MAX_QUESTIONS} questions", "user_denied")

    async def _show(self, call: Call, tool: Tool) -> str:
        """The diff of what the call would change now."""
        made = self._preview(tool, call)
        return made if isinstance(made, str) else await made

    def _superseding_decision(self, waiting: PendingCall, tool: Tool) -> Decision | None:
        """The decision that supersedes the answer: a rule denies the call by now, or its arguments have changed."""
        if digest_of(waiting.call) != waiting.digest:
            return deny("its arguments changed while the question was open", "user_denied")
        verdict = self._judge(waiting.call, tool)
        return to_decision(verdict) if verdict.effect == "deny" else None

    def _approve(self, verdict: Verdict, reason: str, method: str = "user_approved") -> Decision:
        """Allow by the user's answer, with the access that the question showed; an approved plan ends the mode `plan`."""
        if verdict.method == "plan" and self.policy.mode == "plan":
            self.set_mode("ask")
        return allow(reason, method, access=verdict.access)

    def _apply_answer(
        self, waiting: PendingCall, tool: Tool, verdict: Verdict, answer: Answer
    ) -> Decision | None:
        """Apply an answer; None if it is not a known one."""
        match canonical_answer(answer):
            case "y":
                return self._approve(verdict, "the user allowed this call")
            case "once":
                return self._approve(verdict, "the user allowed exactly this call, once")
            case "n":
                return deny("the user denied this call", "user_denied")
            case "c" if answer.comment:
                reason = f"the user denied this call and says: {answer.comment}"
                return deny(reason, "user_denied", answer.comment)
            case "e" if answer.arguments is not None:
                return self._allow_edited(waiting, answer.arguments)
            case "all":
                for one in self._waiting:
                    one.settled = union(self.policy.access, verdict.access or WORKSPACE_WRITE)
                return self._approve(verdict, "the user allowed everything that was waiting")
            case "a" | "t" | "i" as lasting:
                return self._allow_lastingly(waiting, tool, verdict, SCOPES[lasting], answer.by)
            case "never":
                return self._deny_lastingly(waiting, tool, verdict, answer.by)
        return None

    def _allow_edited(self, waiting: PendingCall, arguments: dict[str, Any]) -> Decision:
        """Approve edited arguments: the pipeline validates them again, and the approval is bound to exactly these."""
        self._edited[waiting.call.id] = digest_of(replace(waiting.call, arguments=arguments))
        return allow("the user edited the arguments", "user_approved", arguments)

    def _allow_lastingly(
        self, waiting: PendingCall, tool: Tool, verdict: Verdict, scope: Scope, by: str
    ) -> Decision:
        """Allow with a grant; only once if no lasting answer is possible."""
        if not verdict.lasting:
            reason = "the user allowed this call; nothing lasting is possible for it"
            return self._approve(verdict, reason)
        shape = verdict.shape if tool.name in SHELL_TOOLS else None
        if tool.name in TYPED_TOOLS and scope == "always":
            scope = "session"  # no terminal lives longer
        extra = difference(verdict.access, self.policy.access) if verdict.access is not None else None
        grant = grant_of(
            waiting.call,
            tool,
            "allow",
            scope,
            shape,
            by=by,
            workspace=self._workspace_of(waiting.call),
            access=extra,
        )
        if scope != "always":
            self._add_session_grant(grant)
            return self._approve(verdict, f"the user allowed {shape_text(grant)} for this {scope}", scope)
        try:
            self.policy.remember(grant)
        except (OSError, ConfigError, NotAllowed) as error:
            reason = f"the user allowed this call; the answer could not be kept: {error}"
            return self._approve(verdict, reason)
        self._settled = {}
        self._on_grant(grant)
        return self._approve(verdict, f"the user always allows {shape_text(grant)}")

    def _deny_lastingly(self, waiting: PendingCall, tool: Tool, verdict: Verdict, by: str) -> Decision:
        """Deny with a lasting grant; for this session only, if it cannot be written."""
        shape = verdict.shape if tool.name in SHELL_TOOLS and tool.name not in TYPED_TOOLS else None
        command = waiting.call.arguments.get(SHELL_TOOLS.get(tool.name, ""))
        if shape is None and isinstance(command, str):
            shape = literal_pattern(command)
        place = self._workspace_of(waiting.call)
        grant = grant_of(waiting.call, tool, "deny", "always", shape, by=by, workspace=place)
        try:
            self.policy.remember(grant)
        except (OSError, ConfigError) as error:
            self._add_session_grant(
                grant_of(waiting.call, tool, "deny", "session", shape, by=by, workspace=place)
            )
            return deny(f"the user never allows this; that could not be kept: {error}", "user_denied")
        self._settled = {}
        self._on_grant(grant)
        return deny(f"the user never allows {shape_text(grant)}", "user_denied")

    def _add_session_grant(self, grant: Grant) -> None:
        self._grants = (*self._grants, grant)
        self._settled = {}
        self._on_grant(grant)
