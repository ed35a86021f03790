"""Images in a message: how they stand in its text, what a server gets of them, and what a model that reads text alone gets."""

from __future__ import annotations

import re
from typing import Any

_IMAGE = re.compile(
    r"^Attached image: ([^\n]{1,300}) \(([\d,.]+ [kM]?B)\)\n```\n(data:image/\w+;base64,[\w+/=]+)\n```\n{0,2}", re.ASCII | re.M
)
_SIGNS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"))


def kind_of_image(data: bytes) -> str:
    """png, jpeg, gif or webp; empty for what is no image that servers take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((kind for sign, kind in _SIGNS if data.startswith(sign)), "")


def content_of(text: str) -> str | list[dict[str, Any]]:
    """A message's content as the OpenAI API has it: its text, or parts where images are in it."""
    images = [{"type": "image_url", "image_url": {"url": found[3]}} for found in _IMAGE.finditer(text)]
    if not images:
        return text
    rest = _IMAGE.sub("", text)
    return [*images, {"type": "text", "text": rest}] if rest else images


def without_images(text: str) -> str:
    """A message with a line in place of each image."""
    return _IMAGE.sub(lambda found: f"[{found[1]} · {found[2]}]\n\n", text).rstrip("\n") if _IMAGE.search(text) else text
