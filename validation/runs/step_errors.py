"""Step-time error quantiles per engine from serving runs, with held-out models.

Shape legend: N runs.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import format_toml, write_atomic
from validation.runs.predictions import answered, below_bound
from validation.runs.shipped_errors import STEP_ERRORS, step_errors
from validation.scoring import SCORES, scores_beside_constant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray

Row = dict[str, Any]
TAILS: Final = (0.05, 0.95)
DIGITS: Final = 4
HEADER: Final = (
    "# How far time per output token was from predicted, in ln(measured / predicted): written by\n"
    "# validation.runs.step_errors from the runs of `validation steps` (aiconfigurator-core\n"
    "# 0.12.0, silicon_sample.csv, Apache-2.0). Errors of the runs of each engine.\n\n"
)


def residuals(rows: Sequence[Row]) -> FloatArray:
    """Return ln(measured / predicted) of predicted runs (N,).

    Args:
        rows: From `predict_runs`, without errors.
    """
    measured = np.array([row["tpot_measured_s"] for row in rows], np.float64)
    found: FloatArray = np.log(measured / np.array([row["tpot_s"] for row in rows], np.float64))
    return found


def possible(rows: Sequence[Row]) -> list[Row]:
    """Return the predicted runs that are not faster than the bound for their stated load.

    Args:
        rows: From `predict_runs`.
    """
    return [row for row in answered(rows) if not below_bound(row)]


def error_tails(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the 5% and 95% quantiles of the residuals of plausible runs.

    Args:
        rows: From `predict_runs`, at least one plausible.

    Example:
        >>> from validation.runs.step_errors import error_tails
        >>> one = {"tpot_s": 1.0, "tpot_measured_s": 1.0}
        >>> one |= {"request_latency_bound_s": 5.0, "request_latency_measured_s": 9.0}
        >>> error_tails([one, one | {"tpot_measured_s": 0.1, "request_latency_measured_s": 1.0}])
        (0.0, 0.0)
    """
    low, high = np.quantile(residuals(possible(rows)), TAILS)
    return round(float(low), DIGITS), round(float(high), DIGITS)


def unseen_networks(rows: Sequence[Row]) -> list[Row]:
    """Return, per engine and network, the number of runs inside the errors of other networks.

    For every network the tails come from the engine's other networks. They are not those of the
    printed interval, which is composed of the errors of all sources.

    Args:
        rows: From `predict_runs`.
    """
    found: list[Row] = []
    for engine in sorted({row["backend"] for row in rows}):
        own = [r for r in rows if r["backend"] == engine and r["tpot_s_high"] is not None]
        own = [row for row in own if np.isfinite(row["tpot_s_high"])]
        for network in sorted({row["network"] for row in own}):
            others = [row for row in own if row["network"] != network]
            if not others:
                continue
            asked = [row for row in own if row["network"] == network]
            low, high = error_tails(others)
            inside = (low <= residuals(asked)) & (residuals(asked) <= high)
            found.append(
                {
                    "engine": engine,
                    "network": network,
                    "dense": asked[0]["dense"],
                    "rows": len(asked),
                    "held": int(inside.sum()),
                    "tpot_inside_90_unseen": float(np.mean(inside)),
                }
            )
    return found


def tpot_scores(rows: Sequence[Row]) -> Row:
    """Return the interval score of predicted runs beside that of a constant width.

    The constant that scores a network is fitted to the runs of all other networks.

    Args:
        rows: From `predict_runs`.
    """
    own = [row for row in answered(rows) if row["tpot_s_high"] is not None]
    if not own:
        return dict.fromkeys(SCORES)
    ends = (
        np.log([row[f"tpot_s_{end}"] / row["tpot_s"] for row in own]) for end in ("low", "high")
    )
    low_N, high_N = ends
    networks = [row["network"] for row in own]
    return scores_beside_constant(residuals(own), (low_N, high_N), networks)


def share_held(networks: Sequence[Row]) -> float | None:
    """Return the share of runs inside over several networks, None for none.

    Args:
        networks: From `unseen_networks`.
    """
    runs = sum(row["rows"] for row in networks)
    return sum(row["held"] for row in networks) / runs if runs else None


def step_error_rows(rows: Sequence[Row], sha256: str) -> dict[str, Mapping[str, Any]]:
    """Return the content of the shipped file, by engine.

    Args:
        rows: `predictions` of `validate_steps`.
        sha256: Digest of the file of runs.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for engine in sorted({row["backend"] for row in rows}):
        own = [row for row in rows if row["backend"] == engine and row["tpot_s"] is not None]
        used = possible(own)
        q05, q95 = error_tails(own)
        found[engine] = {
            "q05": q05,
            "q95": q95,
            "runs": len(used),
            "left_out": len(own) - len(used),
            "networks": len({row["network"] for row in used}),
            "data_hash": f"sha256:{sha256[:16]}",
            "command": "python -m validation steps",
        }
    return found


def write_step_errors(rows: Sequence[Row], sha256: str, path: Path | None = None) -> Path:
    """Write the tails of every engine to the data, and return the path.

    Args:
        rows: `predictions` of `validate_steps`.
        sha256: Digest of the file of runs.
        path: File, by default the stored one.
    """
    found = step_error_rows(rows, sha256)
    target = path or Path(str(resources.files("validation").joinpath(STEP_ERRORS)))
    write_atomic(target, HEADER + format_toml({"engine": found}))
    step_errors.cache_clear()
    return target
