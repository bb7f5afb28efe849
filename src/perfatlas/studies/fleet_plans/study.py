"""The study of `fleet plan`: workloads that grow, machines on sale, a site, prices.

```toml
start = "2026-07"
months = 36
site_power = "20MW"

[[workload]]
name = "chat"
tokens_per_day = 2e11
growth_per_year = { value = 1.0, low = 0.5, high = 2.0 }
scenario = { model = "meta-llama/Llama-3.1-70B", format = "fp8", isl = 2048, osl = 512 }

[[machine]]
system = "h100_sxm"
owned = [{ gpus = 4096, delivered = "2024-07" }]

[[machine]]
system = "b200_sxm"
available = "2026-10"
max_gpus_per_month = 2048
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from perfatlas import files
from perfatlas.cost import PriceList, price_list
from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.fleet.model import Lifetime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.reliability.fleet.laws import Law

MONTHS_PER_YEAR: Final = 12
MAX_MONTHS: Final = 120
MAX_MACHINES: Final = 12
MAX_WORKLOADS: Final = 12
MAX_CELLS: Final = 24_000  # GPUs of deliveries by month: half a minute for each plan
MAX_OWNED: Final = 100  # deliveries of a machine before the start
Verb = Literal["estimate", "search", "train"]
_MONTH: Final = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


class Ends(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float


UNCHANGED: Final = Ends(0.0, 0.0, 0.0)


class _Month:
    """A month such as 2026-07, as its number since the year 0."""

    def read(self, value: object, where: str) -> int:
        found = _MONTH.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise InvalidSpecError(
                f"{where} = {repr_for_error(value)}: expected a month such as '2026-07'"
            )
        return MONTHS_PER_YEAR * int(found[1]) + int(found[2]) - 1


@dataclass(frozen=True)
class _Interval:
    """A number, or a table of value, low and high."""

    number: files.Number

    def read(self, value: object, where: str) -> Ends:
        if not isinstance(value, dict):
            number = self.number.read(value, where)
            return Ends(number, number, number)
        names = dict.fromkeys(Ends._fields, files.Field(self.number, required=True))
        ends = Ends(**files.read_fields(value, names, where))
        if not ends.low <= ends.value <= ends.high:
            raise InvalidSpecError(
                f"{where}: expected low <= value <= high, not {ends.low:g}, {ends.value:g},"
                f" {ends.high:g}"
            )
        return ends


class _Scenario:
    """Fields of a verb by name; nested tables are not expected."""

    def read(self, value: object, where: str) -> dict[str, Any]:
        return dict(files.sub_table(value, where))


class _Steps:
    """A power, or powers from months on: [{ from = "2027-01", power = "40MW" }]."""

    def read(self, value: object, where: str) -> tuple[tuple[int, float], ...]:
        if not isinstance(value, list):
            return ((0, _POWER.read(value, where)),)
        fields: dict[str, files.Field[Any]] = {"from": files.Field(_Month(), required=True)}
        fields |= {"power": files.Field(_POWER, required=True)}
        rows = [
            files.read_fields(row, fields, f"{where} {number}")
            for number, row in enumerate(files.sub_tables(value, where), 1)
        ]
        return tuple(sorted((row["from"], row["power"]) for row in rows))


class Owned(NamedTuple):
    """GPUs that are in place at the start."""

    gpus: int
    delivered: int  # Month


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Tokens that are asked for, as they grow."""

    name: str
    verb: Verb = "estimate"
    scenario: Mapping[str, Any]  # Fields of the verb, without the system
    tokens_per_day: float  # Mean over a day: output tokens of services, tokens of training
    growth_per_year: Ends = UNCHANGED  # 1 doubles it each year
    first: int | None = None  # Month in which it begins; the start of the plan by default
    last: int | None = None  # Last month; the end of the plan by default
    peak_ratio: float = 1.0  # Peak load, for which capacity is provided, over the mean
    usd_per_million_tokens: float | None = None  # Revenue; None where all tokens must be served
    price_change_per_year: float = 0.0  # -0.5 halves it each year
    checkpoint_write_s: float | None = None  # Of training: blocking write of a checkpoint [s]
    restart_s: float | None = None  # Of training: restart after a failure [s]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A system that is owned, bought or rented."""

    system: str
    name: str = ""
    scenario: Mapping[str, Any] = field(default_factory=dict)  # Fields that replace the workload's
    is_sold: bool = True  # Whether it can be bought
    available: int | None = None  # First month of delivery; the start of the plan by default
    lead_time_months: int = 0  # From order to delivery
    max_gpus_per_month: float = float("inf")  # Deliveries
    gpus_per_order: int | None = None  # GPUs come in multiples of it; those of a node by default
    usd_per_gpu: Ends | None = None  # At the start; by default the catalog's price of kind capital
    price_change_per_year: Ends = UNCHANGED  # -0.2: a fifth less each year
    owned: tuple[Owned, ...] = ()
    rent_usd_per_gpu_hour: float | None = None  # None where it cannot be rented
    max_rented_gpus: float = float("inf")
    power_w: float | None = None  # AC power of a busy GPU with its share of the node [W]
    idle_power_w: float | None = None  # That of an idle one [W]
    fleet: str = ""  # Failures and repairs of its nodes; those of the plan by default
    lifetime: Law | None = None  # Time to the permanent loss of a GPU; None for no loss

    @property
    def label(self) -> str:
        """Its name in answers."""
        return self.name or self.system


@dataclass(frozen=True, kw_only=True)
class PlanStudy:
    """A plan, checked as far as is possible without pricing it."""

    name: str = "fleet plan"
    start: int  # First month
    months: int
    workloads: tuple[Workload, ...]
    machines: tuple[Machine, ...]
    prices: PriceList
    site_power: tuple[tuple[int, float], ...] = ((0, float("inf")),)  # From a month on [W]
    electricity_change_per_year: float = 0.0
    gco2_per_kwh: float | None = None
    fleet: str = "llama3"
    deliver_every_months: int = 1
    sale_share: float = 0.5  # Share of its market value that a GPU brings, sold or left at the end

    def month(self, month: int | None, default: int) -> int:
        """Return a month, counted from the start of the plan."""
        return default if month is None else month - self.start


def month_text(month: int) -> str:
    """Return a month as text.

    Example:
        >>> from perfatlas.studies.fleet_plans.study import month_text
        >>> month_text(12 * 2026 + 6)
        '2026-07'
    """
    return f"{month // MONTHS_PER_YEAR:04d}-{month % MONTHS_PER_YEAR + 1:02d}"


_POWER: Final = files.Number(dimension="w", unit="W", least=1.0, most=1e12)
_SHARE: Final = files.Number(least=-0.99, most=100.0)
_USD: Final = files.Number(least=1e-6, most=1e9)
_NAME: Final = files.Text(empty=False, expected="a name")
_WORKLOAD: Final[Mapping[str, files.Field[Any]]] = {
    "name": files.Field(_NAME, required=True),
    "verb": files.Field(files.Text(choices=("estimate", "search", "train"))),
    "scenario": files.Field(_Scenario(), required=True, meaning="fields of the verb"),
    "tokens_per_day": files.Field(files.Number(least=1e4, most=1e16), required=True),
    "growth_per_year": files.Field(_Interval(_SHARE)),
    "from": files.Field(_Month(), into="first"),
    "until": files.Field(_Month(), into="last"),
    "peak_ratio": files.Field(files.Number(least=1.0, most=100.0)),
    "usd_per_million_tokens": files.Field(_USD),
    "price_change_per_year": files.Field(_SHARE),
    "checkpoint_write": files.Field(files.Duration(), into="checkpoint_write_s"),
    "restart": files.Field(files.Duration(), into="restart_s"),
}
_OWNED: Final = files.Record(
    fields={
        "gpus": files.Field(files.Whole(least=1, most=10**8), required=True),
        "delivered": files.Field(_Month(), required=True),
    },
    build=Owned,
)
_MACHINE: Final[Mapping[str, files.Field[Any]]] = {
    "system": files.Field(files.Text(empty=False, longest=400), required=True),
    "name": files.Field(_NAME),
    "scenario": files.Field(_Scenario()),
    "buy": files.Field(files.Flag(), into="is_sold"),
    "available": files.Field(_Month()),
    "lead_time_months": files.Field(files.Whole(least=0, most=MAX_MONTHS)),
    "max_gpus_per_month": files.Field(files.Number(least=1.0, most=1e8)),
    "gpus_per_order": files.Field(files.Whole(least=1, most=10**6)),
    "usd_per_gpu": files.Field(_Interval(_USD)),
    "price_change_per_year": files.Field(_Interval(_SHARE)),
    "owned": files.Field(files.Array(of=_OWNED)),
    "rent_usd_per_gpu_hour": files.Field(_USD),
    "max_rented_gpus": files.Field(files.Number(least=1.0, most=1e8)),
    "power": files.Field(_POWER, into="power_w"),
    "idle_power": files.Field(_POWER, into="idle_power_w"),
    "fleet": files.Field(files.Text(empty=False, longest=400)),
    "lifetime": files.Field(Lifetime()),
}
_PLAN: Final[Mapping[str, files.Field[Any]]] = {
    "name": files.Field(_NAME),
    "start": files.Field(_Month(), required=True),
    "months": files.Field(files.Whole(least=1, most=MAX_MONTHS), required=True),
    "site_power": files.Field(_Steps()),
    "electricity_change_per_year": files.Field(_SHARE),
    "gco2_per_kwh": files.Field(files.Number(least=0.0, most=1e4)),
    "fleet": files.Field(files.Text(empty=False, longest=400)),
    "sale_share": files.Field(files.Number(least=0.0, most=1.0)),
    "deliver_every_months": files.Field(files.Whole(least=1, most=MAX_MONTHS)),
}
_TABLES: Final = ("workload", "machine", "prices")


def read_plan(raw: Mapping[str, Any], origin: str) -> PlanStudy:
    """Return a plan, checked as far as is possible without pricing it.

    Args:
        raw: The tables of its TOML.
        origin: The file, for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, a value is invalid, or values contradict.
    """
    files.known_keys(raw, {**_PLAN, **dict.fromkeys(_TABLES)}, origin)
    plan = {key: raw[key] for key in raw if key not in _TABLES}
    fields = files.read_fields(plan, _PLAN, origin)
    rows = {
        name: [
            files.read_fields(row, known, f"{origin}: {name} {number}")
            for number, row in enumerate(files.sub_tables(raw.get(name, []), origin), 1)
        ]
        for name, known in (("workload", _WORKLOAD), ("machine", _MACHINE))
    }
    study = PlanStudy(
        **fields,
        workloads=tuple(Workload(**row) for row in rows["workload"]),
        machines=tuple(Machine(**row) for row in rows["machine"]),
        prices=price_list(files.sub_table(raw.get("prices", {}), origin), f"{origin}: prices"),
    )
    files.refuse_all(list(_problems(study, origin)), origin)
    return study


def _problems(study: PlanStudy, origin: str) -> list[str]:
    """Return what contradicts, in sentences."""
    problems = []
    for kind, rows, most in (
        ("workload", study.workloads, MAX_WORKLOADS),
        ("machine", study.machines, MAX_MACHINES),
    ):
        names = [getattr(row, "label", row.name) for row in rows]
        if not 1 <= len(rows) <= most:
            problems.append(f"{origin}: {len(rows)} [[{kind}]]: expected 1 to {most}")
        if twice := next((name for name in names if names.count(name) > 1), None):
            problems.append(f"{origin}: {kind} {repr_for_error(twice)} is listed twice; set name")
    deliveries = len(study.machines) * -(-study.months // study.deliver_every_months)
    owned = sum(len(machine.owned) for machine in study.machines)
    if (cells := (deliveries // 2 + owned) * study.months) > MAX_CELLS:
        problems.append(
            f"{origin}: {cells:,} months of deliveries: expected at most {MAX_CELLS:,}; set"
            " deliver_every_months, or fewer machines or months"
        )
    for workload in study.workloads:
        where = f"{origin}: workload {workload.name}"
        problems += [f"{where}: {text}" for text in _workload_problems(study, workload)]
    for machine in study.machines:
        where = f"{origin}: machine {machine.label}"
        problems += [f"{where}: {text}" for text in _machine_problems(study, machine)]
    return problems


def _workload_problems(study: PlanStudy, workload: Workload) -> list[str]:
    first, last = study.month(workload.first, 0), study.month(workload.last, study.months - 1)
    trains = workload.verb == "train"
    training = {"checkpoint_write": workload.checkpoint_write_s, "restart": workload.restart_s}
    missing = [name for name, value in training.items() if value is None]
    rules = {
        "from and until leave no month of the plan": (
            not first <= last or last < 0 or first >= study.months
        ),
        "scenario.system: each [[machine]] has its own; remove it": "system" in workload.scenario,
        f"{' and '.join(missing)} must be set: failures interrupt training": (
            trains and bool(missing)
        ),
        "checkpoint_write and restart apply only to verb = 'train'": (
            not trains and len(missing) < len(training)
        ),
    }
    return [text for text, broken in rules.items() if broken]


def _machine_problems(study: PlanStudy, machine: Machine) -> list[str]:
    known = [watts for watts in (machine.power_w, machine.idle_power_w) if watts is not None]
    rules = {
        "buy = false needs owned GPUs or rent_usd_per_gpu_hour": not (
            machine.is_sold or machine.owned or machine.rent_usd_per_gpu_hour
        ),
        "owned GPUs are delivered by the start of the plan": any(
            cohort.delivered > study.start for cohort in machine.owned
        ),
        f"expected at most {MAX_OWNED} deliveries in owned": len(machine.owned) > MAX_OWNED,
        "give power and idle_power together": len(known) == 1,
        "power is below idle_power": len(known) > 1 and known[0] < known[1],
    }
    return [text for text, broken in rules.items() if broken]
