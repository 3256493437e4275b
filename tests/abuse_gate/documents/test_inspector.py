from __future__ import annotations

import asyncio
import gc
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from documents import HARMLESS, INJECTION, docx, html, line, part, pdf, run

from lockgate.abuse_gate.documents.extracted_text import HIDING_WAYS, ExtractedText
from lockgate.abuse_gate.documents.html import read_html
from lockgate.abuse_gate.documents.inspector import InspectionLimits, Inspector, _parse_answer
from lockgate.abuse_gate.request.payload_from_body import (
    InspectedUpload,
    NormalizedRequest,
    Upload,
    payload_from_request,
)
from lockgate.core.text.scanner import Scanner
from lockgate.verifiers.adapters import LocalRuleAdapter

PATIENT = InspectionLimits(timeout_s=60, total_s=120)


@pytest.fixture(scope="module")
def inspector(scanner: Scanner) -> Iterator[Inspector]:
    made = Inspector(PATIENT, scanner=scanner)
    yield made
    asyncio.run(made.close())


def look(inspector: Inspector, data: bytes, name: str = "a", content_type: str = "") -> InspectedUpload:
    (found,) = asyncio.run(inspector.inspect([Upload(name, content_type, data)]))
    return found


PAGE = line(HARMLESS)
PARAGRAPH = run(HARMLESS)
P = f"<p>{HARMLESS}</p>"


def hidden_pdf(text: str) -> dict[str, bytes]:
    under = line(text, y=600)
    return {
        "white": pdf(PAGE + line(text, y=600, before="1 g")),
        "nearly white, as three colours": pdf(PAGE + line(text, y=600, before="0.99 1 0.98 rg")),
        "white, as inks": pdf(PAGE + line(text, y=600, before="0 0 0 0 k")),
        "white, in a colour space": pdf(PAGE + line(text, y=600, before="/DeviceRGB cs 1 1 1 sc")),
        "blue on blue": pdf(PAGE + "0 0 1 rg 50 590 500 40 re f " + line(text, y=600, before="0 0 1 rg")),
        "tiny": pdf(PAGE + line(text, y=600, size=0.5)),
        "tiny by its matrix": pdf(PAGE + line(text, y=600, before="0.02 0 0 0.02 0 0 cm")),
        "below the page": pdf(PAGE + line(text, y=-500)),
        "beside the page": pdf(PAGE + line(text, x=5000)),
        "moved away inside an array": pdf(PAGE + f"BT /F1 12 Tf 72 600 Td [-900000 ({text})] TJ ET"),
        "cut off": pdf(PAGE + line(text, y=600, before="10 10 5 5 re W n")),
        "cut to nothing": pdf(PAGE + line(text, y=600, before="10 10 90 90 re W n 300 300 9 9 re W* n")),
        "without width": pdf(PAGE + line(text, y=600, before="0 Tz")),
        "without ink": pdf(PAGE + line(text, y=600, before="3 Tr")),
        "transparent": pdf(PAGE + line(text, y=600, before="/G1 gs"), state="/ca 0"),
        "covered": pdf(PAGE + under + "1 g 50 590 560 40 re f"),
        "in a form": pdf(PAGE + "/X1 Do", form=line(text, y=600, before="1 g")),
        "on the second page": pdf(PAGE, PAGE + line(text, y=600, before="1 g")),
    }


def hidden_docx(text: str) -> dict[str, bytes]:
    style = '<w:style w:styleId="S"><w:rPr>{}</w:rPr></w:style><w:style w:styleId="T"><w:basedOn w:val="S"/></w:style>'
    anchor = "<wp:anchor><wp:positionH><wp:posOffset>-90000000</wp:posOffset></wp:positionH>{}</wp:anchor>"
    return {
        "vanish": docx(PARAGRAPH, run(text, "<w:vanish/>")),
        "white": docx(PARAGRAPH, run(text, '<w:color w:val="FFFFFF"/>')),
        "nearly white": docx(PARAGRAPH, run(text, '<w:color w:val="FEFEFE"/>')),
        "black on black": docx(PARAGRAPH, run(text, '<w:color w:val="000000"/><w:shd w:fill="000000"/>')),
        "one point": docx(PARAGRAPH, run(text, '<w:sz w:val="2"/>')),
        "by a style": docx(
            PARAGRAPH,
            run(text, '<w:rStyle w:val="T"/>'),
            parts={"word/styles.xml": part(style.format("<w:vanish/>"), "w:styles")},
        ),
        "off the page": docx(PARAGRAPH, anchor.format(run(text))),
        "in a header": docx(
            PARAGRAPH, parts={"word/header1.xml": part(f"<w:p>{run(text, '<w:vanish/>')}</w:p>", "w:hdr")}
        ),
        "in a part of any name": docx(PARAGRAPH, parts={"x/page.xml": part(f"<w:p>{run(text, '<w:vanish/>')}</w:p>")}),
        "word by word": docx(PARAGRAPH, "".join(run(f"{word} ", "<w:vanish/>") for word in text.split())),
    }


def hidden_html(text: str) -> dict[str, bytes]:
    return {
        "white": html(f'{P}<p style="color:white">{text}</p>'),
        "white by a class": html(f'{P}<p class="w x">{text}</p>', head="<style>.w { color: #fff }</style>"),
        "white by inheritance": html(f'{P}<div style="color:#FFFFFF"><p><b>{text}</b></p></div>'),
        "like its background": html(f'{P}<p style="background:#123456;color:rgb(18,52,86)">{text}</p>'),
        "with a font tag": html(f'{P}<font color="white">{text}</font>'),
        "one pixel": html(f'{P}<p style="font-size:1px">{text}</p>'),
        "in a small part of a size": html(f'{P}<p style="font-size:0.05em">{text}</p>'),
        "transparent ink": html(f'{P}<p style="color:transparent">{text}</p>'),
        "letter by letter": html(P + "<p>" + "".join(f'<span style="color:#fff">{letter}</span>' for letter in text)),
    }


def aside(text: str) -> dict[str, bytes]:
    core = f"<dc:description>{text}</dc:description>"
    return {
        "pdf subject": pdf(PAGE, info={"Title": "Rain", "Subject": text}),
        "pdf note": pdf(PAGE, annotation=text),
        "docx deleted": docx(PARAGRAPH, f"<w:del>{run(text, tag='delText')}</w:del>"),
        "docx comment": docx(PARAGRAPH, parts={"word/comments.xml": part(f"<w:p>{run(text)}</w:p>", "w:comments")}),
        "docx description": docx(PARAGRAPH, parts={"docProps/core.xml": part(core, "cp:coreProperties")}),
        "docx alt text": docx(PARAGRAPH, f'<w:r><wp:docPr id="1" descr="{text}"/></w:r>'),
        "docx field": docx(PARAGRAPH, run(text, tag="instrText")),
        "docx variable": docx(
            PARAGRAPH, parts={"word/settings.xml": part(f'<w:docVar w:val="{text}"/>', "w:settings")}
        ),
        "html display none": html(f'{P}<div style="display: none !important">{text}</div>'),
        "html hidden": html(f"{P}<div hidden>{text}</div>"),
        "html hidden by a rule": html(
            f'{P}<div id="h">{text}</div>', head="<style>@media print{a{}} div#h{display:none}</style>"
        ),
        "html off the page": html(f'{P}<p style="position:absolute;left:-9999px">{text}</p>'),
        "html indented away": html(f'{P}<p style="text-indent:-99999px">{text}</p>'),
        "html clipped": html(f'{P}<p style="clip:rect(0 0 0 0);position:absolute">{text}</p>'),
        "html no room": html(f'{P}<p style="height:0;overflow:hidden">{text}</p>'),
        "html opacity": html(f'{P}<p style="opacity:0">{text}</p>'),
        "html comment": html(f"{P}<!-- {text} -->"),
        "html meta": html(P, head=f'<meta name="description" content="{text}">'),
        "html alt": html(f'{P}<img src="a.png" alt="{text}">'),
        "html script": html(f"{P}<script>var a = '{text}'</script>"),
        "html style": html(P, head=f"<style>p::before {{ content: '{text}' }}</style>"),
        "html frame": html(f'{P}<iframe srcdoc="<p>{text}</p>"></iframe>'),
        "html template": html(f"{P}<template>{text}</template>"),
        "html input": html(f'{P}<input type="hidden" value="{text}">'),
        "html label": html(f'{P}<a aria-label="{text}" href="#">x</a>'),
    }


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(data, kind, id=f"{kind} {name}")
        for kind, made in (("pdf", hidden_pdf), ("docx", hidden_docx), ("html", hidden_html))
        for name, data in made(HARMLESS).items()
    ],
)
def test_what_no_eye_can_see_is_hidden_whatever_it_says(data: bytes, kind: str, inspector: Inspector) -> None:
    found = look(inspector, data)
    assert found.rule_hits == (f"{kind}:hidden",)
    assert found.complete
    assert HARMLESS in " ".join(found.hidden[0].split())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(data, id=name)
        for made in (hidden_pdf, hidden_docx, hidden_html, aside)
        for name, data in made(INJECTION).items()
    ],
)
def test_hidden_text_that_speaks_to_an_agent_is_an_injection(
    data: bytes, inspector: Inspector, scanner: Scanner
) -> None:
    upload = Upload("a", "", data)
    found = look(inspector, data)
    assert f"{found.kind}:hidden" in found.rule_hits
    assert "inj:override_safety" in found.rule_hits
    payload = payload_from_request(NormalizedRequest((), (upload,)), [found])
    assert LocalRuleAdapter(scanner=scanner).assess(payload) == "unsafe"


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in aside(HARMLESS).items()])
def test_what_documents_are_made_of_is_not_held_against_them(
    data: bytes, inspector: Inspector, scanner: Scanner
) -> None:
    found = look(inspector, data)
    assert found.rule_hits == ()
    assert found.complete
    payload = payload_from_request(NormalizedRequest((), (Upload("a", "", data),)), [found])
    assert LocalRuleAdapter(scanner=scanner).assess(payload) == "safe"


MENU = "".join(f"<li><a href='#{number}'>Chapter {number} of the guide</a></li>" for number in range(40))
DARK = "0 0 0.3 rg 0 580 612 60 re f "
TABLE = (
    '<w:tbl><w:tr><w:tc><w:tcPr><w:shd w:fill="1F3864"/></w:tcPr><w:p>'
    + run(HARMLESS, '<w:color w:val="FFFFFF"/>')
    + "</w:p></w:tc></w:tr></w:tbl>"
)
ORDINARY = {
    "page numbers": pdf(*(PAGE + line(str(number), x=300, y=20, size=8) for number in range(3))),
    "white on a dark bar": pdf(DARK + line(HARMLESS, y=600, before="1 g") + PAGE),
    "white on a picture": pdf("q 612 0 0 792 0 0 cm /I1 Do Q " + line(HARMLESS, before="1 g"), image=True),
    "white on a shade": pdf("/S1 sh " + line(HARMLESS, before="1 g") + PAGE),
    "a few white letters": pdf(PAGE + line("1 2 3", y=600, before="1 g")),
    "a scan with recognised text": pdf("q 612 0 0 792 0 0 cm /I1 Do Q " + line(HARMLESS, before="3 Tr"), image=True),
    "cut to where it stands": pdf(line(HARMLESS, before="60 690 500 40 re W n")),
    "a picture behind a text": pdf("q 300 0 0 300 0 0 cm /I1 Do Q " + PAGE, image=True),
    "a box behind a text": pdf("0.9 g 50 690 500 30 re f " + PAGE + "1 g 50 100 500 30 re f"),
    "letters of one unit": pdf(f"BT /F1 1 Tf 12 0 0 12 72 700 Tm ({HARMLESS}) Tj ET"),
    "a title and its maker": pdf(PAGE, info={"Title": "Rain", "Author": "A. Writer", "Producer": "Some program 1.2"}),
    "a table with a dark head": docx(TABLE, PARAGRAPH),
    "inserted words": docx(f"<w:ins>{PARAGRAPH}</w:ins>"),
    "a mark that is hidden": docx(f"<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>{PARAGRAPH}"),
    "not to be hidden": docx(run(HARMLESS, '<w:vanish w:val="0"/>')),
    "a table of contents": docx(PARAGRAPH, run('TOC \\o "1-3" \\h \\z \\u', tag="instrText")),
    "a menu for those who listen": html(
        f'<ul class="sr">{MENU}</ul>{P}', head="<style>.sr{position:absolute;left:-9999px}</style>"
    ),
    "a menu that opens": html(f'<ul style="display:none">{MENU}</ul>{P}'),
    "a skip link": html(f'<a style="position:absolute;top:-1000px" href="#m">Skip to content</a>{P}'),
    "white on dark": html(f'<div style="background:#222"><p style="color:white">{HARMLESS}</p></div>{P}'),
    "white on a picture by a rule": html(
        f'<h1 class="hero">{HARMLESS}</h1>', head="<style>.hero{background:url(a.jpg);color:#fff}</style>"
    ),
    "an inherited dark page": html(f"<p>{HARMLESS}</p>", head="<style>body{background:#000;color:#eee}</style>"),
    "for print only": html(P, head="<style>@media print { p { display: none } }</style>"),
    "letters in a gradient": html(
        f'<h1 style="color:transparent;background:linear-gradient(red,blue);background-clip:text">{HARMLESS}</h1>'
    ),
    "conditional comments": html(f"<!--[if lt IE 9]><script src='a.js'></script><![endif]-->{P}<!-- end of main -->"),
    "a script": html(f"{P}<script>function f(token) {{ return fetch('/a?b=' + token) }}</script>"),
    "unclosed tags": html(f"<ul><li>one<li>two</ul><p>{HARMLESS}<p>{HARMLESS}"),
}


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in ORDINARY.items()])
def test_an_ordinary_document_is_not_flagged(data: bytes, inspector: Inspector) -> None:
    found = look(inspector, data)
    assert found.rule_hits == ()
    assert found.complete
    assert any(text.strip() for text in found.texts)


def test_an_injection_in_plain_sight_is_one_too(inspector: Inspector) -> None:
    for data in (
        pdf(line(INJECTION)),
        docx(run(INJECTION)),
        html(INJECTION),
        INJECTION.encode(),
        INJECTION.encode("utf-16"),
    ):
        hits = look(inspector, data).rule_hits
        assert "inj:override_safety" in hits
        # In another charset the same bytes may be less than an attack.
        assert set(hits) <= {"inj:override_safety", "text:override"}


def test_a_long_text_moved_off_a_page_is_no_menu(inspector: Inspector) -> None:
    found = look(inspector, html(f'{P}<p style="position:absolute;left:-9999px">{HARMLESS * 5}</p>'))
    assert found.rule_hits == ("html:hidden",)


def test_every_way_to_hide_is_shown_by_a_test(inspector: Inspector) -> None:
    seen = set()
    for made in (hidden_html, aside):
        for data in made(INJECTION).values():
            if data.startswith(b"<!doctype"):
                found = ExtractedText(10_000)
                read_html(data.decode(), found)
                seen |= {how for how, _ in found.hidden}
    assert seen | {"invisible", "off_page", "covered", "vanish", "tracked", "annotation"} == set(HIDING_WAYS)


# --- hostile files


def bomb(uncompressed: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as entry:
        entry.write(b"<w:document><w:body><w:p><w:r><w:t>")
        for _ in range(uncompressed // 1_000_000):
            entry.write(b"x" * 1_000_000)
    return out.getvalue()


def flate_bomb() -> bytes:
    squeezed = zlib.compress(b"0 g " * 25_000_000, 9)
    return pdf("@").replace(
        b"<<  /Length 1 >>\nstream\n@", b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(squeezed) + squeezed
    )


ENTITIES = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><a>&b;</a>'
OUTSIDE = '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'
# The bombs are made where they are used: that takes a second.
HOSTILE: dict[str, bytes | Callable[[], bytes]] = {
    "a zip bomb": lambda: bomb(100_000_000),
    "entities": docx("", parts={"word/document.xml": ENTITIES}),
    "an outside entity": docx("", parts={"word/document.xml": OUTSIDE}),
    "a deep tree": docx("<w:a>" * 10_000),
    "not XML": docx("", parts={"word/document.xml": b"\x00\x01"}),
    "many entries": docx("", parts={f"a{number}": b"" for number in range(5000)}),
    "a document in a document in a document": docx(
        PARAGRAPH, parts={"word/embeddings/a.docx": docx(PARAGRAPH, parts={"b.docx": docx(PARAGRAPH)})}
    ),
    "an archive in a document that is none": docx(
        PARAGRAPH, parts={"word/embeddings/a.xlsx": b"PK\x03\x04" + bytes(99)}
    ),
    "a bomb in a document": lambda: docx(PARAGRAPH, parts={"word/embeddings/a.docx": bomb(64 << 20)}),
    "a macro": docx(PARAGRAPH, parts={"word/vbaProject.bin": b"\xd0\xcf\x11\xe0" + bytes(100)}),
    "no zip": b"PK\x03\x04" + b"word/document" + b"PK\x05\x06" + b"\x00" * 40,
    "a flate bomb": flate_bomb,
    "more boxes than are looked at": pdf(PAGE + "1 1 1 1 re f " * 5000 + line(HARMLESS, y=600, before="1 g")),
    "no PDF": b"%PDF-1.7\n" + b"\x00" * 100,
    "a page tree in a circle": pdf("").replace(b"/Kids [", b"/Kids [6 0 R 5 0 R 4 0 R 3 0 R "),
    "a form in itself": pdf(PAGE + "/X1 Do", form="/X1 Do").replace(
        b"/Resources << /Font << /F1 1 0 R >> >>", b"/Resources << /XObject << /X1 2 0 R >> >>"
    ),
    "a deep page": html("<div>" * 10_000),
    "any archive": b"PK\x03\x04" + b"\x00" * 40,
    "any bytes": bytes(range(256)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_unread_and_does_no_harm(name: str, inspector: Inspector, scanner: Scanner) -> None:
    made = HOSTILE[name]
    data = made() if callable(made) else made
    found = look(inspector, data)
    assert "artifact:unread" in found.rule_hits
    assert not found.complete
    payload = payload_from_request(NormalizedRequest((), (Upload("a", "", data),)), [found])
    assert LocalRuleAdapter(scanner=scanner).assess(payload) == "unclear"
    assert look(inspector, html(P)).complete


def test_limits_are_kept(scanner: Scanner) -> None:
    async def check() -> None:
        inspector = Inspector(
            InspectionLimits(pages=1, characters=50, document_bytes=5000, timeout_s=60, total_s=60), scanner=scanner
        )
        long_page, long_text, large, fine = await inspector.inspect(
            [
                Upload("a", "", pdf(line("One"), line("Two"))),
                Upload("b", "", html(P)),
                Upload("c", "", b"x" * 6000),
                Upload("d", "", html("x")),
            ]
        )
        assert long_page.texts == ("One",)
        assert [one.complete for one in (long_page, long_text, large, fine)] == [False, False, False, True]
        await inspector.close()

    asyncio.run(check())


def test_a_late_worker_is_ended_and_the_next_document_gets_another(scanner: Scanner) -> None:
    async def check() -> None:
        inspector = Inspector(InspectionLimits(timeout_s=0.001, total_s=60), scanner=scanner)
        (late,) = await inspector.inspect([Upload("a", "", pdf(PAGE))])
        assert late.rule_hits == ("artifact:unread",)
        inspector.limits = PATIENT
        (fine,) = await inspector.inspect([Upload("a", "", pdf(PAGE))])
        assert fine.complete
        await inspector.close()

    asyncio.run(check())


def test_no_upload_waits_longer_than_the_whole_may_take(scanner: Scanner) -> None:
    async def check() -> None:
        inspector = Inspector(InspectionLimits(timeout_s=60, total_s=0.001), scanner=scanner)
        found = await inspector.inspect([Upload(str(number), "", pdf(PAGE), "pdf") for number in range(20)])
        assert {one.rule_hits for one in found} == {("artifact:unread",)}
        assert [one.name for one in found] == [str(number) for number in range(20)]
        await inspector.close()

    asyncio.run(check())


def test_too_many_waiting_are_unread_and_not_lost(scanner: Scanner) -> None:
    async def check() -> None:
        inspector = Inspector(InspectionLimits(timeout_s=60, total_s=60, waiting=1, workers=1), scanner=scanner)
        found = await inspector.inspect([Upload("a", "", pdf(PAGE))] * 5)
        assert len(found) == 5
        assert sum(one.complete for one in found) >= 1
        assert all(one.complete or one.rule_hits == ("artifact:unread",) for one in found)
        await inspector.close()

    asyncio.run(check())


def test_media_are_counted_and_not_looked_into(inspector: Inspector) -> None:
    found = look(inspector, b"\x89PNG\r\n\x1a\n\x00\xff")
    assert found == InspectedUpload("a", "image", stats={"bytes": 10})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no limits to set on this system")
@pytest.mark.parametrize("limit", ["memory", "processor"])
def test_a_document_that_wants_too_much_is_unread(limit: str, scanner: Scanner) -> None:
    async def check() -> None:
        # A page of a megabyte is more than such a process may hold; the other one takes seconds to read.
        if limit == "memory":
            limits, size = InspectionLimits(timeout_s=60, total_s=120, memory_bytes=1_000_000), 300_000
        else:
            limits, size = InspectionLimits(timeout_s=60, total_s=120, cpu_s=1, characters=10**8), 1_500_000
        inspector = Inspector(limits, scanner=scanner)
        (found,) = await inspector.inspect([Upload("a", "", html("<p>x" * size))])
        assert found.rule_hits == ("artifact:unread",)
        await inspector.close()

    asyncio.run(check())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_worker_gets_no_variables_and_leaves_nothing_behind(
    scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-canary")

    async def inspect() -> list[InspectedUpload]:
        return await inspector.inspect([Upload("a", "", html(P))])

    inspector = Inspector(PATIENT, scanner=scanner)
    assert asyncio.run(inspect())[0].complete
    number = inspector._idle[0]._process.pid
    assert b"canary" not in Path(f"/proc/{number}/environ").read_bytes()
    asyncio.run(inspector.close())
    assert not Path(f"/proc/{number}").exists()
    assert asyncio.run(inspect())[0].rule_hits == ("artifact:unread",)


def test_a_worker_that_died_in_between_is_replaced(scanner: Scanner) -> None:
    inspector = Inspector(PATIENT, scanner=scanner)
    assert look(inspector, html(P)).complete
    process = inspector._idle[0]._process
    process.kill()
    process.wait(timeout=30)
    assert look(inspector, html(P)).complete
    # It is never closed: it ends with its owner.
    left = inspector._idle[0]._process
    del inspector
    gc.collect()
    assert left.wait(timeout=30) is not None


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"complete": 1, "visible": [], "hidden": [], "stats": {}}',
        b'{"complete": true, "visible": "x", "hidden": [], "stats": {}}',
        b'{"complete": true, "visible": [1], "hidden": [], "stats": {}}',
        b'{"complete": true, "visible": [], "hidden": [["nohow", "x"]], "stats": {}}',
        b'{"complete": true, "visible": [], "hidden": [["color"]], "stats": {}}',
        b'{"complete": true, "visible": [], "hidden": [[["color"], "x"]], "stats": {}}',
        b'{"complete": true, "visible": [], "hidden": [], "stats": {"pages": -1}}',
        b'{"complete": true, "visible": [], "hidden": [], "stats": {"pages": true}}',
        b'{"complete": true, "visible": [], "hidden": [], "stats": {"secret": 1}}',
        b'{"complete": true, "visible": ["xxxxxxxxxxx"], "hidden": [], "stats": {}}',
        b"[" * 100_000,
    ],
)
def test_an_odd_answer_is_none(said: bytes) -> None:
    assert _parse_answer(said, InspectionLimits(characters=10)) is None
