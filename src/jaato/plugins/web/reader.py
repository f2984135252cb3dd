"""Reads what strangers sent in a process of its own, within bounds of memory and time: HTML, PDF, YAML.

Run as a script: kind and options as arguments, the bytes on standard input, one JSON object on standard output.
"""

from __future__ import annotations

import json
import sys
from io import BytesIO
from typing import Any
from urllib.parse import urljoin

MEMORY_BYTES = 1_500_000_000
CPU_S = 15
UNSEEN = "script, style, noscript, template, iframe, object, embed, svg, [hidden], [style*='display:none'], [style*='display: none']"
AROUND = "nav, footer, [role=navigation]"
MAX_NODES = 500
MAX_VALUES = 2_000_000
MAX_LINKS = 20_000


def bound(cpu_s: int) -> None:
    """Bounds that end this process, not the one it works for."""
    try:
        import resource
    except ImportError:
        return  # the parent's clock is then the only bound
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            continue


def read_html(data: bytes, options: dict[str, Any]) -> dict[str, Any]:
    """A page, or the parts a selector chooses, as Markdown or plain text, with whole links."""
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    tree = LexborHTMLParser(data.decode("utf-8", "replace"))
    heading = tree.css_first("title")
    title = " ".join(heading.text().split()) if heading is not None else ""
    for node in tree.css(UNSEEN):
        node.decompose()
    base = options["base"]
    declared = tree.css_first("base[href]")
    if declared is not None:
        base = urljoin(base, declared.attributes.get("href") or "")
    for attribute in ("href", "src"):
        for node in tree.css(f"[{attribute}]")[:MAX_LINKS]:
            settle(node, attribute, base)
    selector = options.get("selector")
    if selector:
        try:
            chosen = tree.css(selector)
        except SelectolaxError as error:
            return {"error": f"The selector {selector[:100]!r} is none of CSS: {error}"}
        parts = [node.html or "" for node in chosen[:MAX_NODES]]
        found: dict[str, Any] = {"title": title, "matches": len(chosen)}
    else:
        for node in tree.css(AROUND):
            node.decompose()
        parts, found = [tree.html or ""], {"title": title}
    if options.get("plain"):
        texts = [LexborHTMLParser(part).text(separator="\n", strip=True) for part in parts]
        return {**found, "text": "\n\n".join(texts)}
    return {**found, "text": "\n\n".join(markdown(part) for part in parts)}


def settle(node: Any, attribute: str, base: str) -> None:
    """Make one link whole; those that are no link of the web lose it."""
    place = (node.attributes.get(attribute) or "").strip()
    try:
        whole = urljoin(base, place)
    except ValueError:
        whole = ""
    if whole.lower().startswith(("http://", "https://", "mailto:")):
        node.attrs[attribute] = whole
    else:
        del node.attrs[attribute]


def markdown(html: str) -> str:
    """HTML as Markdown."""
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        preprocessing=PreprocessingOptions(enabled=False),  # what to leave out was settled before
        extract_metadata=False,
        bullets="-",
        compact_tables=True,
        inline_data_media="alt_text_only",
        max_depth=400,
    )
    return (convert(html, options).content or "").strip()


def read_pdf(data: bytes, options: dict[str, Any]) -> dict[str, Any]:
    """The text of a PDF's pages until there is enough of it."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "The PDF needs a password."}
        pages, size = [], 0
        for number, page in enumerate(reader.pages, 1):
            text = page.extract_text()
            pages.append(f"[page {number}]\n{text.strip()}")
            size += len(text)
            if size > options["most_chars"]:
                break
        about = reader.metadata
        title = str(about.title or "") if about is not None else ""
        return {
            "title": title,
            "pages": len(reader.pages),
            "text": "\n\n".join(pages),
            "pages_read": len(pages),
        }
    except (PyPdfError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        return {"error": f"The PDF cannot be read: {type(error).__name__}: {str(error)[:200]}"}


def read_yaml(data: bytes, _options: dict[str, Any]) -> dict[str, Any]:
    """A YAML document as JSON data; dates stay text."""
    import yaml

    fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in fast.yaml_implicit_resolvers.items()
    }
    loader: Any = type("Loader", (fast,), {"yaml_implicit_resolvers": resolvers})
    try:
        value = yaml.load(data, loader)  # noqa: S506 - a safe loader without dates
        if unfolded(value, {}) > MAX_VALUES:
            return {"error": f"It unfolds to more than {MAX_VALUES} values; that is too large."}
        return {"value": value}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return {"error": f"It is no YAML: {' '.join(str(error).split())[:300]}"}


def unfolded(value: Any, known: dict[int, int]) -> int:
    """How many values there are once every alias is written out; a circle counts as too many."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if id(value) in known:
        return known[id(value)]
    if not parts:
        return 1
    known[id(value)] = MAX_VALUES + 1
    total = 1 + sum(unfolded(part, known) for part in parts)
    known[id(value)] = total
    return total


READERS = {"html": read_html, "pdf": read_pdf, "yaml": read_yaml}


def main() -> None:
    """Read, answer, end."""
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    sys.path += options.pop("libraries")
    bound(options.pop("cpu_s", CPU_S))
    data = sys.stdin.buffer.read()
    most = options.pop("most_bytes")
    try:
        answer = json.dumps(READERS[kind](data, options), allow_nan=False, default=str)
    except (MemoryError, RecursionError):
        answer = json.dumps({"error": "It is too large or too deep to be read."})
    except ValueError as error:
        answer = json.dumps({"error": f"It cannot be read: {str(error)[:200]}"})
    if len(answer) > most:
        answer = json.dumps({"error": f"It unfolds to {len(answer)} bytes; at most {most} are taken."})
    sys.stdout.write(answer)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
