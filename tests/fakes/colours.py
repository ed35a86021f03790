"""Colour arithmetic on `#rrggbb`: contrast as WCAG counts it, distance as eyes see it, and colour-blind sight."""

from __future__ import annotations

from math import dist

from textual.color import Color

Channels = tuple[float, float, float]

_SIGHTS: dict[str, tuple[Channels, Channels, Channels]] = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
# Linear RGB as it is → as it is seen, severity 1.0 (Machado, Oliveira & Fernandes 2009, table 1).

SIGHTS = tuple(_SIGHTS)
"""Kinds of colour-blind sight."""


def luminance(colour: str) -> float:
    """Relative luminance, 0 (black) to 1 (white) (WCAG 2)."""
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, 1 to 21 (WCAG 2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str) -> float:
    """Distance of two colours in CIE 1976 Lab, where 2 can just be noticed and black is 100 from white."""
    return dist(_lab(one), _lab(other))


def _lab(colour: str) -> Channels:
    """CIE Lab under daylight (D65): lightness 0 to 100, green to red, blue to yellow."""
    red, green, blue = _linear(colour)
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def simulate(colour: str, sight: str) -> str:
    """A colour as eyes with one of SIGHTS see it."""
    linear = _linear(colour)
    mixed = (sum(share * channel for share, channel in zip(row, linear, strict=True)) for row in _SIGHTS[sight])
    return "#" + "".join(f"{_byte(channel):02x}" for channel in mixed)


def _linear(colour: str) -> Channels:
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in Color.parse(colour).normalized)
    return red, green, blue


def _byte(linear: float) -> int:
    clipped = min(1.0, max(0.0, linear))
    return round(255 * (clipped * 12.92 if clipped <= 0.0031308 else 1.055 * clipped ** (1 / 2.4) - 0.055))
