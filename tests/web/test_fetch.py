"""`fetch_url` against a real server on loopback: what comes back of pages, texts, PDFs and pictures."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import pytest
from tests.web.fetching import PAGE, PNG, local, plain
from tests.web.server import ask, serving, text

from jaato.errors import ToolError
from jaato.protocol.messages import Media


def test_a_page_comes_as_markdown(tmp_path: Path) -> None:
    """Headings, emphasis, tables and whole links stay; scripts, styles, menus and hidden text do not."""
    with serving(docs_page=PAGE) as site:
        found = ask(local(tmp_path), "fetch_url", url=f"{site.url}/docs/page")
        shown = text(found)
    assert "# Heading" in shown
    assert f"[three]({site.url}/docs/next?x=1)" in shown
    assert "| a | b |" in shown
    for absent in ("evil", "obey", "menu", "javascript", "x{}"):
        assert absent not in shown
    assert "never as instructions" in shown
    assert found.structured["title"] == "A & B"
    assert found.structured["status"] == 200
    assert site.seen[0].headers["host"] == f"127.0.0.1:{site.port}"


def test_a_selector_chooses_parts(tmp_path: Path) -> None:
    """Only what fits comes back; nothing fitting, and a broken selector, are said."""
    with serving(index=PAGE) as site:
        plugin = local(tmp_path)
        found = ask(plugin, "fetch_url", url=site.url, selector="td")
        assert (found.structured["matches"], text(found).split("\n\n", 1)[1]) == (2, "1\n\n2")
        assert "menu" in text(ask(plugin, "fetch_url", url=site.url, selector="nav"))
        with pytest.raises(ToolError, match="fits the selector"):
            ask(plugin, "fetch_url", url=site.url, selector=".absent")
        with pytest.raises(ToolError, match="none of CSS"):
            ask(plugin, "fetch_url", url=site.url, selector="a[[")
        assert "<script>" in text(ask(plugin, "fetch_url", url=site.url, output="raw"))
        assert "Heading\nOne\ntwo" in text(ask(plugin, "fetch_url", url=site.url, output="text"))


def test_long_content_pages(tmp_path: Path) -> None:
    """A part says where the next begins; the parts are the whole."""
    whole = "".join(f"{number:06d}\n" for number in range(100))
    with serving(index=plain(whole.encode())) as site:
        got, offset = "", 0
        while True:
            found = ask(local(tmp_path), "fetch_url", url=site.url, max_chars=300, offset=offset)
            got += text(found).split("\n\n", 1)[1]
            if "next_offset" not in found.structured:
                break
            offset = found.structured["next_offset"]
        assert got == whole


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ("grün".encode(), "text/plain", "grün"),
        ("grün".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grün"),
        ("„grün“".encode("cp1252"), "text/plain", "„grün“"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        ("grün".encode("utf-16"), "text/plain; charset=utf-8", "grün"),
        (b'<html><meta charset="koi8-r"><p>' + "да".encode("koi8-r"), "text/html", "да"),
        (b"\xef\xbb\xbfgr\xc3\xbcn", "text/plain; charset=latin-1", "grün"),
        (b"x\xff", "text/plain; charset=no-such-thing", "xÿ"),
        (b"abc", "text/plain; charset=zlib_codec", "abc"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"<a/>", "application/atom+xml", "<a/>"),
    ],
)
def test_characters_are_read_as_they_were_meant(
    tmp_path: Path, body: bytes, kind: str, expected: str
) -> None:
    """By the mark at the beginning, the header, the page itself, or what fits."""
    with serving(index=plain(body, kind)) as site:
        assert text(ask(local(tmp_path), "fetch_url", url=site.url)).endswith(expected)


def pdf(words: str) -> bytes:
    """A PDF of one page with these words."""
    stream = f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out = BytesIO()
    out.write(b"%PDF-1.4\n")
    places = []
    for number, part in enumerate(parts, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, part))
    start = out.tell()
    out.write(b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % start)
    return out.getvalue()


def test_a_pdf_comes_as_text(tmp_path: Path) -> None:
    """The words of its pages, also when the server does not say what it is; a broken one is an error."""
    with serving(
        a=plain(pdf("Hello reader"), "application/octet-stream"), b=plain(b"%PDF-1.4 no", "application/pdf")
    ) as site:
        found = ask(local(tmp_path), "fetch_url", url=f"{site.url}/a")
        assert text(found).endswith("[page 1]\nHello reader")
        assert found.structured["pages"] == 1
        with pytest.raises(ToolError, match="cannot be read"):
            ask(local(tmp_path), "fetch_url", url=f"{site.url}/b")


def test_an_image_is_seen(tmp_path: Path) -> None:
    """An image is kept as a part of the conversation; other bytes are no text, and that is said."""
    picture = PNG
    kept: list[bytes] = []

    def keep(data: bytes) -> str:
        kept.append(data)
        return "result:" + hashlib.sha256(data).hexdigest()

    with serving(a_png=plain(picture, "image/png"), b=plain(b"\0\1\2", "application/octet-stream")) as site:
        found = ask(local(tmp_path), "fetch_url", keep=keep, url=f"{site.url}/a/png")
        assert found.media == (Media("image/png", hashlib.sha256(picture).hexdigest(), len(picture), "png"),)
        assert kept == [picture]
        with pytest.raises(ToolError, match="no text"):
            ask(local(tmp_path), "fetch_url", url=f"{site.url}/b")


def test_an_error_page_is_an_answer(tmp_path: Path) -> None:
    """A status that is no success comes with its page."""
    with serving() as site:
        found = ask(local(tmp_path), "fetch_url", url=f"{site.url}/gone")
    assert found.structured["status"] == 404
    assert "nothing here" in text(found)
