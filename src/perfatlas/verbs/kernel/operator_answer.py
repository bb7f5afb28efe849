"""Reading of one operator's fields and its answer, shared by the kernel verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import (
    MEASURED_STANDING,
    Answer,
    quantization_of,
    require_tier,
    said_of_quantization,
    single_evidence,
    single_row,
    tier_name,
)
from perfatlas.engines import resolve_engine
from perfatlas.formats import Format, get_format
from perfatlas.hardware import System, resolve_system
from perfatlas.kernels.devices import DeviceColumns
from perfatlas.kernels.tiers import Tier, price_operators
from perfatlas.operators import BOUND_NAMES
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators

TIERS: Final[tuple[Tier, ...]] = ("auto", "bound", "physics", "measured")
LARGEST: Final = 10**9  # a dimension beyond this is a typing error
CLOCKS: Final = (0.05, 2.0)  # over the sustained clock, as a scenario takes them


class OperatorReader:
    """Typed access to the fields of one operator, with messages that name them.

    Args:
        command: The verb, for messages and the answer.
        fields: What the user gave; None is not given.
    """

    def __init__(self, command: str, fields: Mapping[str, Any]) -> None:
        """Keep what was given."""
        self.command = command
        self.given = {name: value for name, value in fields.items() if value is not None}

    def allow(self, names: Sequence[str]) -> None:
        """Refuse a field the verb does not know.

        Raises:
            InvalidSpecError: With the nearest known name.
        """
        for name in self.given:
            if name not in names:
                raise InvalidSpecError(
                    f"{self.command}: unknown field {name!r}{did_you_mean(name, names)}"
                )

    def text(self, name: str, default: str = "") -> str:
        """Return a text field.

        Raises:
            InvalidSpecError: Something else than text.
        """
        value = self.given.get(name, default)
        if not isinstance(value, str):
            raise InvalidSpecError(f"{name} = {shown(value)}: expected text")
        return value

    def system(self) -> System:
        """Return the system named."""
        name = self.text("system")
        if not name:
            raise InvalidSpecError(f"{self.command}: system is required, such as h200_sxm")
        return resolve_system(name)

    def size(
        self,
        name: str,
        default: float | None = None,
        *,
        least: int = 1,
        largest: int = LARGEST,
    ) -> FloatArray:
        """Return a whole number as a column of one (1,).

        Raises:
            InvalidSpecError: Missing, not whole, or outside [least, largest].
        """
        value = self.given.get(name, default)
        if value is None:
            raise InvalidSpecError(f"{self.command}: {name} is required (a positive integer)")
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        whole = np.isfinite(number) and number == int(number)
        if isinstance(value, bool) or not whole or not least <= number <= largest:
            raise InvalidSpecError(
                f"{name} = {shown(value)}: expected a whole number from {least} to {largest:.0e}"
            )
        return np.array([number])

    def clock_ratio(self) -> float:
        """Return the clock over the sustained clock of the device, 1 by default.

        Raises:
            InvalidSpecError: Not a number, or outside `CLOCKS`.
        """
        value = self.given.get("clock_ratio", 1.0)
        try:
            ratio = float("nan") if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            ratio = float("nan")
        least, most = CLOCKS
        if not least <= ratio <= most:
            raise InvalidSpecError(
                f"clock_ratio = {shown(value)}: expected a number from {least:g} to {most:g}, the"
                " clock over the sustained clock of the device"
            )
        return ratio

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return one of a few words.

        Raises:
            InvalidSpecError: Another word.
        """
        value = self.text(name, default)
        if value not in choices:
            nearest = did_you_mean(value, choices) or ";"
            raise InvalidSpecError(f"{name} = {shown(value)}{nearest} one of {', '.join(choices)}")
        return value

    def number_format(self, name: str) -> Format:
        """Return a number format, bf16 by default; "fp8" is fp8 with static scales."""
        value = self.text(name, "bf16")
        return get_format("fp8_static" if value.casefold() == "fp8" else value)

    def family(self) -> str:
        """Return the kernel family, "" for the fastest of all."""
        return self.kernel_engine().kernel_family

    def kernel_engine(self) -> EngineProfile:
        """Return the engine whose kernels run; without one asked for, the ideal.

        Raises:
            InvalidSpecError: No engine has that name.
        """
        try:
            return resolve_engine(self.text("kernel_family", "ideal"))
        except InvalidSpecError as error:
            raise InvalidSpecError(
                f"kernel_family names the engine whose kernels run: {error}"
            ) from error

    def tier(self) -> Tier:
        """Return the tier."""
        return next(tier for tier in TIERS if tier == self.choice("tier", TIERS, "auto"))

    def price(self, operator: Operator) -> Answer:
        """Return the answer of one operator on the system asked for.

        Raises:
            UnsupportedError: No such format on the device, or no measured kernels for physics.
        """
        self.choice("protocol", ("cold",), "cold")
        system, tier = self.system(), self.tier()
        devices = DeviceColumns(
            devices=(system.device,),
            index_C=np.zeros(1, np.int64),
            clock_ratio_C=np.array([self.clock_ratio()]),
        )
        family, version = self.family(), self.text("silicon_version")
        if tier == "measured" or version:
            require_tier(system, tier, family, version or None)
        priced = price_operators(
            [operator], devices, family=family, tier=tier, silicon_version=version
        )
        if tier == "physics" and priced.match_CO[0, 0] < 0:
            raise UnsupportedError(
                f"no measured {operator.kind} kernels for {system.device.name} in this format;"
                " use tier bound or auto"
            )
        return _answer(self, operator, system, priced)


def _answer(
    reader: OperatorReader, operator: Operator, system: System, priced: PricedOperators
) -> Answer:
    match = priced.matches[priced.match_CO[0, 0]] if priced.match_CO[0, 0] >= 0 else None
    work = operator.work()
    measured = bool(priced.measured_CO[0, 0])
    results = {
        "time_s": float(priced.time_s_CO[0, 0]),
        "time_s_low": float(priced.low_s_CO[0, 0]),
        # a bound is a lower limit: it has no upper end
        "time_s_high": None if match is None else float(priced.high_s_CO[0, 0]),
        "bound": BOUND_NAMES[priced.code_CO[0, 0]],
        "bound_time_s": float(priced.bound_s_CO[0, 0]),
        "tier": tier_name(calibrated=match is not None, measured=measured),
        "flop": float(work.flop[0]),
        "cold_bytes": float(work.cold_bytes[0]),
        "activation_bytes": float(work.activation_bytes[0]),
        **quantization_of(operator),
    }
    warning = (
        f"{system.device.name} has no measured kernels for this operator and format: the time is"
        " the bound (speed of light), a lower limit"
    )
    said = ["cold caches, one kernel of a CUDA graph"]
    said += said_of_quantization(operator, match, measured=measured)
    if reader.clock_ratio() != 1.0:
        said.append(
            f"{reader.clock_ratio():g} of the sustained clock: what follows the clock is scaled;"
            " no kernel was measured at another clock, so the interval is that of the sustained one"
        )
    if reader.tier() == "measured":
        said.append(MEASURED_STANDING)
        if results["tier"] == "physics" and match is not None and match.table[0]:
            said.append("no measured rows near this shape: physics")
    outside = float(priced.outside_CO[0, 0])
    if outside > 0.0:
        kept = "what physics misses at their edge is kept and " if measured else ""
        said.append(
            f"{outside:.1f} octaves outside the shapes that were measured: {kept}the interval is"
            " widened"
        )
    return Answer(
        command=reader.command,
        scenario=reader.given,
        results=results,
        breakdown=[single_row(operator.name, operator.phase, results, match, "compute")],
        evidence=single_evidence(system, match, said, str(results["tier"])),
        warnings=() if match is not None or reader.tier() == "bound" else (warning,),
    )
