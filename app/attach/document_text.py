"""The process that reads a document: `python -m specchat.app.attach.document_text FILE MOST SECONDS` prints an object with
`text` and `notice`, or with `problem`."""

from __future__ import annotations

import json
import resource
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MEMORY_BYTES = 2_000_000_000
"""Most address space of the process (where the system limits it): 95 MB of XML take lxml 650 MB."""

UNPACKED_BYTES = 300_000_000
"""Most that an office file may unpack to, pictures included."""

MARKUP_BYTES = 100_000_000
"""Most of that in a single part that is parsed."""

MEMBERS = 20_000
"""Most files in an office file."""

TABLE_COLUMNS = 1_000
"""Cells of a row that are looked at; repeated empty cells may go on to the right for ever."""


class Problem(Exception):
    """Why there is no text: `missing`, `encrypted`, `scanned`, `empty`, `large`, `bomb` or `damaged`."""


class Text:
    """Lines of text, of limited length."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Add a line.

        Raises:
            Problem: there are too many.
        """
        line = line.replace("\r\n", "\n").replace("\0", "").rstrip()
        self._left -= len(line) + 1
        if self._left < 0:
            raise Problem("large")
        self._lines.append(line)

    def __str__(self) -> str:
        out: list[str] = []
        for line in self._lines:
            if line or (out and out[-1]):  # one empty line is enough
                out.append(line)
        return "\n".join(out).strip("\n") + "\n" if any(out) else ""


def _row(cells: Iterator[str] | list[str]) -> str:
    """Cells on a line, as text that a model reads well; line breaks in a cell would make rows of it."""
    return " | ".join(" ".join(cell.split()) for cell in cells).rstrip(" |")


def pdf(path: Path, text: Text) -> str:
    """The pages of a PDF file; a sentence on those without text."""
    reader = _library("pypdf").PdfReader(path)
    if reader.is_encrypted and not _opened(reader):
        raise Problem("encrypted")
    empty = 0
    for number, page in enumerate(reader.pages, 1):
        found = page.extract_text().strip()
        empty += not found
        if found:
            text.add(f"[Page {number}]")
            text.add(found)
            text.add("")
    count = len(reader.pages)
    if count and empty == count:
        raise Problem("scanned")
    return f"{empty:,} of the {count:,} pages of {{}} have no text, only pictures perhaps." if empty else ""


def _opened(reader: Any) -> bool:
    """Whether a PDF file opens without a password: many are protected against changes alone."""
    with suppress(Exception):  # its cipher needs a library of its own
        return bool(reader.decrypt(""))
    return False


_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LEFT_OUT = {f"{_W}{name}" for name in ("pPr", "rPr", "sectPr", "del", "moveFrom", "instrText")} | {
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
}
"""What is no text, was taken out, or stands there a second time for old programs."""
_SIGNS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}


def docx(path: Path, text: Text) -> str:
    """The paragraphs and tables of a Word file, in order."""
    document = _library("docx").Document(str(path))
    # The library opens the file; its own way through a text takes time with the square of the paragraphs.
    _written(document.element.body, {style.style_id: style.name or "" for style in document.styles}, text)
    return ""


def _written(parent: Any, styles: dict[str, str], text: Text) -> None:
    """The blocks in an element of a Word file."""
    for element in parent:
        match element.tag:
            case tag if tag == f"{_W}p":
                _paragraph(element, styles, text)
            case tag if tag == f"{_W}tbl":
                for row in _those(element, "tr"):
                    text.add(_row([_inner(cell) for cell in _those(row, "tc")]))
                text.add("")
            case tag if tag not in _LEFT_OUT:  # content controls and the like
                _written(element, styles, text)


def _paragraph(element: Any, styles: dict[str, str], text: Text) -> None:
    named = element.find(f"{_W}pPr/{_W}pStyle")
    style = styles.get(named.get(f"{_W}val", ""), "") if named is not None else ""
    listed = style.startswith("List") or element.find(f"{_W}pPr/{_W}numPr") is not None
    mark = "- " if listed else "# " if style == "Title" else ""
    if style.startswith("Heading") and style[-1:].isdigit():
        mark = "#" * int(style[-1]) + " "
    line = _inner(element)
    text.add(mark + line if line.strip() else "")


def _those(parent: Any, name: str) -> Iterator[Any]:
    """Rows of a table or cells of a row, those in content controls among them; not those of a table in a cell."""
    for element in parent:
        if element.tag == f"{_W}{name}":
            yield element
        elif element.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins"):
            yield from _those(element, name)


def _inner(element: Any) -> str:
    """The text of a paragraph or a cell."""
    parts = []
    for child in element:
        if child.tag == f"{_W}t":
            parts.append(child.text or "")
        elif child.tag in _SIGNS:
            parts.append(_SIGNS[child.tag])
        elif child.tag not in _LEFT_OUT:
            parts.append(_inner(child))
            if child.tag == f"{_W}p":
                parts.append("\n")
    return "".join(parts)


def xlsx(path: Path, text: Text) -> str:
    """The sheets of an Excel file, a row a line, with the values that formulas had when it was saved."""
    book = _library("openpyxl").load_workbook(path, read_only=True, data_only=True)
    for sheet in book.worksheets:
        begun = False
        for row in sheet.iter_rows(max_col=TABLE_COLUMNS, values_only=True):
            if line := _row(["" if cell is None else str(cell) for cell in row]):
                if not begun:
                    text.add(f"[Sheet {sheet.title}]")
                    begun = True
                text.add(line)
        text.add("")
    return ""


def pptx(path: Path, text: Text) -> str:
    """The slides of a PowerPoint file with their tables and notes."""
    for number, slide in enumerate(_library("pptx").Presentation(str(path)).slides, 1):
        text.add(f"[Slide {number}]")
        for shape in _shapes(slide.shapes):
            if shape.has_text_frame:
                text.add(shape.text_frame.text.replace("\v", "\n"))
            elif getattr(shape, "has_table", False):
                for row in shape.table.rows:
                    text.add(_row([cell.text for cell in row.cells]))
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None and notes.text.strip():
            text.add(f"Notes: {notes.text}")
        text.add("")
    return ""


def _shapes(shapes: Any) -> Iterator[Any]:
    """Shapes, and those in groups."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_TEXT, _TABLE, _DRAW = OFFICE % "text", OFFICE % "table", OFFICE % "drawing"


def opendocument(path: Path, text: Text) -> str:
    """The paragraphs, tables, sheets and slides of an OpenDocument file: all are in one part of it."""
    parse = _library("defusedxml.ElementTree").fromstring
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
            raise Problem("encrypted")
        if "content.xml" not in names:
            raise Problem("damaged")
        root = parse(archive.read("content.xml"))
    body = root.find(f"{OFFICE % 'office'}body")
    _blocks(root if body is None else body, text)
    return ""


def _blocks(parent: Any, text: Text) -> None:
    """What is in an element of an OpenDocument file, line by line."""
    for element in parent:
        match element.tag:
            case tag if tag == f"{_TEXT}h":
                level = element.get(f"{_TEXT}outline-level", "1")
                text.add("#" * min(6, int(level) if level.isdigit() else 1) + f" {_inline(element)}")
            case tag if tag == f"{_TEXT}p":
                text.add(_inline(element))
            case tag if tag == f"{_TEXT}list-item":
                text.add(f"- {' '.join(_inline(part) for part in element.iter() if part.tag in (f'{_TEXT}p', f'{_TEXT}h'))}")
            case tag if tag == f"{_TABLE}table":
                _table(element, text)
            case tag if tag == f"{_DRAW}page":
                text.add(f"[Slide {element.get(f'{_DRAW}name', '')}]")
                _blocks(element, text)
                text.add("")
            case tag if tag == f"{_TEXT}tracked-changes":  # what was taken out
                pass
            case _:
                _blocks(element, text)


def _table(table: Any, text: Text) -> None:
    """The rows of a table or a sheet."""
    begun = False
    for row in table.iter(f"{_TABLE}table-row"):
        cells: list[str] = []
        for cell in row:
            if cell.tag not in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                continue
            again = cell.get(f"{_TABLE}number-columns-repeated", "1")
            count = min(int(again) if again.isdigit() else 1, TABLE_COLUMNS - len(cells))
            cells += ["\n".join(_inline(part) for part in cell.iter(f"{_TEXT}p"))] * max(0, count)
        if line := _row(cells):
            if not begun and (name := table.get(f"{_TABLE}name")):
                text.add(f"[Sheet {name}]")
            begun = True
            text.add(line)
    text.add("")


def _inline(element: Any) -> str:
    """The text of a paragraph."""
    parts = [element.text or ""]
    for child in element:
        match child.tag:
            case tag if tag == f"{_TEXT}s":
                count = child.get(f"{_TEXT}c", "1")
                parts.append(" " * min(100, int(count) if count.isdigit() else 1))
            case tag if tag == f"{_TEXT}tab":
                parts.append("\t")
            case tag if tag == f"{_TEXT}line-break":
                parts.append("\n")
            case tag if tag == f"{OFFICE % 'office'}annotation":
                pass
            case _:
                parts.append(_inline(child))
        parts.append(child.tail or "")
    return "".join(parts)


READERS: dict[str, Callable[[Path, Text], str]] = {
    ".pdf": pdf,
    ".docx": docx,
    ".xlsx": xlsx,
    ".xlsm": xlsx,
    ".pptx": pptx,
    ".odt": opendocument,
    ".ods": opendocument,
    ".odp": opendocument,
}


def read(path: Path, most: int) -> dict[str, str]:
    """What the process prints."""
    try:
        reader = READERS[path.suffix.lower()]
        if reader is not pdf:
            _look(path)
        text = Text(most)
        notice = reader(path, text)
        found = str(text)
        if not found:
            raise Problem("empty")
        return {"text": found, "notice": notice}
    except Problem as problem:
        return {"problem": str(problem)}
    except (MemoryError, RecursionError):
        return {"problem": "memory"}
    except Exception:  # the libraries raise anything where a file is not what they expect
        return {"problem": "damaged"}


def _look(path: Path) -> None:
    """Refuse an office file that is none, is encrypted, or would not stop unpacking. A part's real length is never more than
    what the file's own list says: zipfile stops there."""
    with path.open("rb") as file:
        if file.read(8) == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":  # OLE: what Office wraps an encrypted file in
            raise Problem("encrypted")
    if not zipfile.is_zipfile(path):
        raise Problem("damaged")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    markup = max((member.file_size for member in members if member.filename.endswith((".xml", ".rels"))), default=0)
    if len(members) > MEMBERS or sum(member.file_size for member in members) > UNPACKED_BYTES or markup > MARKUP_BYTES:
        raise Problem("bomb")
    if any(member.flag_bits & 1 for member in members):
        raise Problem("encrypted")


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise Problem("missing") from None


def limit(seconds: int) -> None:
    """Bound the memory and the processor time of this process."""
    for what, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, seconds + 1)):
        with suppress(OSError, ValueError):  # macOS takes no limit of memory
            resource.setrlimit(what, (most, most))


def main() -> None:
    """Read the file that the command line names."""
    file, most, seconds = sys.argv[1:]
    limit(int(seconds))
    out = read(Path(file), int(most))
    # As ASCII: a PDF file may hold lone surrogates.
    print(json.dumps(out))


if __name__ == "__main__":
    main()
