"""Noise of quantized tensors relative to their signal, by class of tensor and format.

Shape legend: G groups of elements that share a scale, E elements of a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.quantities import UnsupportedError, resolve_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

Scale = Literal["none", "exact", "floor", "ceil", "two_level"]


E4M3: Final = "e4m3"


MAX_VALUE: Final = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0, "e2m1": 6.0}


# mantissa bits and exponent of the smallest normal number
FLOATS: Final = {
    "bf16": (7, -126),
    "fp16": (10, -14),
    "e4m3": (3, -6),
    "e5m2": (2, -14),
    "e2m3": (3, 0),
    "e3m2": (2, -2),
    "e2m1": (1, 0),
}


ROW: Final = 4096  # elements of a row: of the hidden size of published tables


CHANNELS, OUTLIERS, OUTLIER_SCALE = ROW, 8, 20.0


MIN_SCALE: Final = 2.0**-9  # smallest e4m3 number: a smaller block scale would be 0


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


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Elements of a format and the rule of their scale.

    Source:
        OCP 8-bit floating point v1.0; OCP Microscaling v1.0 section 6.3 (floor); NVIDIA
        Model-Optimizer qtensor/mxfp4_tensor.py (ceil), qtensor/nvfp4_tensor.py (two levels).
    """

    element: str  # A key of `FLOATS`, or "int"
    bits: int = 0  # Bits of an integer
    group: int = 0  # Elements that share a scale; 0 for a whole tensor
    # none; exact, maximum over the largest code; floor or ceil, a power of two; two_level, an e4m3
    # number times one scale of the tensor
    scale: Scale = "exact"
    asymmetric: bool = False  # Whether integers have a zero point

    def quantized(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values as they are read back from this format."""
        grouped_GE = values.reshape(-1, self.group or values.size)
        if self.scale == "none":
            return round_float(values, *FLOATS[self.element])
        rounded_GE = self._scaled_integers(grouped_GE) if self.bits else self._floats(grouped_GE)
        return rounded_GE.reshape(values.shape)

    def _scaled_integers(self, grouped_GE: NDArray[np.float64]) -> NDArray[np.float64]:
        low_G1, high_G1 = (edge(grouped_GE, axis=1, keepdims=True) for edge in (np.min, np.max))
        if self.asymmetric:
            zero_G1, scale_G1 = low_G1, _positive(high_G1 - low_G1) / (2.0**self.bits - 1.0)
        else:
            zero_G1, most_G1 = np.zeros_like(low_G1), np.maximum(high_G1, -low_G1)
            scale_G1 = _positive(most_G1) / (2.0 ** (self.bits - 1) - 1.0)
        codes_GE = np.rint((grouped_GE - zero_G1) / scale_G1)
        rounded_GE: NDArray[np.float64] = codes_GE * scale_G1 + zero_G1
        return rounded_GE

    def _floats(self, grouped_GE: NDArray[np.float64]) -> NDArray[np.float64]:
        most = MAX_VALUE[self.element]
        top_G1 = _positive(np.max(np.abs(grouped_GE), axis=1, keepdims=True))
        if self.scale == "floor":
            scale_G1 = 2.0 ** (np.floor(np.log2(top_G1)) - math.floor(math.log2(most)))
        elif self.scale == "ceil":
            scale_G1 = 2.0 ** np.ceil(np.log2(top_G1 / most))
        elif self.scale == "two_level":
            of_tensor = float(np.max(top_G1)) / (MAX_VALUE[E4M3] * most)
            block_G1 = np.maximum(top_G1 / most / of_tensor, MIN_SCALE)
            scale_G1 = round_float(block_G1, *FLOATS[E4M3]) * of_tensor
        else:
            scale_G1 = top_G1 / most
        clipped_GE = np.clip(grouped_GE / scale_G1, -most, most)
        return round_float(clipped_GE, *FLOATS[self.element]) * scale_G1


def _positive(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(values > 0.0, values, 1.0)  # groups of zeros


def round_float(
    values: NDArray[np.float64], mantissa_bits: int, least_exponent: int
) -> NDArray[np.float64]:
    """Return values rounded to the nearest floating-point number, ties to even.

    Args:
        values: Within the largest number of the format (any shape).
        mantissa_bits: Bits of the mantissa.
        least_exponent: Exponent of the smallest normal number.

    Example:
        >>> import numpy as np
        >>> from perfatlas.quantization import round_float
        >>> round_float(np.array([0.3, 2.5, 5.1]), 1, 0).tolist()
        [0.5, 2.0, 6.0]
    """
    _, exponent = np.frexp(values)
    unit = np.ldexp(1.0, np.maximum(exponent - 1, least_exponent) - mantissa_bits)
    rounded: NDArray[np.float64] = np.rint(values / unit) * unit
    return rounded


def sqnr_db(values: NDArray[np.float64], rounding: Rounding) -> float:
    """Return the signal-to-quantization-noise ratio of a tensor in a format [dB].

    Args:
        values: Elements in storage order (any shape).
        rounding: Format and scale rule.

    Example:
        >>> import numpy as np
        >>> from perfatlas.quantization import ROUNDINGS, sqnr_db
        >>> values = np.random.default_rng(0).standard_normal(2**16)
        >>> round(sqnr_db(values, ROUNDINGS["nvfp4 g16"]))
        20
    """
    error = rounding.quantized(values) - values
    return 10.0 * math.log10(float(np.sum(values**2)) / float(np.sum(error**2)))


def shaped_values(size: int) -> dict[str, NDArray[np.float64]]:
    """Return samples of distributions that tensors of networks resemble, by name (size,).

    gauss, laplace and student_t5 (five degrees of freedom) of variance 1; outliers, Gaussian
    with 8 of 4,096 channels 20 times as large. One generator draws them in this order.

    Args:
        size: Number of samples, a multiple of 4,096.
    """
    rng = np.random.default_rng(0)
    shaped = {
        "gauss": rng.standard_normal(size),
        "laplace": rng.laplace(size=size) / math.sqrt(2.0),
        "student_t5": rng.standard_t(5, size=size) * math.sqrt(3.0 / 5.0),
    }
    values = rng.standard_normal((size // CHANNELS, CHANNELS))
    values[:, rng.choice(CHANNELS, OUTLIERS, replace=False)] *= OUTLIER_SCALE
    return {**shaped, "outliers": values.reshape(-1)}


def _integers(bits: int, group: int, *, asymmetric: bool = False) -> Rounding:
    return Rounding(element="int", bits=bits, group=group, asymmetric=asymmetric)


ROUNDINGS: Final[dict[str, Rounding]] = {
    "bf16": Rounding(element="bf16", scale="none"),
    "fp16": Rounding(element="fp16", scale="none"),
    **{
        f"fp8_{e} {name}": Rounding(element=e, group=group)
        for e in ("e4m3", "e5m2")
        for name, group in (("tensor", 0), ("token", ROW), ("g128", 128))
    },
    **{
        f"{name} g32 ({rule})": Rounding(element=name.split("_")[1], group=32, scale=rule)
        for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1")
        for rule in ("floor", "ceil")
    },
    "mxfp4_e2m1 g16 (floor)": Rounding(element="e2m1", group=16, scale="floor"),
    "nvfp4 g16": Rounding(element="e2m1", group=16, scale="two_level"),
    "int8 tensor": _integers(8, 0),
    **{
        f"int{bits} g{group} sym": _integers(bits, group)
        for bits, group in (
            (8, ROW),
            (8, 128),
            (8, 32),
            (5, 32),
            (4, ROW),
            (4, 128),
            (4, 32),
            (3, 16),
        )
    },
    **{
        f"int{bits} g{group} asym": _integers(bits, group, asymmetric=True)
        for bits, group in (
            *((6, 16), (5, 32), (4, 128), (4, 64), (4, 32)),
            *((3, 128), (2, 64), (2, 16)),
        )
    },
}


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
            resolved = resolve_name(
                name, ROUNDINGS, what="rounding", lists="ROUNDINGS", error=UnsupportedError
            )
            exact = resolved in ("bf16", "fp16")
            row.append(0.0 if exact else 10.0 ** (-table[resolved][shapes[kind]] / 10.0))
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
