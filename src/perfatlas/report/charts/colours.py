"""Chart colors, mid-tones that are visible on light and dark backgrounds."""

from __future__ import annotations

from typing import Final

BLUE: Final = "#2f7fd1"
ORANGE: Final = "#d9730d"
GREEN: Final = "#2e9e5b"
PURPLE: Final = "#9065d0"
PINK: Final = "#cf4f93"
RED: Final = "#d64550"
TEAL: Final = "#1899ad"
YELLOW: Final = "#c79a14"
BROWN: Final = "#9a6b3f"
OLIVE: Final = "#7b8f2a"
GREY: Final = "#8a94a0"
SKY: Final = "#63b3d6"
SLATE: Final = "#66788a"

COLOURS: Final = (BLUE, ORANGE, GREEN, PURPLE, PINK)  # of lines without a fixed color

CLEAR: Final = "#ffffff00"  # of a segment that only moves the next ones
BOUND_COLOURS: Final = {
    "compute": BLUE,
    "memory": GREEN,
    "network": PURPLE,
    "latency": YELLOW,
    "host": PINK,
}
