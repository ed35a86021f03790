"""Small real PDF files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


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
