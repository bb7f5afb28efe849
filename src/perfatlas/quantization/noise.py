"""Noise of quantized tensors relative to their signal, by class of tensor and format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.quantities import UnsupportedError, resolve_name
from perfatlas.quantization.rounding import ROUNDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

ROTATION: Final = "rotation"
SMOOTHED: Final = "smoothquant"
CLASSES: Final = ("weights", "activations", "kv")
TABLE: Final = "data/accuracy/sqnr.toml"
# distribution of each class of tensor; without outlier channels once a method spreads them
DISTRIBUTIONS: Final = {"weights": "student_t5", "activations": "outliers", "kv": "outliers"}
SPREAD: Final = {
    ROTATION: {"weights": "gauss", "activations": "gauss", "kv": "gauss"},
    SMOOTHED: {"activations": "student_t5"},
}
UNQUANTIZED: Final = "bf16"


class Roundings(NamedTuple):
    """Roundings of one quantized model: keys of `ROUNDINGS`."""

    weights: str = UNQUANTIZED  # Rounding of the weights of matrix products
    activations: str = UNQUANTIZED  # Rounding of their inputs
    kv: str = UNQUANTIZED  # Rounding of the KV cache

    @property
    def exact(self) -> bool:
        """Whether nothing is quantized."""
        return all(name in ("bf16", "fp16") for name in self)


def tensor_noise(roundings: Sequence[Roundings], methods: Sequence[str]) -> FloatArray:
    """Return the noise power over the signal power of each class of tensor (N, 3).

    bf16 counts as no noise: it is the format of the reference.

    Args:
        roundings: Roundings of each model (N,).
        methods: Quantization method of each (N,).

    Raises:
        UnsupportedError: There is no such rounding.

    Example:
        >>> from perfatlas.quantization import Roundings, tensor_noise
        >>> weights, activations, kv = tensor_noise([Roundings("nvfp4 g16", "bf16")], ["rtn"])[0]
        >>> round(10.0 * __import__("math").log10(1.0 / weights)), float(activations), float(kv)
        (21, 0.0, 0.0)
    """
    table = shipped_table(TABLE)
    rows = []
    for rounding, method in zip(roundings, methods, strict=True):
        shapes = {**DISTRIBUTIONS, **SPREAD.get(method, {})}
        row = []
        for kind, name in zip(CLASSES, rounding, strict=True):
            known = resolve_name(
                name, ROUNDINGS, what="rounding", lists="ROUNDINGS", error=UnsupportedError
            )
            exact = known in ("bf16", "fp16")
            row.append(0.0 if exact else 10.0 ** (-table[known][shapes[kind]] / 10.0))
        rows.append(row)
    return np.array(rows, np.float64).reshape(-1, len(CLASSES))


def stream_noise(branch_noise: float, layers: int) -> float:
    """Return the noise over the signal at the end of a residual stream.

    Every layer adds two branches of equal power and independent noise, and hands on the relative
    noise of its input: after k branches the noise has grown by 1/k of that of a branch.

    Args:
        branch_noise: Noise over signal of what one branch adds.
        layers: Layers of the network.

    Limits:
        Branches of equal power that are independent of the stream; normalisation and attention
        neither amplify nor damp noise.

    Example:
        >>> from perfatlas.quantization import stream_noise
        >>> round(stream_noise(0.01, 1), 4)
        0.015
    """
    return branch_noise * float(np.sum(1.0 / np.arange(1, 2 * layers + 1)))
