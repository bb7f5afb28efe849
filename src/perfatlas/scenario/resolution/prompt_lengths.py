"""Tokens that the images of requests add to their prompts.

Shape legend: N rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.networks import resolve_model
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.fields import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import Columns

IMAGE_FIELDS: Final = ("images", "image_height", "image_width")


def image_tokens(values: Mapping[str, Any]) -> int:
    """Return the tokens that the images of a request add to its prompt.

    Args:
        values: model, images, image_height and image_width.

    Raises:
        PerfatlasError: The model is unknown, encodes no images, or none of this shape.

    Example:
        >>> from perfatlas.scenario.resolution import image_tokens
        >>> image_tokens({"model": "google/gemma-3-4b-it", "images": 2, "image_height": 720,
        ...     "image_width": 1280})
        512
    """
    if not values["images"]:
        return 0
    network = resolve_model(values["model"]).network
    images = network.with_images(*(values[name] for name in IMAGE_FIELDS)).images
    return 0 if images is None else images.prompt_tokens


def image_fields(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the images of requests and their size by field name; {} without images.

    Args:
        values: images, image_height and image_width.
    """
    return {name: values[name] for name in IMAGE_FIELDS} if values["images"] else {}


def prompt_tokens(columns: Columns) -> FloatArray:
    """Return isl and the tokens of images (N,); where these are unknown, isl.

    Args:
        columns: Fields (N).
    """
    isl_N = columns.numbers("isl")
    if not columns.is_set_anywhere("images"):
        return isl_N
    names = ("model", *IMAGE_FIELDS)
    distinct = distinct_rows([columns[name].value_codes for name in names])
    added_U = []
    for row in distinct.first_U.tolist():
        try:
            added_U.append(float(image_tokens(columns.at(row, names))))
        except PerfatlasError:  # refused where the model is resolved
            added_U.append(0.0)
    total_N: FloatArray = isl_N + np.array(added_U)[distinct.codes_N]
    return total_N
