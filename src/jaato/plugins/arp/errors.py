"""The errors of tool registries and of calls to them."""

from __future__ import annotations

from jaato.errors import ToolError
from jaato.protocol.messages import Problem


class RegistryFault(ToolError):
    """A registry cannot be reached, is too slow, or does not answer as the contract says."""

    code = "registry_failed"
    retryable = True


class CallLost(RegistryFault):
    """A call was sent and its answer did not come: whether it was carried out is not known."""

    code = "registry_call_lost"
    retryable = False


class RegistryUnusable(ToolError):
    """A registry that may not be asked: not trusted, switched off, not configured, a key missing."""

    code = "registry_unusable"
    exit_code = 2


class RegistryRefusal(ToolError):
    """The registry answered with an error of its own; `problem` has its code, and whether it can be tried again."""

    code = "registry_refused"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
