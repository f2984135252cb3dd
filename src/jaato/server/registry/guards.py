"""Who is let in at the registry's own address, by the head of a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.server.admission import Judge
from jaato.server.asgi import Refused, Scope, bearer, values
from jaato.server.names import Names
from jaato.server.registry.keys import Keys, too_often
from jaato.server.registry.rate import Asked, Rate
from jaato.server.registry.request import EVERYTHING, Request, Who, is_open
from jaato.server.registry.said import REALM
from jaato.server.throttle import Throttle, network_of

LOG = logger("server.registry")
UNSAID = "Give a key: Authorization: Bearer KEY."
OVER = "The time of this key is over; ask for another."
WRONG = "This key is not known here, or no longer."
OFTEN = "Too many wrong keys; try again in a second."


class Guard(Protocol):
    """Decides who is let in, by the head of a request."""

    def admit(self, request: Request, peer: str) -> Who:
        """Whose calls these are. Raises `Refused`."""
        ...


@dataclass(frozen=True, slots=True)
class Anyone:
    """Lets in whoever calls the server by its name and is no page of somebody else's; at a rate, if there is one."""

    names: Names
    rate: Rate | None = None
    asked: Asked = field(default_factory=lambda: Asked("address"))

    def admit(self, request: Request, peer: str) -> Who:
        """Whose calls these are. Raises `Refused`."""
        self.names.check(head_of(request))
        if self.rate is not None and not is_open(request):
            wait_s, told = self.asked.take(network_of(peer), self.rate)
            if wait_s:
                raise too_often(wait_s, told)
            request.told, request.spend = told, partial(self.asked.take, network_of(peer), self.rate)
        return NOBODY


NOBODY = Who()


@dataclass(frozen=True, slots=True)
class Keyed:
    """Lets in who has the owner's token or a key besides. A right one never waits for what others have tried."""

    names: Names
    judge: Judge
    keys: Keys | None = None
    throttle: Throttle = field(default_factory=Throttle)

    def admit(self, request: Request, peer: str) -> Who:
        """Whose calls these are. Raises `Refused`."""
        head = head_of(request)
        self.names.check(head)
        if is_open(request):
            return NOBODY
        token = bearer(values(head, b"authorization"))
        if not token:
            raise Refused(401, UNSAID, **{"www-authenticate": REALM})
        if self.keys is not None and (entrance := self.keys.enter(token)) is not None:
            request.told, request.spend = entrance.told, entrance.spend
            return entrance.who
        held = self.judge.judge(token)
        if held is not None:
            name = held.name or held.role
            return Who(f"token {held.digest or name}", name, EVERYTHING)
        self.throttle.check(peer, OFTEN)
        raise wrong(token, self.keys)


@dataclass(frozen=True, slots=True)
class Free:
    """Lets in anyone until the first key is made, or there is more (`grown`) than what the operator has named; then who has
    a key."""

    anyone: Anyone
    keys: Keys
    keyed: Callable[[], Keyed]
    grown: Callable[[], bool] = bool

    def admit(self, request: Request, peer: str) -> Who:
        """Whose calls these are. Raises `Refused`."""
        if not (self.keys.wanted or self.grown()):
            return self.anyone.admit(request, peer)
        try:
            keyed = self.keyed()
        except (ConfigError, OSError) as error:
            LOG.warning("Nobody can be let in: %s", error)
            raise Refused(503, "Nobody can be let in now; the registry's log says why.") from None
        return keyed.admit(request, peer)


def head_of(request: Request) -> Scope:
    """What names are looked for in."""
    return {"headers": request.headers, "http_version": "1.0" if request.old else "1.1"}


def wrong(token: str, keys: Keys | None) -> Refused:
    """What is said to a token that lets nobody in (RFC 6750, 3)."""
    words = OVER if keys is not None and keys.over(token) else WRONG
    said = f'{REALM}, error="invalid_token", error_description="{words}"'
    return Refused(401, words, **{"www-authenticate": said})
