"""The models that could answer in a session, as its provider lists them."""

from __future__ import annotations

import anyio

from jaato.errors import JaatoError
from jaato.log import logger
from jaato.server.live import Live
from jaato.server.room import Room

LOG = logger("server")
PATIENCE_S = 10.0
MOST = 500


async def learn(room: Room, live: Live) -> None:
    """Tell who watches which models there are; the provider is asked once for all sessions of a workshop."""
    provider, known = live.session.model.provider, live.shop.models
    where = (provider.name, live.how.blueprint.base_url if live.how.blueprint is not None else None)
    if where not in known:
        known[where] = []
        try:
            with anyio.move_on_after(PATIENCE_S):
                known[where] = [model.id for model in await provider.models()][:MOST]
        except (JaatoError, OSError, RuntimeError) as error:  # the last by a client that was closed meanwhile
            LOG.info("%s lists no models: %s", provider.name, error)
    if known[where] and room.models != known[where]:
        room.models = known[where]
        room.tell()
