"""The plugin `web`: `fetch_url`, `fetch_url_post`, `http_request` and `web_search`."""

from __future__ import annotations

import json
import json as json_text
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import ConfigError, ToolError
from jaato.plugins.web.client import OURS, TOKEN, VALUE, Client, Request, WebFailed, check_headers
from jaato.plugins.web.page import WARNING, Form, render_response
from jaato.tools.call import Call, Output, replace_surrogates
from jaato.tools.host_services import environ_of, service_of
from jaato.tools.network.addresses import AllowedHosts, Url, parse_url
from jaato.tools.network.pinned_connect import system_resolve
from jaato.tools.network.proxy_settings import proxy_for
from jaato.tools.tool import tool

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


MAX_BYTES = 20_000_000
MAX_BODY_BYTES = 5_000_000
UNSEEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")

Seconds = Annotated[float, msgspec.Meta(gt=0, le=120)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=MAX_BYTES)]
Chars = Annotated[int, msgspec.Meta(ge=100, le=200_000)]
Selector = Annotated[str, msgspec.Meta(max_length=1000)]
Offset = Annotated[int, msgspec.Meta(ge=0)]


def choose_setting(host: Host, name: str, default: Any) -> Any:
    """A setting: from the plugin's own configuration, else from the settings."""
    if name in host.config:
        return host.config[name]
    settings = service_of(host, "settings")
    return default if settings is None else settings[name]


def make_client(host: Host) -> Client:
    """A client within what the user allows; the host's service `resolve` looks names up, where there is one."""
    allowed = AllowedHosts.of(choose_setting(host, "allow_hosts", ()))
    return Client(environ_of(host), allowed, service_of(host, "resolve") or system_resolve)


class WebPlugin(Plugin):
    """Pages and searches. Private addresses are refused, by name, by redirect and after resolution, unless allowed."""

    name: ClassVar[str] = "web"

    @tool(category="web", access="network", aliases={"web_fetch": {}})
    async def fetch_url(
        self,
        url: str,
        selector: Annotated[
            Selector | None, "CSS selector of the parts wanted, such as main or table.data"
        ] = None,
        output: Annotated[Form, "raw leaves HTML as it is"] = "markdown",
        offset: Annotated[Offset, "next_offset of the part before"] = 0,
        max_chars: Chars = 30_000,
        headers: dict[str, str] | None = None,
        max_bytes: Bytes = 5_000_000,
        timeout_s: Seconds = 30.0,
        *,
        call: Call,
    ) -> Output:
        """Read a web page, PDF, text, JSON or image. HTML comes as Markdown without navigation; long content pages by
        offset. Private addresses are refused."""
        ask = Request(parse_url(url), headers=check_headers(headers or {}))
        reply = await make_client(self.host).send(ask, most_bytes=max_bytes, within_s=timeout_s)
        return await render_response(reply, output, selector, offset, max_chars, call)

    @tool(category="web", access="network")
    async def fetch_url_post(
        self,
        url: str,
        form: Annotated[dict[str, str] | None, "fields of a form"] = None,
        json: Annotated[Any, "a JSON body instead"] = None,
        body: Annotated[str | None, "a text body instead"] = None,
        headers: dict[str, str] | None = None,
        output: Form = "markdown",
        max_chars: Chars = 30_000,
        timeout_s: Seconds = 30.0,
        *,
        call: Call,
    ) -> Output:
        """Send a form, JSON or text by POST and read the answer like fetch_url. For other methods use http_request."""
        ask = make_request("POST", url, headers, form, json, body)
        reply = await make_client(self.host).send(ask, most_bytes=5_000_000, within_s=timeout_s)
        return await render_response(reply, output, None, 0, max_chars, call)

    @tool(category="web", access="network")
    async def http_request(
        self,
        method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
        url: str,
        headers: dict[str, str] | None = None,
        json: Annotated[Any, "JSON body"] = None,
        body: Annotated[str | None, "text body instead"] = None,
        follow_redirects: bool = False,
        auth: Annotated[
            str | None, "environment variable with the key, which the user granted to this host"
        ] = None,
        auth_as: Annotated[str, "bearer, basic or the header that takes the key"] = "bearer",
        max_chars: Chars = 30_000,
        timeout_s: Seconds = 30.0,
    ) -> Output:
        """One HTTP request of any method: returns status, headers and the body as it is. Use it to call or test an
        API; fetch_url reads pages."""
        ask = make_request(method, url, headers, None, json, body)
        if auth is not None:
            ask = add_key(ask, auth_as, get_granted_key(self.host, auth, ask.url))
        client = make_client(self.host)
        reply = await client.send(ask, most_bytes=5_000_000, within_s=timeout_s, follow=follow_redirects)
        return await response_fields(reply, max_chars)

    @tool(category="search", access="network")
    async def web_search(
        self,
        query: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)],
        limit: Annotated[int, msgspec.Meta(ge=1, le=25)] = 8,
        page: Annotated[int, msgspec.Meta(ge=1, le=20)] = 1,
        period: Annotated[Period | None, "only what is as new as this"] = None,
    ) -> Output:
        """Search the web. Returns titles, URLs and snippets, best first; read a page with fetch_url. Use it for facts
        you do not know or that change."""
        if not query.strip():
            raise ToolError("The query is empty; say what to search for.")
        engine = choose_setting(self.host, "search_engine", "ddgs")
        rows = await search_web(engine, environ_of(self.host), query, limit, page, period)
        lines = [
            f"{at}. {one['title']}\n   {one['url']}\n   {one['snippet']}" for at, one in enumerate(rows, 1)
        ]
        head = f"[{len(rows)} results. {WARNING}]" if rows else "[No results; use other words.]"
        return Output(replace_surrogates("\n\n".join([head, *lines])), {"results": rows})


def make_request(
    method: str,
    url: str,
    headers: Mapping[str, str] | None,
    form: Mapping[str, str] | None,
    json: Any,
    body: str | None,
) -> Request:
    """A request with one body at most, and the content type that says what it is."""
    given = [one for one in (form, json, body) if one is not None]
    if len(given) > 1:
        raise ToolError("Give one body only: form, json or body.")
    fields = dict(headers or {})
    data: bytes | None = None
    kind = ""
    if form is not None:
        data, kind = urlencode(form).encode(), "application/x-www-form-urlencoded"
    elif json is not None:
        data, kind = json_text.dumps(json, ensure_ascii=False).encode("utf-8", "replace"), "application/json"
    elif body is not None:
        data, kind = body.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    if data is not None and len(data) > MAX_BODY_BYTES:
        raise ToolError(f"The body has {len(data)} bytes; at most {MAX_BODY_BYTES} are sent.")
    if kind and not any(name.lower() == "content-type" for name in fields):
        fields["Content-Type"] = kind
    return Request(parse_url(url), method, check_headers(fields), data)


def get_granted_key(host: Host, variable: str, url: Url) -> str:
    """The value of a variable that the user granted to the host of a URL. Raises `ToolError`, and `ConfigError`."""
    places = (url.host, f"{url.host}:{url.port}")
    granted = set()
    for entry in choose_setting(host, "service_keys", ()):
        name, mark, place = (part.strip() for part in entry.partition("="))
        if not (mark and name and place):
            raise ConfigError(f"service_keys: {entry!r} is no grant; write VARIABLE=host.")
        if name == variable:
            granted.add(place.lower())
    if granted.isdisjoint(places):
        raise ToolError(
            f"{variable[:60]} may not be sent to {url.authority}. The user can allow it: the setting service_keys "
            f"with {variable[:60]}={url.authority}."
        )
    if url.scheme != "https" and places[1] not in granted:
        raise ToolError(
            f"http://{url.authority} is not https. To send a key there all the same, grant it to {places[1]}."
        )
    value = environ_of(host).get(variable, "")
    if not value:
        raise ToolError(f"The environment has no {variable[:60]}; the user must set it before jaato starts.")
    return value


def add_key(ask: Request, auth_as: str, key: str) -> Request:
    """The request with a key, in place of what the caller put there. Raises `ToolError`."""
    match auth_as.lower():
        case "bearer":
            name, value = "Authorization", f"Bearer {key}"
        case "basic":
            name, value = "Authorization", "Basic " + b64encode(key.encode()).decode()
        case _:
            name, value = auth_as, key
    if not TOKEN.fullmatch(name) or not VALUE.fullmatch(value) or name.lower() in OURS:
        raise ToolError(f"The key cannot be sent as {name[:60]!r}: no header takes it.")
    kept = tuple(one for one in ask.headers if one[0].lower() != name.lower())
    return replace(ask, headers=(*kept, (name, value)))


async def response_fields(reply: Any, max_chars: int) -> Output:
    """Status, headers and body of an answer, JSON as data for programs."""
    from jaato.plugins.web.page import TEXTUAL, decode_response, media_type

    kind = media_type(reply)
    headers: dict[str, str] = {}
    for name, value in reply.headers[:60]:
        before = f"{headers[name.lower()]}, " if name.lower() in headers else ""
        headers[name.lower()[:100]] = before + UNSEEN.sub("\ufffd", value)[:500]
    facts: dict[str, Any] = {
        "url": str(reply.url),
        "status": reply.status,
        "headers": headers,
        "size_bytes": len(reply.body),
    }
    content = (
        await decode_response(reply)
        if TEXTUAL.match(kind)
        else f"[{len(reply.body)} bytes of {kind}]" * bool(reply.body)
    )
    cut = reply.cut or len(content) > max_chars
    if cut:
        facts["truncated"] = True
    elif "json" in kind:
        try:
            facts["json"] = json_text.loads(content)
        except (ValueError, RecursionError):
            facts["json_problem"] = "it is declared as JSON and is none"
    if reply.notes:
        facts["notes"] = reply.notes
    lines = [f"{name}: {value}" for name, value in headers.items()]
    notes = "".join(f" {note.removesuffix('.')}." for note in reply.notes) + (" It is cut." if cut else "")
    head = f"[{reply.url} answered {reply.status}.{notes} {WARNING}]"
    return Output(replace_surrogates("\n".join([head, *lines, "", content[:max_chars]])), facts)
