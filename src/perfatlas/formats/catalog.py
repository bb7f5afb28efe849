"""Number formats: bytes per element with scales, the tensor-core peak they use, quantization."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from perfatlas.files import shipped_table
from perfatlas.quantities import UnsupportedError, repr_for_error, resolve_name

Quantize = Literal["none", "static", "dynamic"]
_LISTED: Final = "`perfatlas catalog formats` lists all"
# names that checkpoints and other tools use; they are only suggested, as several fit each
_ELSEWHERE: Final = {
    **dict.fromkeys(("bfloat16", "bf", "b16"), "bf16"),
    **dict.fromkeys(("float16", "half", "f16"), "fp16"),
    **dict.fromkeys(("bf8", "f8", "float8", "fp8_e4m3", "fp8_e5m2", "e4m3", "e5m2"), "fp8"),
    **dict.fromkeys(("fp4", "f4", "float4", "e2m1", "nvf4"), "nvfp4"),
    **dict.fromkeys(("w8a8", "i8"), "int8"),
    **{name: f"{name}_wo" for name in ("int2", "int3", "nf4", "mxfp6")},
    **dict.fromkeys(("w4a8", "w4afp8"), "int4_fp8"),
    **{f"q{bits}_k_{size}": f"q{bits}_k" for bits in (2, 3, 4, 5) for size in "sml"},
    "w8a16": "int8_wo",
    **dict.fromkeys(("int4", "w4a16", "awq", "gptq"), "int4_wo"),
}


@dataclass(frozen=True, kw_only=True)
class Format:
    """A number format of a matrix product or a cache."""

    name: str
    weight_bytes: float  # Bytes per stored weight element, scales included [bytes]
    activation_bytes: float  # Bytes per activation element as the kernel reads it [bytes]
    tensor_peak: str  # Key of `Device.peak_flop_per_s` that limits the product
    quantize: Quantize  # Quantization of activations: none, static or dynamic scales
    cache: bool  # Whether engines store KV caches in it
    source: str  # Where the layout is defined
    # How weights and caches, and how activations are rounded: names of `quantization.ROUNDINGS`
    rounding: tuple[str, str]
    # Key of the peak that limits the product on tensor cores without `tensor_peak`, "" if it does
    # not run there
    substitute_peak: str = ""
    # Vendors whose tensor cores do not take it, whatever their peaks
    not_multiplied_by: tuple[str, ...] = ()
    arithmetic: bool = False  # Whether it is of plain arithmetic: no engine stores it


@cache
def formats() -> dict[str, Format]:
    """Return every format of engines by name."""
    return {name: known for name, known in _all_formats().items() if not known.arithmetic}


@cache
def _all_formats() -> dict[str, Format]:
    known: dict[str, Format] = {}
    for name, row in shipped_table("data/formats.toml").items():
        scale_bits = row.get("scale_bits", 0) / row.get("scale_block", 1)
        known[name] = Format(
            name=name,
            weight_bytes=(row["weight_bits"] + scale_bits) / 8,
            activation_bytes=row["activation_bits"] / 8,
            tensor_peak=row["tensor_peak"],
            quantize=row["quantize"],
            cache=row.get("cache", False),
            source=row["ref"],
            rounding=(row["rounding"][0], row["rounding"][1]),
            substitute_peak=row.get("substitute_peak", ""),
            not_multiplied_by=tuple(row.get("not_multiplied_by", ())),
            arithmetic=row.get("arithmetic", False),
        )
    return known


def get_format(name: str, *, arithmetic: bool = False) -> Format:
    """Return a format by name, in any letter case.

    Args:
        arithmetic: Whether fp32 and fp64 count, in which no engine stores weights or caches.

    Raises:
        UnsupportedError: There is no such format.

    Example:
        >>> from perfatlas.formats import get_format
        >>> get_format("nvfp4").weight_bytes
        0.5625
    """
    known = _all_formats() if arithmetic else formats()
    if name in known:
        return known[name]
    if (nearest := _ELSEWHERE.get(name.strip().casefold().replace("-", "_"))) is not None:
        raise UnsupportedError(
            f"unknown format {repr_for_error(name)}; did you mean {nearest!r}? {_LISTED}"
        )
    meant = resolve_name(
        name,
        known,
        what="format",
        lists=_LISTED,
        shorten=False,
        error=UnsupportedError,
    )
    return known[meant]
