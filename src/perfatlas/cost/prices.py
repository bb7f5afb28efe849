"""Prices of GPU-hours by system, from dated rows of data or of a user."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import files
from perfatlas.cost.ownership import HourlyCost, owned_cost
from perfatlas.hardware import find_slice, resolve_system
from perfatlas.quantities import InvalidSpecError, counted, repr_for_error
from perfatlas.vocabulary.fields import PRICE_KINDS, PRICES_BY_SYSTEM, read_gpu_price

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

PRICES: Final = "data/prices.toml"
ENDS: Final = ("value", "low", "high")
STALE_YEARS: Final = 2
DAYS_PER_YEAR: Final = 365
MAX_REF_LENGTH: Final = 300
MAX_SOURCES: Final = 4  # of one price, in an answer
CAPITAL: Final = "capital"
WORDS: Final = {"on_demand": "on demand", "reserved": "reserved", "market": "on the market"}
_POSITIVE: Final = files.Number(least=1e-9, most=1e9)
_ROW: Final[Mapping[str, files.Field[Any]]] = {
    "system": files.Field(files.Text(empty=False), required=True),
    "kind": files.Field(
        files.Text(choices=(*(k for k in PRICE_KINDS if k != "owned"), CAPITAL)), required=True
    ),
    "usd": files.Field(_POSITIVE, required=True),
    "high": files.Field(_POSITIVE),
    "date": files.Field(
        files.Text(longest=10, expected="a date such as 2026-09-25 or 2026-09"), required=True
    ),
    "provider": files.Field(files.Text()),
    "ref": files.Field(files.Text(longest=MAX_REF_LENGTH), required=True),
    "currency": files.Field(
        files.Text(choices=("USD",), expected="USD, the only currency of prices")
    ),
}
_SHARE: Final = files.Number(least=1e-3, most=1.0)
_TERMS: Final = {
    "rate": files.Number(least=0.0, most=1.0),
    "life_years": files.Number(least=0.25, most=50.0),
    "residual_share": files.Number(least=0.0, most=1.0),
    "network_share": files.Number(least=0.0, most=10.0),
    "host_share": files.Number(least=0.0, most=10.0),
    "upkeep_share_per_year": files.Number(least=0.0, most=10.0),
    "colocation_usd_per_kw_month": files.Number(least=0.0, most=1e6),
    "colocation_includes_power": files.Number(least=0.0, most=1.0, whole=True),
    "usd_per_kwh": files.Number(least=0.0, most=1e6),
    "pue": files.Number(least=1.0, most=10.0),
    "utilization": _SHARE,
    "goodput": _SHARE,
}
_FILE: Final = ("kind", "price", "all_in_power_w", "ownership")


class Quote(NamedTuple):
    """One dated price: USD per GPU-hour, or of a GPU for the kind capital."""

    system: str
    kind: str
    usd: float
    high: float
    date: dt.date
    ref: str


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """Prices and terms of ownership."""

    quotes: tuple[Quote, ...]  # Dated prices
    power_w: Mapping[str, float]  # All-in power of a GPU by system [W]
    terms: Mapping[str, Mapping[str, float]]  # Terms of ownership by end of their interval
    kind: str = ""  # Kind of price that is meant, "" for the first that is known
    set_terms: tuple[str, ...] = ()  # Terms that a user set


@dataclass(frozen=True, kw_only=True)
class GpuPrice:
    """Price of a GPU-hour of a system."""

    kind: str = ""  # given, on_demand, reserved, market or owned; "" if there is no price
    # Cost by the hour, at the value and both ends of its interval; none without a price
    costs: tuple[HourlyCost, ...] = field(default=())
    # What the price is: amount, interval, date and sources; or the remedy without a price
    note: str
    warning: str = ""  # What to know before relying on it, ""
    sources: tuple[str, ...] = ()  # References of its rows

    @property
    def is_known(self) -> bool:
        """Whether there is a price."""
        return bool(self.costs)

    @property
    def is_owned(self) -> bool:
        """Whether electricity is paid beside it."""
        return any(cost.usd_per_kwh for cost in self.costs)

    @property
    def usd(self) -> tuple[float, float, float]:
        """The cost of a useful GPU-hour and both ends, at all-in power, NaN if unknown [USD]."""
        if not self.costs:
            return (math.nan, math.nan, math.nan)
        value, low, high = (float(sum(cost.parts().values())) for cost in self.costs)
        return value, low, high


def prices_of(
    systems: Sequence[str],
    prices: Sequence[Any],
    pue: Sequence[float | None],
    usd_per_kwh: Sequence[float | None],
) -> tuple[list[GpuPrice], NDArray[np.int64]]:
    """Return the distinct prices of candidates, and which each has (C,).

    Args:
        systems: Name of the system of each candidate (C).
        prices: `usd_per_gpu_hour` of each (C).
        pue: PUE that owners pay for, None for that of the terms (C).
        usd_per_kwh: Tariff that owners pay, None for that of the terms (C) [USD].
    """
    distinct: dict[tuple[Any, ...], int] = {}
    keys = zip(systems, prices, pue, usd_per_kwh, strict=True)
    indexes = [distinct.setdefault(key, len(distinct)) for key in keys]
    priced = []
    for name, price, overhead, tariff in distinct:
        gpu = gpu_price(name, price)
        if gpu.is_owned:
            terms = {"pue": overhead, "usd_per_kwh": tariff}
            terms = {key: value for key, value in terms.items() if value is not None}
            paid = replace(gpu, costs=tuple(replace(cost, **terms) for cost in gpu.costs))
            gpu = replace(paid, note=gpu.note.replace(_amount(gpu), _amount(paid), 1))
        priced.append(gpu)
    return priced, np.array(indexes, np.int64)


def price_problem(price: float | str | None) -> InvalidSpecError | None:
    """Return why prices cannot be read, None if they can.

    Args:
        price: As `usd_per_gpu_hour`: names of systems and files are looked up.

    Example:
        >>> from perfatlas.cost import price_problem
        >>> price_problem("h200_sxm=2.5"), type(price_problem("missing.toml")).__name__
        (None, 'InvalidSpecError')
    """
    try:
        if isinstance(price, str) and PRICES_BY_SYSTEM in price:
            for text in _by_system(price).values():
                _priced("", text if isinstance(text, str) else None)
        elif isinstance(price, str):
            _priced("", price)
    except InvalidSpecError as problem:
        return problem
    return None


def gpu_price(system: str, given: float | str | None = None) -> GpuPrice:
    """Return the price of a GPU-hour of a system.

    Args:
        system: Name of the catalog or of a user's file; changes in braces are left out.
        given: As `usd_per_gpu_hour`: a price [USD], a kind of price, prices or kinds by system, or
            a TOML file; None for the catalog.

    Raises:
        InvalidSpecError: The file is invalid, or there is no price of the kind that is asked for.

    Example:
        >>> from perfatlas.cost import gpu_price
        >>> gpu_price("h200_sxm", 2.5).usd, gpu_price("h200_sxm", "b200_sxm=4").kind
        ((2.5, 2.5, 2.5), 'on_demand')
        >>> gpu_price("h20").is_known
        False
    """
    name, changed = system.partition("{")[0].strip(), "{" in system
    if (found_slice := find_slice(name)) is not None:
        name = found_slice.system
    given = read_gpu_price(given)
    if isinstance(given, str) and PRICES_BY_SYSTEM in given:
        listed, given = given, _by_system(given).get(name)
        if given is None:
            priced = gpu_price(system)
            note = priced.note.replace("cost: ", f"cost: {listed} has none of {name}: ", 1)
            return replace(priced, note=note)
    if isinstance(given, float):
        return GpuPrice(
            kind="given",
            costs=(HourlyCost(gpu=given),) * 3,
            note=f"cost: {name} {given:g} USD per GPU-hour, as given",
        )
    priced = _priced(name, given)
    if changed and priced.is_known:
        note = f"{priced.note}; the price is that of {name} without its changes"
        return replace(priced, note=note)
    return priced


def price_list(table: Mapping[str, Any], where: str) -> PriceList:
    """Return the prices of a table, and those of the catalog that it leaves out.

    Args:
        table: As a TOML of `usd_per_gpu_hour`: price, ownership, all_in_power_w.
        where: Its place, for messages.

    Raises:
        InvalidSpecError: The table is invalid.
    """
    return _read(table, where, _shipped())


def capital_usd(
    system: str, prices: PriceList
) -> tuple[tuple[float, float, float], tuple[str, ...]] | None:
    """Return the purchase price of a GPU with its interval [USD], and sources; None if unknown.

    Example:
        >>> from perfatlas.cost import capital_usd, price_list
        >>> capital_usd("b200_sxm", price_list({}, "prices"))[0]
        (41500.0, 40000.0, 43000.0)
    """
    name = system.partition("{")[0].strip()
    quotes = [quote for quote in prices.quotes if (quote.system, quote.kind) == (name, CAPITAL)]
    if not quotes:
        return None
    recent, ends = _recent(quotes)
    return ends, tuple(dict.fromkeys(quote.ref for quote in recent))


@cache
def _by_system(prices: str) -> dict[str, float | str]:
    """Return prices or kinds of prices by the name of their system."""
    pairs = (part.split(PRICES_BY_SYSTEM) for part in prices.split(","))
    return {resolve_system(name).name: read_gpu_price(price) for name, price in pairs}


def _priced(name: str, price: str | None) -> GpuPrice:
    """Return a price from the shipped list, or from the file that is given."""
    if price is None or price in PRICE_KINDS:
        return _shipped_price(name, price or "")
    prices = _read(files.read_toml(price), price, _shipped())
    return _listed_price(name, prices.kind, prices)


@cache
def _shipped_price(name: str, kind: str) -> GpuPrice:
    return _listed_price(name, kind, _shipped())


def _listed_price(name: str, wanted: str, prices: PriceList) -> GpuPrice:
    """Return the price of a kind, "" for the first kind of rent that is known."""
    kinds = (wanted,) if wanted else tuple(k for k in PRICE_KINDS if k != "owned")
    for kind in kinds:
        quoted = CAPITAL if kind == "owned" else kind
        quotes = [quote for quote in prices.quotes if (quote.system, quote.kind) == (name, quoted)]
        if quotes and not (kind == "owned" and name not in prices.power_w):
            return _from_quotes(name, kind, quotes, prices)
    return GpuPrice(note=_without_price(name, wanted))


def _without_price(name: str, wanted: str) -> str:
    """Return what to do about a system without a price."""
    kind = f" of kind {wanted}" if wanted else ""
    if wanted == "owned":
        kind += " (owning needs a row of kind capital and its all_in_power_w)"
    return (
        f"cost: no price{kind} of {name} is known: set usd_per_gpu_hour to a price, as"
        f" {name}=2.5, or to a TOML file of prices"
    )


def _from_quotes(name: str, kind: str, quotes: Sequence[Quote], prices: PriceList) -> GpuPrice:
    """Return the median price of the newest year of quotes, with their range as its interval."""
    recent, ends = _recent(quotes)
    newest = max(quote.date for quote in recent)
    if kind == "owned":
        watts = prices.power_w[name]
        costs = tuple(
            owned_cost(usd, watts, dict(prices.terms[end]))
            for usd, end in zip(ends, ENDS, strict=True)
        )
    else:
        term = prices.terms["value"]
        loads = {"utilization": term["utilization"], "goodput": term["goodput"]}
        costs = tuple(HourlyCost(gpu=usd, **loads) for usd in ends)
    sources = tuple(dict.fromkeys(quote.ref for quote in recent))
    price = GpuPrice(kind=kind, costs=costs, note="", sources=sources[:MAX_SOURCES])
    age = (dt.datetime.now(tz=dt.UTC).date() - newest).days
    warning = ""
    if age > STALE_YEARS * DAYS_PER_YEAR:
        warning = (
            f"the newest price of {name} is of {newest:%Y-%m}, more than {STALE_YEARS} years ago:"
            f" set usd_per_gpu_hour = {name}=PRICE"
        )
    return replace(price, note=_note(name, price, recent, ends, prices), warning=warning)


def _recent(quotes: Sequence[Quote]) -> tuple[list[Quote], tuple[float, float, float]]:
    """Return the quotes of the newest year, their median and their range."""
    newest = max(quote.date for quote in quotes)
    recent = [quote for quote in quotes if (newest - quote.date).days <= DAYS_PER_YEAR]
    middle = median((quote.usd + quote.high) / 2.0 for quote in recent)
    return recent, (middle, min(q.usd for q in recent), max(q.high for q in recent))


def _amount(price: GpuPrice) -> str:
    usd, low, high = price.usd
    return f"{usd:.2f} USD per GPU-hour ({low:.2f} to {high:.2f})"


def _note(
    name: str,
    price: GpuPrice,
    recent: Sequence[Quote],
    ends: tuple[float, float, float],
    prices: PriceList,
) -> str:
    """Return what a price is: amount, interval, dates, and the terms of ownership."""
    first, last = min(quote.date for quote in recent), max(quote.date for quote in recent)
    how = "owned" if price.kind == "owned" else WORDS[price.kind]
    head = (
        f"cost: {name} {how}, {_amount(price)}, {last:%Y-%m};"
        f" median and range of {counted(len(recent), 'price')} from {first:%Y-%m}"
    )
    if price.kind != "owned":
        return f"{head}, power included"
    term = prices.terms["value"]
    power = "includes" if term["colocation_includes_power"] else "does not include"
    by_user = f"; terms set by the user: {', '.join(prices.set_terms)}" if prices.set_terms else ""
    return (
        f"{head}: {ends[0]:,.0f} USD per GPU, {term['rate']:.0%} per year over"
        f" {term['life_years']:g} years with {term['residual_share']:.0%} left, utilization"
        f" {term['utilization']:g}, goodput {term['goodput']:g}; the colocation rate {power}"
        f" power{by_user}"
    )


@cache
def _shipped() -> PriceList:
    return _read(files.shipped_table(PRICES), PRICES, None)


def _read(table: Mapping[str, Any], where: str, base: PriceList | None) -> PriceList:
    """Return the prices of a file; what it leaves out is that of `base`."""
    for key in table:
        if key not in _FILE:
            raise InvalidSpecError(
                f"{where}: unknown key {repr_for_error(key)}; a file of prices has"
                f" {', '.join(_FILE)}"
            )
    kind = table.get("kind", "")
    if kind:
        files.Text(choices=PRICE_KINDS).read(kind, f"{where}: kind")
    quotes = [
        _quote(row, f"{where}: price") for row in files.sub_tables(table.get("price", []), where)
    ]
    named = {(quote.system, quote.kind) for quote in quotes}
    inherited = () if base is None else base.quotes
    inherited = tuple(quote for quote in inherited if (quote.system, quote.kind) not in named)
    power = dict(table.get("all_in_power_w", {}))
    power.pop("source", None)
    watts = files.Named(of=_POSITIVE).read(power, f"{where}: all_in_power_w")
    terms, set_terms = _terms(table.get("ownership", {}), f"{where}: ownership", base)
    return PriceList(
        quotes=(*quotes, *inherited),
        power_w=({} if base is None else dict(base.power_w)) | watts,
        terms=terms,
        kind=kind,
        set_terms=() if base is None else set_terms,
    )


def _quote(row: Mapping[str, Any], where: str) -> Quote:
    fields = files.read_fields(row, _ROW, where)
    usd, high = fields["usd"], fields.get("high", fields["usd"])
    if high < usd:
        raise InvalidSpecError(f"{where}: high = {high:g} is below usd = {usd:g}")
    text = fields["date"]
    try:
        date = dt.date.fromisoformat(text if len(text) > len("2026-09") else f"{text}-01")
    except ValueError:
        raise InvalidSpecError(
            f"{where}: date = {repr_for_error(text)}: expected one such as 2026-09-25 or 2026-09"
        ) from None
    return Quote(fields["system"], fields["kind"], usd, high, date, fields["ref"])


def _terms(
    raw: object, where: str, base: PriceList | None
) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Return the terms of ownership by end, and the names of those that are set.

    A value without an interval, as a user writes it, holds at both ends.
    """
    table = files.sub_table(raw, where)
    terms = {end: {} if base is None else dict(base.terms[end]) for end in ENDS}
    for name, value in table.items():
        if name not in _TERMS:
            raise InvalidSpecError(
                f"{where}: unknown term {repr_for_error(name)}; terms are {', '.join(_TERMS)}"
            )
        by_end = value if isinstance(value, dict) else {"value": value}
        for end in ENDS:
            number = by_end.get(end, by_end.get("value"))
            terms[end][name] = _TERMS[name].read(number, f"{where}.{name}")
    return terms, tuple(table)
