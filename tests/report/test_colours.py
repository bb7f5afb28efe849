"""Colors of a chart differ for readers with protanopia and deuteranopia too."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from perfatlas.report import charts
from perfatlas.report.charts import drawings
from perfatlas.report.pages import pictures

Array = NDArray[np.float64]

# linear sRGB as seen; Machado, Oliveira, Fernandes 2009, "A physiologically-based model for
# simulation of color vision deficiency", table 1, severity 1.0
SEEN: Final = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
XYZ: Final = np.array(  # of linear sRGB, IEC 61966-2-1
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)
FAMILIES: Final = {
    "lines": (*charts.COLOURS, charts.GREY, charts.SLATE, charts.RED),
    "bounds": (*charts.BOUND_COLOURS.values(), charts.GREY),
    "memory": (*pictures.MEMORY_COLOURS.values(), charts.GREY),
    "passes": tuple(colour for _, colour in drawings.PASSES.values()),
}
ALL: Final = tuple(
    value
    for name, value in vars(drawings).items()
    if name.isupper() and isinstance(value, str) and value.startswith("#") and len(value) == 7
)


def linear(colour: str) -> Array:
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255.0
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: Array) -> Array:
    """Return CIELAB (L*, a*, b*) of linear sRGB under D65."""
    xyz = XYZ @ np.clip(rgb, 0.0, 1.0) / XYZ.sum(axis=1)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(first: Array, second: Array) -> float:
    """Return CIEDE2000 of two colors; Sharma, Wu, Dalal 2005, equations 2 to 22."""
    (l1, a1, b1), (l2, a2, b2) = first, second
    mean7 = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2.0) ** 7
    a1, a2 = (a * (1.5 - 0.5 * np.sqrt(mean7 / (mean7 + 25.0**7))) for a in (a1, a2))
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360.0 for a, b in ((a1, b1), (a2, b2)))
    apart = (h2 - h1 + 180.0) % 360.0 - 180.0
    hue = np.radians(h1 + apart / 2.0)
    lightness, chroma = (l1 + l2) / 2.0, (c1 + c2) / 2.0
    t = 1.0 - 0.17 * np.cos(hue - np.pi / 6) + 0.24 * np.cos(2 * hue)
    t += 0.32 * np.cos(3 * hue + np.radians(6)) - 0.20 * np.cos(4 * hue - np.radians(63))
    s_l = 1.0 + 0.015 * (lightness - 50.0) ** 2 / np.sqrt(20.0 + (lightness - 50.0) ** 2)
    d_l, d_c = (l2 - l1) / s_l, (c2 - c1) / (1.0 + 0.045 * chroma)
    d_h = 2.0 * np.sqrt(c1 * c2) * np.sin(np.radians(apart) / 2.0) / (1.0 + 0.015 * chroma * t)
    around = 30.0 * np.exp(-((((np.degrees(hue) % 360.0) - 275.0) / 25.0) ** 2))
    rotated = -2.0 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7)) * np.sin(np.radians(2.0 * around))
    return float(np.sqrt(d_l**2 + d_c**2 + d_h**2 + rotated * d_c * d_h))


def least(colours: tuple[str, ...]) -> float:
    return min(
        difference(lab(seen @ linear(first)), lab(seen @ linear(second)))
        for seen in SEEN.values()
        for first, second in itertools.combinations(dict.fromkeys(colours), 2)
    )


def test_differences_are_those_published() -> None:
    """Pairs 1 and 25 of table 1 of Sharma, Wu, Dalal 2005."""
    blue = difference(np.array([50.0, 2.6772, -79.7751]), np.array([50.0, 0.0, -82.7485]))
    dark = difference(
        np.array([60.2574, -34.0099, 36.2677]), np.array([60.4626, -34.1751, 39.4387])
    )
    assert blue == pytest.approx(2.0425, abs=1e-4)
    assert dark == pytest.approx(1.2644, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_colours_of_a_chart_are_told_apart(family: str) -> None:
    assert least(FAMILIES[family]) >= 12.0


def test_any_two_colours_are_told_apart() -> None:
    assert len(ALL) == 13
    assert least(ALL) >= 7.0


def test_colours_of_lines_stand_out_on_white() -> None:
    """WCAG 2.2, 1.4.11: a contrast of 3 for what is needed to read a graphic."""
    for colour in FAMILIES["lines"]:
        luminance = XYZ[1] @ linear(colour)
        assert 1.05 / (luminance + 0.05) >= 3.0, colour
