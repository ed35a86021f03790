"""Text out of PDF files: what a model gets, and a sentence for each file that gives none."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import psutil
import pytest

from specchat.app.attach import pdf as pdf_reader
from specchat.app.attach.attachments import OFFICE, read, slow
from specchat.app.attach.pdf import extract
from specchat.app.text.amounts import size_of
from specchat.errors import UserError

from ...fakes.pdf import pdf


def text_of(path: Path) -> str:
    return read(path, path.name).text


def sentence(path: Path) -> str:
    with pytest.raises(UserError) as refused:
        read(path, path.name)
    said = str(refused.value)
    assert "\n" not in said
    assert said.startswith(path.name)
    return said


def test_pages_of_a_pdf(tmp_path: Path) -> None:
    found = read(pdf(tmp_path / "report.pdf", ["The lamp was lit.\nAt six.", "", "The fog came."]), "report.pdf")
    assert found.text == "[Page 1]\nThe lamp was lit.\nAt six.\n\n[Page 3]\nThe fog came.\n"
    assert found.notice == "1 of the 3 pages of report.pdf have no text, perhaps only pictures."
    assert found.size == (tmp_path / "report.pdf").stat().st_size


def test_files_that_have_no_text_are_a_sentence_each(tmp_path: Path) -> None:
    assert sentence(pdf(tmp_path / "scan.pdf", ["", ""])).startswith("scan.pdf has no text, only pictures. Run text")
    protected = "is password-protected. Save it without a password and attach that."
    assert sentence(pdf(tmp_path / "locked.pdf", ["secret"], "word")) == f"locked.pdf {protected}"


def test_damaged_files_are_one_sentence(tmp_path: Path) -> None:
    whole = pdf(tmp_path / "whole.pdf", ["The lamp."]).read_bytes()
    for name, data in {"text": b"no such thing", "start": b"%PDF-1.7\n1 0 obj", "cut": whole[: len(whole) // 2]}.items():
        path = tmp_path / f"{name}.pdf"
        path.write_bytes(data)
        assert "may be damaged" in sentence(path)


@pytest.mark.parametrize("start", [b"PK\x03\x04\x14\0", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0"])
@pytest.mark.parametrize("suffix", [*OFFICE, ".DOCX"])
def test_office_documents_are_to_be_saved_as_something_else(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    said = f"{path.name} is an office document, which specchat cannot read. Save it as text or PDF and attach that."
    for size in (100, 3_000_000):
        path.write_bytes(start + bytes(size))
        assert sentence(path) == said
    path.write_text("The lamp.\n")
    assert text_of(path) == "The lamp.\n"


def test_too_much_text_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pdf(tmp_path / "a.pdf", ["The lamp was lit."] * 100)
    with pytest.raises(UserError, match=r"^a\.pdf has more than 0\.0 million characters of text\. Attach a part of it\.$"):
        extract(path, "a.pdf", 2000)
    monkeypatch.setattr(pdf_reader, "MOST_BYTES", 100)
    size = size_of(path.stat().st_size)
    assert sentence(path) == f"a.pdf is {size}, above the 100 B limit for a PDF file. Attach a part of it."


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "specchat.app.attach.pdf" in child.cmdline()]


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PDF file that is read for ever, by a library that stands in for pypdf."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "pypdf.py").write_text("while True: pass\n")
    monkeypatch.setenv("PYTHONPATH", str(library), prepend=os.pathsep)
    path = tmp_path / "endless.pdf"
    path.write_bytes(b"%PDF-1.7")
    return path


def test_reading_ends_after_a_while(endless: Path) -> None:
    with pytest.raises(UserError, match=r"^endless\.pdf takes more than 1 s to read\. Attach a part"):
        extract(endless, "endless.pdf", 1000, seconds=1)
    assert children() == []


def test_reading_can_be_given_up(endless: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(UserError, match=r"^You stopped reading endless\.pdf"):
        extract(endless, "endless.pdf", 1000, stop.is_set)
    assert children() == []


@pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no limit of memory")
def test_memory_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "pypdf.py").write_text(f"x = bytearray({pdf_reader.MEMORY_BYTES})\n")
    monkeypatch.setenv("PYTHONPATH", str(library), prepend=os.pathsep)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    assert "needs too much memory or time to read" in sentence(tmp_path / "a.pdf")


def test_without_the_library_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "pypdf.py").write_text("raise ModuleNotFoundError\n")
    monkeypatch.setenv("PYTHONPATH", str(library), prepend=os.pathsep)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    assert sentence(tmp_path / "a.pdf").endswith(f". Run: {sys.executable} -m pip install pypdf")


def test_what_takes_time_is_known_from_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    assert slow("Sum up @report.PDF, please")
    assert slow("Sum up @report.pdf.")
    assert not slow("Sum up @report.odt.")
    assert slow("What is in @docs?")
    assert not slow("Sum up @notes.txt and mail me@docs @@docs")
