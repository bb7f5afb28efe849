from .histories import (
    draw_failures as draw_failures,
    no_place as no_place,
)
