"""A list that comes in pages: where the next one is, if that is a page of the same list."""

from __future__ import annotations

import re

from jaato.plugins.arp.faults import RegistryFault
from jaato.protocol.arp import LIST_PATH
from jaato.tools.invisible_text import one_line
from jaato.tools.network.addresses import AddressRefused, Url, parse_url

MAX_PAGES = 200
MAX_LINK_CHARS = 8_000
LINK = re.compile(r'\s*<([^<>]*)>((?:\s*;\s*[\w*-]+(?:\s*=\s*(?:"[^"]*"|[^\s",;]*))?)*)\s*(?:,|$)')
RELATION = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;]*))', re.IGNORECASE)


def next_of(link: str) -> str:
    """The target of the link to the next page (RFC 8288); empty without."""
    if len(link) > MAX_LINK_CHARS:
        return ""
    at = 0
    while at < len(link):
        found = LINK.match(link, at)
        if found is None:
            return ""
        relation = RELATION.search(found[2])
        if relation is not None and "next" in (relation[1] or relation[2] or "").lower().split():
            return found[1]
        at = found.end()
    return ""


def next_path(registry: str, base: Url, link: str) -> str:
    """Where the next page is, below the registry's address; empty where this is the last. Raises `RegistryFault` for a
    link that leads out of the list."""
    target = next_of(link)
    if not target:
        return ""
    place = base._replace(target=f"{base.target}{LIST_PATH}")
    try:
        url = parse_url(target, place)
    except AddressRefused:
        url = None
    if url is None or url.origin != base.origin or url.target.partition("?")[0] != place.target:
        raise RegistryFault(
            f"The next page of the list of the registry {registry!r} is at {one_line(target, 200)}, which is not followed."
        )
    return url.target.removeprefix(base.target)
