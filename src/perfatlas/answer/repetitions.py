"""Results of one scenario over several seeds: means and confidence intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.vocabulary.metrics import SEEDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONFIDENCE: Final = 0.9
# values that do not depend on the seed
SIZES: Final = (
    *("gpus", "kv_capacity_tokens", "kv_blocks"),
    *("prefill_kv_capacity_tokens", "prefill_kv_blocks", "seeds_simulated"),
)


def averaged(repeated: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means of results over seeds; a flag is set if any seed sets it.

    Args:
        repeated: Results by name, one mapping per seed; names missing in any are omitted.

    Example:
        >>> from perfatlas.answer.repetitions import averaged
        >>> averaged([{"steps": 2, "ttft_s": {"mean": 1.0}}, {"steps": 4, "ttft_s": {"mean": 2.0}}])
        {'steps': 3.0, 'ttft_s': {'mean': 1.5}}
    """
    names = [name for name in repeated[0] if all(name in row for row in repeated)]
    return {name: _mean([row[name] for row in repeated]) for name in names}


def _mean(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a number, a flag or a mapping of numbers
    first = values[0]
    if isinstance(first, dict):
        return averaged(values)
    if any(value is None for value in values):
        return None
    if isinstance(first, bool):
        return any(values)
    if all(value == first for value in values):
        return first
    return math.fsum(values) / len(values)


def half_widths(
    repeated: Sequence[Mapping[str, Any]],
) -> dict[str, dict[str, float | None] | float | None]:
    """Return the half-widths of 90% confidence intervals of results over seeds.

    Uses Student's t over the values per seed: the uncertainty of the mean due to random arrivals
    and lengths, not due to prices.

    Args:
        repeated: Results by name, one mapping per seed, at least two.

    Returns:
        `x_seed_half_width` for each measured result `x`, per statistic for distributions; None if
        a seed has no value.

    Example:
        >>> from perfatlas.answer.repetitions import half_widths
        >>> half_widths([{"requests_per_s": 4.0, "gpus": 8}, {"requests_per_s": 4.0, "gpus": 8}])
        {'requests_per_s_seed_half_width': 0.0}
    """
    first = repeated[0]
    widths: dict[str, dict[str, float | None] | float | None] = {}
    for name in first:
        if name in SIZES or name.endswith(("_low", "_high")):
            continue
        values = [row.get(name) for row in repeated]
        if isinstance(first[name], dict):
            if "p99" in first[name]:
                widths[f"{name}{SEEDS}"] = {
                    key: half_width([value[key] for value in values if value])
                    for key in first[name]
                }
        elif not any(isinstance(value, bool | str) for value in values):
            widths[f"{name}{SEEDS}"] = half_width(values)
    return widths


def half_width(values: Sequence[float | None]) -> float | None:
    """Return the half-width of the 90% confidence interval of the mean of draws.

    Args:
        values: At least two values; None if missing.
    """
    from scipy.special import stdtrit

    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return None
    degrees = len(present) - 1
    middle = math.fsum(present) / len(present)
    squares = math.fsum((value - middle) ** 2 for value in present)
    factor = float(stdtrit(degrees, 0.5 + CONFIDENCE / 2.0)) / math.sqrt(len(present))
    return factor * math.sqrt(squares / degrees)
