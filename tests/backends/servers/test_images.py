"""Images in a message: parts for a server, a line for a model that reads text alone."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from specchat.app.attach.attachments import attach, compose, folded, parted, refuse_images
from specchat.backends.base import Sampling
from specchat.backends.servers.bodies import ServerRequest, body_of
from specchat.backends.servers.identify import UNKNOWN, Served
from specchat.backends.servers.images import without_images
from specchat.errors import UserError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))


@pytest.fixture
def message(tmp_path: Path) -> str:
    """A question about an image and a text file, as it is sent."""
    (tmp_path / "cat.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("Tom is a cat.\n")
    text, attachments = attach("Who is this? @cat.png @notes.txt", tmp_path)
    return compose(text, attachments)


def test_a_server_gets_image_and_text_as_parts(message: str) -> None:
    request = ServerRequest(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": message}], sampling=Sampling()
    )
    _, body = body_of(Served(UNKNOWN, "/v1", "m"), request)
    system, user = body["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    image, text = user["content"]
    assert image == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}}
    assert text["type"] == "text"
    assert text["text"].startswith("Attached file: notes.txt")
    assert text["text"].endswith("Who is this? @cat.png @notes.txt")


def test_a_reader_and_a_model_without_eyes_get_a_line(message: str) -> None:
    assert folded(message).splitlines()[:2] == ["[cat.png · 48 B]", "[notes.txt · 14 B]"]
    assert without_images(message).startswith("[cat.png · 48 B]\n\nAttached file: notes.txt")
    assert "base64" not in without_images(message)
    assert without_images("No image: ![x](data:image/png;base64,AAAA)") == "No image: ![x](data:image/png;base64,AAAA)"


def test_an_image_comes_back_for_an_edit_and_is_refused_with_the_reason(message: str) -> None:
    text, attachments = parted(message)
    assert compose(text, attachments) == message
    assert [(each.name, each.size, each.image) for each in attachments] == [("cat.png", 48, True), ("notes.txt", 14, False)]
    refuse_images(attachments, "")
    with pytest.raises(UserError, match=r"^cat\.png is an image, and it is night\."):
        refuse_images(attachments, "it is night.")
