"""Search providers of `web_search`: DuckDuckGo and SearXNG, chosen by a setting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

import anyio
import anyio.to_thread

from jaato.errors import ConfigError, ToolError
from jaato.plugins.web.client import Client, Request, WebFailed
from jaato.tools.call import replace_surrogates
from jaato.tools.network.addresses import AllowedHosts, parse_url
from jaato.tools.network.proxy_settings import proxy_for

Period = Literal["day", "week", "month", "year"]
MAX_ANSWER_BYTES = 4_000_000
WITHIN_S = 20.0
SNIPPET_CHARS = 500


Rows = list[dict[str, str]]
"""Results with `title`, `url` and `snippet`, the best first."""


async def search_web(
    engine: str, environ: Mapping[str, str], query: str, limit: int, page: int, period: Period | None
) -> Rows:
    """Search with the provider that a setting names. Raises `ToolError`, and `ConfigError` for an unknown provider."""
    if engine in ("", "ddgs"):
        rows = await search_ddgs(environ, query, limit, page, period)
    elif engine.startswith(("http://", "https://")):
        rows = await search_searxng(engine, environ, query, page, period)
    else:
        raise ConfigError(f"search_engine is {engine!r}; write ddgs, or the URL of a SearXNG server.")
    # an engine may be made to return other URLs
    return [one for one in rows if one["url"].lower().startswith(("http://", "https://"))][:limit]


async def search_ddgs(
    environ: Mapping[str, str], query: str, limit: int, page: int, period: Period | None
) -> Rows:
    """Public search engines through ddgs, in a thread that a cancelled search leaves to its own timeout."""
    try:
        from ddgs import DDGS
    except ImportError:
        raise ToolError(
            "web_search needs ddgs: install jaato[web], or name a SearXNG server in the setting search_engine."
        ) from None
    proxy = proxy_for("https://duckduckgo.com/", environ)

    def ask() -> list[dict[str, Any]]:
        from ddgs.exceptions import DDGSException

        engine = DDGS(proxy=proxy, timeout=8)
        try:
            return list(
                engine.text(query, max_results=limit, page=page, timelimit=period[0] if period else None)
            )
        except DDGSException as error:
            if "no results" in str(error).lower():
                return []
            raise WebFailed(
                f"No search engine could be reached ({str(error)[:200]}). Check the network, try again later, "
                "or name a SearXNG server in the setting search_engine."
            ) from None

    try:
        with anyio.fail_after(WITHIN_S):
            found = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    except TimeoutError:
        raise WebFailed(f"The search did not end within {WITHIN_S:g} s; is this machine offline?") from None
    return [result_row(one.get("title"), one.get("href"), one.get("body")) for one in found]


async def search_searxng(
    place: str, environ: Mapping[str, str], query: str, page: int, period: Period | None
) -> Rows:
    """Search a SearXNG server of the user's own, by its JSON interface."""
    try:
        base = parse_url(place)
    except ToolError as error:
        raise ConfigError(f"search_engine: {error}") from None
    host = f"[{base.host}]" if ":" in base.host else base.host
    client = Client(environ, AllowedHosts.of([f"{host}:{base.port}"]))  # named by the user, so allowed
    directory = base.target.partition("?")[0].rstrip("/").removesuffix("/search")
    asked = f"q={quote(query, safe='')}&format=json&pageno={page}"
    asked += f"&time_range={period}" if period else ""
    url = base._replace(target=f"{directory}/search?{asked}")
    reply = await client.send(Request(url), most_bytes=MAX_ANSWER_BYTES, within_s=WITHIN_S)
    if reply.status == 403:
        raise WebFailed(
            f"{url.authority} does not answer in JSON; add json to search.formats in its settings."
        )
    if reply.status != 200:
        raise WebFailed(f"{url.authority} answered {reply.status} to the search. Try again later.")
    try:
        found = json.loads(reply.body)["results"]
        return [result_row(one.get("title"), one.get("url"), one.get("content")) for one in found[:100]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WebFailed(
            f"{url.authority} does not answer as SearXNG does; check the setting search_engine."
        ) from None


def result_row(title: object, url: object, snippet: object) -> dict[str, str]:
    """One result, its texts bounded and on one line."""
    texts = [" ".join(replace_surrogates(str(one or "")).split()) for one in (title, url, snippet)]
    return {"title": texts[0][:300], "url": texts[1][:2000], "snippet": texts[2][:SNIPPET_CHARS]}
