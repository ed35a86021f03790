"""Text out of PDF and office files: what a model gets, and a sentence for each file that gives none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import psutil
import pytest

from specchat.app.attach import document_text, documents
from specchat.app.attach.attachments import attach, read, slow
from specchat.errors import UserError

from ...fakes import office

MODULES = {"pdf": "pypdf", "docx": "docx", "xlsx": "openpyxl", "pptx": "pptx", "odt": "defusedxml"}


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
    found = read(office.pdf(tmp_path / "report.pdf", ["The lamp was lit.\nAt six.", "", "The fog came."]), "report.pdf")
    assert found.text == "[Page 1]\nThe lamp was lit.\nAt six.\n\n[Page 3]\nThe fog came.\n"
    assert found.notice == "1 of the 3 pages of report.pdf have no text, only pictures perhaps."
    assert found.size == (tmp_path / "report.pdf").stat().st_size


def test_a_pdf_that_is_only_protected_against_changes(tmp_path: Path) -> None:
    assert "The lamp" in text_of(office.pdf(tmp_path / "a.pdf", ["The lamp."], "", "owner"))


def test_a_word_file(tmp_path: Path) -> None:
    assert text_of(office.docx(tmp_path / "a.docx")) == (
        "# The lighthouse\nThe lamp was lit at six o'clock.\n- oil\nhour | who\nsix | Ada and Ben\n\nThe fog came.\n"
    )


def test_what_a_word_file_may_have_in_its_paragraphs(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>The </w:t></w:r><w:ins><w:r><w:t>lamp</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>fire</w:delText></w:r></w:del>"
        "<w:hyperlink><w:r><w:tab/><w:t>was</w:t><w:br/><w:t>lit</w:t></w:r></w:hyperlink></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:pPr><w:tabs><w:tab/></w:tabs><w:numPr/></w:pPr><w:r><w:t>oil</w:t></w:r></w:p>"
        "</w:sdtContent></w:sdt><w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>in</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
        "</w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    assert text_of(office.worded(tmp_path / "a.docx", body)) == "The lamp\twas\nlit\n- oil\na in | b\n"


def test_long_texts_take_time_with_their_length_alone(tmp_path: Path) -> None:
    paragraph = "<w:p><w:r><w:t>The keeper lit the lamp at six.</w:t></w:r></w:p>"
    times = []
    for count in (5_000, 20_000):
        path = office.worded(tmp_path / f"{count}.docx", paragraph * count)
        start = time.process_time()
        found = document_text.read(path, 10**7)
        times.append(time.process_time() - start)
        assert found["text"].count("keeper") == count
    assert times[1] < 10 * times[0]  # 16 times with the square


def test_an_excel_file(tmp_path: Path) -> None:
    assert text_of(office.xlsx(tmp_path / "a.xlsx")) == "[Sheet Lamps]\nlamp | hours\nnumber 0 | 0.5\nnumber 1 | 1.5\n"


def test_a_powerpoint_file(tmp_path: Path) -> None:
    assert text_of(office.pptx(tmp_path / "a.pptx")) == "[Slide 1]\nLamps\nlit at six\noil | wick\nNotes: Speak slowly.\n"


def test_opendocument_files(tmp_path: Path) -> None:
    words = (
        '<office:text><text:h text:outline-level="2">Lamps</text:h><text:p>The <text:span>lamp</text:span><text:s text:c="2"/>'
        "was<text:line-break/>lit.</text:p><text:list><text:list-item><text:p>oil</text:p></text:list-item></text:list>"
        "<text:tracked-changes><text:p>taken out</text:p></text:tracked-changes></office:text>"
    )
    assert text_of(office.opendocument(tmp_path / "a.odt", words)) == "## Lamps\nThe lamp  was\nlit.\n- oil\n"
    sheet = (
        '<office:spreadsheet><table:table table:name="Lamps"><table:table-row><table:table-cell><text:p>six</text:p>'
        '</table:table-cell><table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell>'
        '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1000000"><table:table-cell/></table:table-row></table:table>'
        "</office:spreadsheet>"
    )
    assert text_of(office.opendocument(tmp_path / "a.ods", sheet)) == "[Sheet Lamps]\nsix | x | x\n"
    slides = '<office:presentation><draw:page draw:name="one"><text:p>Lamps</text:p></draw:page></office:presentation>'
    assert text_of(office.opendocument(tmp_path / "a.odp", slides)) == "[Slide one]\nLamps\n"


def test_files_that_have_no_text_are_a_sentence_each(tmp_path: Path) -> None:
    assert sentence(office.pdf(tmp_path / "scan.pdf", ["", ""])).startswith("scan.pdf has no text, only pictures: let a text")
    assert sentence(office.opendocument(tmp_path / "a.odt", "<office:text/>")).startswith("a.odt has no text in it")
    protected = "is protected with a password: save it without one and attach that."
    assert sentence(office.pdf(tmp_path / "locked.pdf", ["secret"], "word")) == f"locked.pdf {protected}"
    manifest = {"META-INF/manifest.xml": "<m><encryption-data/></m>"}
    assert sentence(office.opendocument(tmp_path / "b.odt", "", manifest)) == f"b.odt {protected}"
    (tmp_path / "locked.docx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    assert sentence(tmp_path / "locked.docx") == f"locked.docx {protected}"
    (tmp_path / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    assert sentence(tmp_path / "old.doc").endswith("save it as .docx and attach that.")


@pytest.mark.parametrize("suffix", ["pdf", "docx", "xlsx", "pptx", "odt"])
def test_damaged_files_are_one_sentence(tmp_path: Path, suffix: str) -> None:
    makers = {"docx": office.docx, "xlsx": office.xlsx, "pptx": office.pptx}
    for name, data in {
        "text": b"no such thing",
        "zip": office.zipped(tmp_path / "z", {"a.txt": b"a"}).read_bytes(),
        "cut": makers[suffix](tmp_path / f"x.{suffix}").read_bytes()[:2000] if suffix in makers else b"%PDF-1.7\n1 0 obj",
    }.items():
        path = tmp_path / f"{name}.{suffix}"
        path.write_bytes(data)
        assert "may be damaged" in sentence(path)


def test_bombs_are_not_unpacked(tmp_path: Path) -> None:
    bomb = office.zipped(tmp_path / "a.docx", {"word/document.xml": bytes(document_text.MARKUP_BYTES + 1)})
    assert bomb.stat().st_size < 200_000
    assert "unpacks to far more than a document holds" in sentence(bomb)
    laughs = "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
    entities = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]><x>&a12;</x>'.encode()
    assert "may be damaged" in sentence(office.zipped(tmp_path / "a.odt", {"content.xml": entities}))
    many = {f"word/{i}.xml": b"" for i in range(document_text.MEMBERS + 1)}
    assert "unpacks to far more" in sentence(office.zipped(tmp_path / "b.docx", many))


def test_too_much_text_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = office.xlsx(tmp_path / "a.xlsx", rows=400)
    with pytest.raises(UserError, match=r"^a\.xlsx has more than 0\.0 million characters of text: attach a part of it\.$"):
        documents.extract(path, "a.xlsx", 3000)
    monkeypatch.setattr(documents, "MOST_BYTES", 100)
    size = f"{path.stat().st_size / 1000:.1f} kB"
    assert sentence(path) == f"a.xlsx has {size}, more than the 100 B that are read of a document: attach a part."


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "specchat.app.attach.document_text" in child.cmdline()]


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PDF file that is read for ever, by a library that stands in for pypdf."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "pypdf.py").write_text("while True: pass\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    path = tmp_path / "endless.pdf"
    path.write_bytes(b"%PDF-1.7")
    return path


def test_reading_ends_after_a_while(endless: Path) -> None:
    with pytest.raises(UserError, match=r"^endless\.pdf takes longer than 1 s to read: attach a part"):
        documents.extract(endless, "endless.pdf", 1000, seconds=1)
    assert children() == []


def test_reading_can_be_given_up(endless: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(UserError, match=r"^Reading endless\.pdf was given up"):
        documents.extract(endless, "endless.pdf", 1000, stop.is_set)
    assert children() == []


@pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no limit of memory")
def test_memory_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "pypdf.py").write_text(f"x = bytearray({document_text.MEMORY_BYTES})\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    assert "needs more memory or time to read" in sentence(tmp_path / "a.pdf")


@pytest.mark.parametrize("suffix", list(MODULES))
def test_without_the_libraries_the_command_that_installs_them(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / f"{MODULES[suffix]}.py").write_text("raise ModuleNotFoundError\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"%PDF-1.7" if suffix == "pdf" else office.zipped(tmp_path / "z", {"content.xml": b"<a/>"}).read_bytes())
    said = sentence(path)
    assert said.endswith(f": {sys.executable} -m pip install defusedxml openpyxl pypdf python-docx python-pptx")


def test_the_command_installs_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extra = [name.partition(">=")[0] for name in project["optional-dependencies"]["documents"]]
    assert extra == list(documents.LIBRARIES)


def test_libraries_come_from_the_installation_and_not_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = office.pdf(tmp_path / "a.pdf", ["The lamp."])
    (tmp_path / "pypdf.py").write_text("open('ran', 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert "The lamp" in text_of(path)
    assert not (tmp_path / "ran").exists()


def test_what_takes_time_is_known_from_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    assert slow("Sum up @report.PDF, please")
    assert slow("Sum up @report.odt.")
    assert slow("What is in @docs?")
    assert not slow("Sum up @notes.txt and mail me@docs @@docs")


def test_a_document_is_framed_like_any_file(tmp_path: Path) -> None:
    office.opendocument(tmp_path / "a.odt", "<office:text><text:p>```</text:p></office:text>")
    _, (found,) = attach("Sum up @a.odt.", tmp_path)
    assert found.framed() == f"Attached file: a.odt ({found.size} B)\n````\n```\n````"


def test_run_takes_documents(tmp_path: Path) -> None:
    office.docx(tmp_path / "a.docx")
    (tmp_path / "answers.jsonl").write_text('{"prompt": "x", "response": "Attached file lamp lit"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "specchat", "run", "Sum up", "-f", "a.docx", "--model", "recorded:answers.jsonl"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "SPECCHAT_CONFIG": str(tmp_path), "SPECCHAT_LOG": str(tmp_path / "log")},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "six | Ada and Ben" in done.stdout


def test_the_process_starts_light() -> None:
    code = (
        "import sys, specchat.app.attach.document_text; "
        "print([name for name in ('textual', 'typer', 'torch', 'numpy', 'pypdf', 'lxml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
