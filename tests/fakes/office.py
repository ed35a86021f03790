"""Small real documents, made by well-known libraries, or by hand where those would not make such a thing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

CONTENT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0">
<office:body>{body}</office:body></office:document-content>"""


def pdf(path: Path, pages: Sequence[str], password: str | None = None, owner: str | None = None) -> Path:
    """A PDF file with a line of text on each page; a page of "" has none."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    font = DictionaryObject(
        {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1")}
        | {NameObject("/BaseFont"): NameObject("/Helvetica")}
    )
    for text in pages:
        page = writer.add_blank_page(400, 200)
        if not text:
            continue
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
        stream = DecodedStreamObject()
        lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n"))
        stream.set_data(f"BT /F1 12 Tf 20 150 Td {lines}ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password is not None:
        writer.encrypt(password, owner, algorithm="RC4-128")
    writer.write(path)
    return path


def docx(path: Path) -> Path:
    """A Word file with headings, a list and a table between paragraphs."""
    from docx import Document

    document = Document()
    document.add_heading("The lighthouse", 1)
    document.add_paragraph("The lamp was lit at six o'clock.")
    document.add_paragraph("oil", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for i, text in enumerate(("hour", "who", "six", "Ada\nand Ben")):
        table.cell(i // 2, i % 2).text = text
    document.add_paragraph("The fog came.")
    document.save(str(path))
    return path


def worded(path: Path, body: str) -> Path:
    """A Word file with this in its body."""
    document = docx(path).read_bytes()
    with zipfile.ZipFile(io.BytesIO(document)) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "word/document.xml":
                start, end = data.index(b"<w:body>") + len("<w:body>"), data.index(b"<w:sectPr")
                data = data[:start] + body.encode() + data[end:]
            target.writestr(name, data)
    return path


def xlsx(path: Path, rows: int = 2) -> Path:
    """An Excel file with two sheets, one of them empty."""
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Lamps"
    sheet.append(["lamp", "hours"])
    for i in range(rows):
        sheet.append([f"number {i}", i + 0.5])
    book.create_sheet("Nothing")
    book.save(path)
    return path


def pptx(path: Path) -> Path:
    """A PowerPoint file with a table and notes."""
    from pptx import Presentation
    from pptx.util import Inches

    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Lamps"
    slide.placeholders[1].text = "lit at six"
    table = slide.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "oil", "wick"
    slide.notes_slide.notes_text_frame.text = "Speak slowly."
    show.save(str(path))
    return path


def opendocument(path: Path, body: str, more: Mapping[str, str] | None = None) -> Path:
    """An OpenDocument file with this in its body."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml", CONTENT.format(body=body))
        for name, text in (more or {}).items():
            archive.writestr(name, text)
    return path


def zipped(path: Path, parts: Mapping[str, bytes]) -> Path:
    """An archive of these files, with an office file's suffix or not."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path
