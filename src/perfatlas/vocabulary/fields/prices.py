"""Fields of prices: GPU-hours, electricity and its carbon."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Any, Final

from perfatlas.quantities import repr_for_error
from perfatlas.vocabulary.fields.numbers import Number
from perfatlas.vocabulary.fields.rows import Row, Written, group

PRICE_KINDS: Final[tuple[str, ...]] = ("on_demand", "reserved", "market", "owned")
PRICES_BY_SYSTEM: Final = "="
MAX_USD: Final = 1e9
_AMOUNT: Final = re.compile(r"\$?\s*([-+]?[\d.][\d_.e+-]*)\s*(?:USD)?", re.IGNORECASE)
_CURRENCY: Final = re.compile(r"[€£¥]|\b[A-Za-z]{3}\b")


def read_gpu_price(value: object) -> Any:  # noqa: ANN401 - a number or a text
    """Return a price of GPU-hours as a number [USD], or as the text that names prices.

    Args:
        value: A number, a kind of price, numbers or kinds by system, or the path of a TOML file.

    Raises:
        ValueError: It is none of these, or a price is not positive.

    Example:
        >>> from perfatlas.vocabulary.fields import read_gpu_price
        >>> read_gpu_price("2.50 USD"), read_gpu_price({"h200_sxm": 2.5, "b200_sxm": "owned"})
        (2.5, 'h200_sxm=2.5,b200_sxm=owned')
    """
    if value is None:
        return None
    if isinstance(value, dict):
        value = ",".join(f"{name}{PRICES_BY_SYSTEM}{price}" for name, price in value.items())
    if isinstance(value, PurePath):
        value = str(value)
    if isinstance(value, str):
        return _read_text(value.strip())
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is None:
        raise ValueError(f"{repr_for_error(value)}: {_EXPECTED}")
    if not 0.0 < number <= MAX_USD:
        raise ValueError(
            f"{min(number, 1e300):g}: a price is a positive number of USD; omit it for the price"
            " of the catalog"
        )
    return float(number)


_EXPECTED: Final = (
    "expected a price such as 2.5 [USD], one of on_demand, reserved, market, owned, prices by"
    " system such as h200_sxm=2.5,b200_sxm=4, or a TOML file"
)


def _read_text(text: str) -> float | str:
    if text.lower().endswith(".toml"):
        return text
    if PRICES_BY_SYSTEM in text:
        pairs = [part.partition(PRICES_BY_SYSTEM) for part in text.split(",")]
        if not all(name.strip() and price.strip() for name, _, price in pairs):
            raise ValueError(f"{repr_for_error(text)}: {_EXPECTED}")
        read = {name.strip(): read_gpu_price(price) for name, _, price in pairs}
        if len(read) < len(pairs):
            raise ValueError(f"{repr_for_error(text)}: a system has two prices; omit one")
        each = (f"{value:.12g}" if isinstance(value, float) else value for value in read.values())
        return ",".join(f"{n}{PRICES_BY_SYSTEM}{usd}" for n, usd in zip(read, each, strict=True))
    word = text.casefold().replace("-", "_")
    if word in PRICE_KINDS:
        return word
    amount = _AMOUNT.fullmatch(text)
    try:
        number = float(amount[1].replace("_", "")) if amount else None
    except ValueError:
        number = None
    if number is None and _CURRENCY.search(text) and any(c.isdigit() for c in text):
        raise ValueError(f"{repr_for_error(text)}: prices are in USD; convert it")
    if number is None:
        raise ValueError(f"{repr_for_error(text)}: {_EXPECTED}")
    price: float = read_gpu_price(number)
    return price


UsdPerGpuHour = Annotated[Any, Written(read_gpu_price)]
Pue = Annotated[float, Number(unit="ratio", at_least=1, at_most=10)]
UsdPerKwh = Annotated[float, Number(at_least=0.0, at_most=1e6)]
Gco2PerKwh = Annotated[float, Number(at_least=0.0, at_most=1e5)]
USD_PER_GPU_HOUR: Final = Row(
    "Price of one GPU-hour [USD]: a number, a kind of price of the catalog (on_demand, reserved,"
    " market, owned), both by system, as in h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices.",
    default="the price of the catalog, on demand if known",
    elsewhere=("gpu_hour_price", "price_per_gpu_hour", "cost_per_gpu_hour", "price", "gpu_price"),
)
PUE: Final = Row(
    "Power usage effectiveness: power of the facility over that of its nodes.",
    default="1 with a rate of electricity, else no power of the facility is reported",
    elsewhere=("power_usage_effectiveness",),
)
USD_PER_KWH: Final = Row(
    "Price of a kWh of electricity [USD].",
    default="no cost of electricity is reported",
    elsewhere=("electricity_price", "price_per_kwh"),
)
GCO2_PER_KWH: Final = Row(
    "Carbon of a kWh of electricity [g of CO2 equivalent].",
    default="no carbon is reported",
    elsewhere=("carbon_intensity", "grid_intensity"),
)


@group("Prices", 7)
class GpuPrices:
    """Prices of GPUs."""

    usd_per_gpu_hour: Annotated[UsdPerGpuHour | None, USD_PER_GPU_HOUR] = None
