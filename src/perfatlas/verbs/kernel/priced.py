"""Questions about one operator priced in one call, and what each of them is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.answer import (
    MEASURED_STANDING,
    Answer,
    price_columns,
    quantization_note,
    quantization_of,
    require_tier,
    single_evidence,
    single_row,
)
from perfatlas.hardware import resolve_system
from perfatlas.kernels.devices import DeviceColumns
from perfatlas.kernels.tiers import price_operators
from perfatlas.operators import LatentAttention, Phase
from perfatlas.quantities import UnsupportedError
from perfatlas.scenario.resolution import kernel_engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import System
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.verbs.kernel.question import Question


@dataclass(frozen=True, kw_only=True)
class PricedQuestions:
    """Questions whose words are equal, priced as candidates of one operator.

    Args:
        asked: The questions (C).
        system: Where the operator runs.
        operator: Its columns (C).
        prices: Its prices (C, 1).
    """

    asked: Sequence[Question]
    system: System
    operator: Operator
    prices: PricedOperators

    def match(self, c: int) -> CalibrationMatch | None:
        """Return the calibration that priced a question, None in tier bound.

        Args:
            c: The question.
        """
        position = int(self.prices.match_CO[c, 0])
        return self.prices.matches[position] if position >= 0 else None

    def results(self) -> list[dict[str, Any]]:
        """Return the results of every question."""
        work = self.operator.work()
        columns = {
            **price_columns(self.prices),
            "flop": work.flop.tolist(),
            "cold_bytes": work.cold_bytes.tolist(),
            "activation_bytes": work.activation_bytes.tolist(),
        }
        shared = quantization_of(self.operator)
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) | shared for row in rows]

    def warnings(self, c: int) -> tuple[str, ...]:
        """Return what to know before a question's answer is trusted.

        Args:
            c: The question.
        """
        if self.asked[c].tier == "bound" or self.prices.match_CO[c, 0] >= 0:
            return ()
        warning = (
            f"{self.system.device.name} has no measured kernels for this operator and format: the"
            " time is the bound (speed of light), a lower limit"
        )
        return (warning,)


def price_questions(asked: Sequence[Question], operator: Operator) -> PricedQuestions:
    """Return the prices of questions whose words are equal.

    Args:
        asked: The questions (C).
        operator: Their columns (C).

    Raises:
        InvalidSpecError: No system or engine has that name.
        UnsupportedError: No such format on the device, or no measured kernels for the tier.
    """
    first = asked[0]
    system, family = resolve_system(first.system), kernel_engine(first.kernel_family).kernel_family
    devices = DeviceColumns(
        devices=(system.device,),
        index_C=np.zeros(len(asked), np.int64),
        clock_ratio_C=np.array([one.clock_ratio for one in asked]),
    )
    version = first.silicon_version or ""
    if first.tier == "measured":
        require_tier(system, first.tier, family, version or None)
    prices = price_operators(
        [operator], devices, family=family, tier=first.tier, silicon_version=version
    )
    if first.tier == "physics" and np.any(prices.match_CO < 0):
        raise UnsupportedError(
            f"no measured {operator.kind} kernels for {system.device.name} in this format;"
            " use tier bound or auto"
        )
    return PricedQuestions(asked=asked, system=system, operator=operator, prices=prices)


def operator_answer(command: str, fields: Mapping[str, Any], priced: PricedQuestions) -> Answer:
    """Return the answer of the first question.

    Args:
        command: The verb.
        fields: The question as given.
        priced: Its price.
    """
    results, match = priced.results()[0], priced.match(0)
    return Answer(
        command=command,
        scenario={name: value for name, value in fields.items() if value is not None},
        results=results,
        breakdown=[
            single_row(priced.operator.name, priced.operator.phase, results, match, "compute")
        ],
        evidence=single_evidence(
            priced.system, match, _assumptions(priced, match), str(results["tier"])
        ),
        warnings=priced.warnings(0),
    )


def _assumptions(priced: PricedQuestions, match: CalibrationMatch | None) -> list[str]:
    asked, measured = priced.asked[0], bool(priced.prices.measured_CO[0, 0])
    said = ["cold caches, one kernel of a CUDA graph"]
    said += quantization_note(priced.operator, match, measured=measured)
    if asked.clock_ratio != 1.0:
        said.append(
            f"{asked.clock_ratio:g} of the sustained clock: what follows the clock is scaled;"
            " no kernel was measured at another clock, so the interval is that of the sustained one"
        )
    if asked.kernel_family is not None and match is None:
        said.append(
            f"kernel_family = {asked.kernel_family} has no effect: the bound holds for all kernels"
        )
    latent = isinstance(priced.operator, LatentAttention) and priced.operator.phase == Phase.DECODE
    if latent and match is None and "head_dim" in asked.model_fields_set:
        said.append("head_dim has no effect: the bound of decode works on the latent cache alone")
    if asked.tier == "measured":
        said.append(MEASURED_STANDING)
        if match is not None and not measured and match.table[0]:
            said.append("no measured rows near this shape: physics")
    outside = float(priced.prices.outside_CO[0, 0])
    if outside > 0.0:
        kept = "what physics misses at their edge is kept and " if measured else ""
        said.append(
            f"{outside:.1f} octaves outside the shapes that were measured: {kept}the interval is"
            " widened"
        )
    return said
