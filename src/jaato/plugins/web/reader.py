"""Extracts text from untrusted HTML and PDF; runs in a sandbox process (see `page`)."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import Any
from urllib.parse import urljoin

from jaato.errors import ToolError

UNSEEN = "script, style, noscript, template, iframe, object, embed, svg, [hidden], [style*='display:none'], [style*='display: none']"
AROUND = "nav, footer, [role=navigation]"
MAX_NODES = 500
MAX_LINKS = 20_000


class Unreadable(ToolError):
    """The content is not what it says it is, or asks for more than is given."""

    code = "content_unreadable"


def read_html(options: dict[str, Any], data: bytes) -> dict[str, Any]:
    """A page, or the parts a selector chooses, as Markdown or plain text, with whole links.

    Of `text` there are at most `most_chars` characters, and one more where there is more.
    """
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    tree = LexborHTMLParser(data.decode("utf-8", "replace"))
    heading = tree.css_first("title")
    title = " ".join(heading.text().split()) if heading is not None else ""
    for node in tree.css(UNSEEN):
        node.decompose()
    base = options["base"]
    declared = tree.css_first("base[href]")
    if declared is not None:
        base = absolute_link(base, declared.attributes.get("href") or "") or base
    for attribute in ("href", "src"):
        for node in tree.css(f"[{attribute}]")[:MAX_LINKS]:
            link = absolute_link(base, (node.attributes.get(attribute) or "").strip())
            if link.lower().startswith(("http://", "https://", "mailto:")):
                node.attrs[attribute] = link
            else:
                del node.attrs[attribute]
    selector = options.get("selector")
    if selector:
        try:
            chosen = tree.css(selector)
        except SelectolaxError as error:
            raise Unreadable(f"The selector {selector[:100]!r} is none of CSS: {error}") from None
        parts = [node.html or "" for node in chosen[:MAX_NODES]]
        found: dict[str, Any] = {"title": title, "matches": len(chosen)}
    else:
        for node in tree.css(AROUND):
            node.decompose()
        parts, found = [tree.html or ""], {"title": title}
    read = plain_text if options.get("plain") else to_markdown
    texts = [read(part) for part in parts]
    return {**found, "text": "\n\n".join(texts)[: options["most_chars"] + 1]}


def absolute_link(base: str, place: str) -> str:
    """A link from where it stands, or nothing for one that cannot be read."""
    try:
        return urljoin(base, place)
    except ValueError:
        return ""


def plain_text(html: str) -> str:
    """HTML as its text alone."""
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(html).text(separator="\n", strip=True)


def to_markdown(html: str) -> str:
    """HTML as Markdown, or as its text where no word would be left."""
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        preprocessing=PreprocessingOptions(enabled=False),  # what to leave out was settled before
        extract_metadata=False,
        bullets="-",
        compact_tables=True,
        inline_data_media="alt_text_only",
        max_depth=1_000,
    )
    found = (convert(html, options).content or "").strip()
    # of what is nested too deep only the frame is left
    return found if any(map(str.isalnum, found)) else plain_text(html) or found


def read_pdf(options: dict[str, Any], data: bytes) -> dict[str, Any]:
    """The text of a PDF's pages until there is enough of it; a page that cannot be read is named and passed over."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    broken = (PyPdfError, DependencyError, NotImplementedError, ValueError, KeyError, TypeError, IndexError,
              AttributeError, AssertionError, ArithmeticError, RecursionError, OSError, zlib.error)  # fmt: skip
    pages: list[str] = []
    chars = letters = 0
    try:
        reader = PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("The PDF needs a password.")
        for number in range(len(reader.pages)):
            try:
                text = reader.pages[number].extract_text().strip()
                letters += len(text)
            except broken as error:
                text = f"[cannot be read: {type(error).__name__}: {str(error)[:100]}]"
            pages.append(f"[page {number + 1}]\n{text}")
            chars += len(pages[-1])
            if chars > options["most_chars"]:
                break
        about = reader.metadata
        title = str(about.title or "") if about is not None else ""
        total = len(reader.pages)
    except broken as error:
        raise Unreadable(f"The PDF cannot be read: {type(error).__name__}: {str(error)[:200]}") from None
    return {
        "title": title,
        "pages": total,
        "text": "\n\n".join(pages),
        "pages_read": len(pages),
        "letters": letters,
    }
