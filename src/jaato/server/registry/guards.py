"""Who is let in at the registry's own address: what its gate asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.server.admission import Admission, Judge
from jaato.server.asgi import Refused, Scope, bearer, values
from jaato.server.gate import Admit
from jaato.server.names import Names
from jaato.server.registry.keys import Entrance, Keys, too_often
from jaato.server.registry.rate import Asked, Rate
from jaato.server.registry.request import BESIDE, SCOPES, Who
from jaato.server.registry.said import REALM
from jaato.server.throttle import Throttle, network_of

LOG = logger("server.registry")
UNSAID = "Give a key: Authorization: Bearer KEY."
OVER = "The time of this key is over; ask for another."
WRONG = "This key is not known here, or no longer."
OFTEN = "Too many wrong keys; try again in a second."


class Guard(Admit):
    """Decides who is let in, by the head of a request alone."""

    def stays(self, _admission: Admission) -> bool:
        """For as long as the request takes: the next one is looked at anew."""
        return True


@dataclass(frozen=True, slots=True)
class Anyone(Guard):
    """Lets in whoever calls the server by its name and is no page of somebody else's; at a rate, if there is one."""

    names: Names
    rate: Rate | None = None
    asked: Asked = field(default_factory=lambda: Asked("address"))

    async def admit(self, scope: Scope) -> Admission:
        """How this request comes in. Raises `Refused`."""
        self.names.check(scope)
        if self.rate is None or is_open(scope):
            return Admission(None, entrance=NOBODY)
        network = network_of(peer_of(scope))
        wait_s, told = self.asked.take(network, self.rate)
        if wait_s:
            raise too_often(wait_s, told)
        return Admission(None, entrance=Entrance(Who(), told, partial(self.asked.take, network, self.rate)))


NOBODY = Entrance(Who())


@dataclass(frozen=True, slots=True)
class Keyed(Guard):
    """Lets in who has the owner's token or a key besides. A right one never waits for what others have tried."""

    names: Names
    judge: Judge
    keys: Keys | None = None
    throttle: Throttle = field(default_factory=Throttle)

    async def admit(self, scope: Scope) -> Admission:
        """How this request comes in. Raises `Refused`."""
        self.names.check(scope)
        if is_open(scope):
            return Admission(None, entrance=NOBODY)
        token = bearer(values(scope, b"authorization"))
        if not token:
            raise Refused(401, UNSAID, **{"www-authenticate": REALM})
        if self.keys is not None and (entrance := self.keys.enter(token)) is not None:
            return Admission(None, entrance=entrance)
        held = self.judge.judge(token)
        if held is not None:
            return Admission(held)
        self.throttle.check(peer_of(scope), OFTEN)
        raise wrong(token, self.keys)


@dataclass(frozen=True, slots=True)
class Free(Guard):
    """Lets in anyone until the first key is made, or there is more (`grown`) than what the operator has named; then who has
    a key."""

    anyone: Anyone
    keys: Keys
    keyed: Callable[[], Keyed]
    grown: Callable[[], bool] = bool

    async def admit(self, scope: Scope) -> Admission:
        """How this request comes in. Raises `Refused`."""
        if not (self.keys.wanted or self.grown()):
            return await self.anyone.admit(scope)
        try:
            keyed = self.keyed()
        except (ConfigError, OSError) as error:
            LOG.warning("Nobody can be let in: %s", error)
            raise Refused(503, "Nobody can be let in now; the registry's log says why.") from None
        return await keyed.admit(scope)


def is_open(scope: Scope) -> bool:
    """Whether a request needs no key: it asks for nothing of the tools."""
    kind = BESIDE.get(scope["raw_path"])
    return kind is not None and SCOPES.get((kind, scope["method"].encode()), "") is None


def peer_of(scope: Scope) -> str:
    """The address a request comes from; empty for the Unix socket."""
    return str((scope.get("client") or ("",))[0])


def wrong(token: str, keys: Keys | None) -> Refused:
    """What is said to a token that lets nobody in (RFC 6750, 3)."""
    words = OVER if keys is not None and keys.over(token) else WRONG
    said = f'{REALM}, error="invalid_token", error_description="{words}"'
    return Refused(401, words, **{"www-authenticate": said})
