"""Events of permission and clarification questions, their responses, and lasting grants."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from jaato.protocol.events.envelope import EventBase
from jaato.protocol.specs import Grant, SandboxAccess


class Permission(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a call came to be allowed or denied."""

    decision: Literal["allowed", "denied"]
    reason: str
    method: str
    access: SandboxAccess | None = None
    """What the sandbox of the call's process opens; None for a call that starts none."""


class PermissionRequested(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.requested"
):
    """May this call run? An answer is bound to the digest of tool, arguments and directory; at the deadline, `default`
    counts."""

    question_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    reason: str
    options: list[str]
    shape: str | None = None
    deadline: str | None = None
    default: str = "n"
    access: SandboxAccess | None = None
    """What a yes opens to the call's process."""


class PermissionResolved(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.resolved"
):
    """The question is settled: by whom, and how."""

    question_id: str
    call_id: str
    answer: str
    permission: Permission
    by: str = ""


class PermissionGranted(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.granted"
):
    """A decision now holds for more than one question."""

    grant: Grant


class PermissionRevoked(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="permission.revoked"
):
    """A grant no longer holds."""

    grant_id: str
    reason: str = ""


class ClarificationQuestion(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="clarification.question"
):
    """The model asks the user, or the server what nobody else can know; at the deadline, the `default` of each question counts."""

    question_id: str
    call_id: str
    context: str
    questions: list[dict[str, Any]]
    deadline: str | None = None
    outcome: bool = False
    """Whether it asks what came of a call that a crash has cut off; that call is never repeated."""


class ClarificationResolved(
    EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="clarification.resolved"
):
    """The user has answered, each question with its answer (None: left open)."""

    question_id: str
    qa_pairs: list[tuple[str, str | None]]
    by: str = ""
