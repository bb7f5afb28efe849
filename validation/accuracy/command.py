"""`python -m validation accuracy`."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.files import write_atomic
from perfatlas.quantization import MODEL, PERPLEXITY, TABLE, published_pairs
from validation.accuracy.fit import error_table, fitted
from validation.accuracy.folds import (
    Scored,
    covered_by_family,
    folds,
    score_fold,
)
from validation.scoring import interval_score, print_results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.quantization import AccuracyModel

COLUMNS: Final = {
    "summary": {"what": "", "pairs": "pairs", "value": "value", "low": "low", "high": "high"},
    "scores": {
        "what": "",
        "pairs": "pairs",
        "interval_score": "interval score",
        "simple_score": "mean and spread",
        "median_width": "median width",
        "simple_covers": "simple covers",
    },
    "formats": {
        "what": "",
        "pairs": "pairs",
        "median_miss": "median miss",
        "simple_miss": "of the mean",
        "interval_score": "interval score",
        "simple_score": "mean and spread",
    },
    "declined": {"reason": "", "pairs": "pairs"},
}
TITLES: Final = {
    "summary": "90% intervals of published pairs from other families or models",
    "scores": "interval score beside mean and spread of the format and method",
    "formats": "roundings of weights, activations and cache, with median distances",
    "declined": "published pairs that are not predicted",
}
COVERED: Final = (0.85, 0.95)
MAX_DECLINED_SHARE: Final = 0.25
MISSED: Final = 7
MIN_PAIRS: Final = 7  # of a format that has a row
PACKAGE: Final = Path(__file__).parents[2] / "src" / "perfatlas"
RELATIVE_DIGITS: Final = 6


def accuracy(
    *, json: Annotated[bool, SWITCH] = False, refit: Annotated[bool, SWITCH] = False
) -> int:
    """Predict published changes of accuracy from those of other families or models.

    Args:
        json: Print one JSON object.
        refit: Write the error table of formats and the model fitted to all pairs.
    """
    if refit:
        write_fits()
        return 0
    results = validate_accuracy()
    print_results("accuracy", results, COLUMNS, TITLES, json=json)
    return 0 if results["met"] else MISSED


def validate_accuracy() -> dict[str, Any]:
    """Return coverage, interval scores, widths and declined pairs, as rows of tables."""
    pairs, left_out = published_pairs()
    parts = folds(pairs)
    with ProcessPoolExecutor() as workers:
        found = workers.map(score_fold, parts, parts.values(), [pairs] * len(parts))
        scored = [row for rows in found for row in rows]
    return summarize(scored, left_out)


def summarize(scored: Sequence[Scored], left_out: Mapping[str, int]) -> dict[str, Any]:
    """Return the tables of scored pairs.

    Args:
        left_out: Pairs that are not predicted, by reason.
    """
    rows = [one for one in scored if not one.declined]
    declined = dict(left_out)
    if beyond := len(scored) - len(rows):
        declined["noise or task beyond the pairs of the fit"] = beyond
    share = sum(declined.values()) / (sum(left_out.values()) + len(scored))
    covered, low, high = covered_by_family(rows)
    within = sum(abs(row.pair.change) <= 1.6449 * row.noise for row in rows)
    scores = [
        _score(name, [row for row in rows if (row.pair.benchmark == PERPLEXITY) == is_ratio])
        for name, is_ratio in (("benchmarks [points]", False), ("perplexity [log ratio]", True))
    ]
    groups: dict[str, list[Scored]] = {}
    for row in (one for one in rows if one.simple is not None):
        unit = " [log ratio]" if row.pair.benchmark == PERPLEXITY else ""
        groups.setdefault(f"{', '.join(row.pair.roundings)}{unit}", []).append(row)
    met = COVERED[0] <= covered <= COVERED[1] and share <= MAX_DECLINED_SHARE
    return {
        "summary": [
            {"what": "covered", "pairs": len(rows), "value": covered, "low": low, "high": high},
            {"what": "declined", "pairs": sum(declined.values()), "value": share},
            {"what": "within repeated evaluations", "pairs": within, "value": within / len(rows)},
        ],
        "scores": scores,
        "formats": [
            _score(name, some) for name, some in sorted(groups.items()) if len(some) >= MIN_PAIRS
        ],
        "declined": [{"reason": why, "pairs": count} for why, count in declined.items()],
        "met": met and all(score["interval_score"] < score["simple_score"] for score in scores),
    }


def _score(what: str, rows: Sequence[Scored]) -> dict[str, Any]:
    both = [(row, row.simple) for row in rows if row.simple is not None]
    changes = [scored.pair.change for scored, _ in both]
    ours = [
        interval_score(scored.pair.change, scored.ends[0], scored.ends[2]) for scored, _ in both
    ]
    simple = [interval_score(x, *ends) for (_, ends), x in zip(both, changes, strict=True)]
    inside = [ends[0] <= x <= ends[1] for (_, ends), x in zip(both, changes, strict=True)]
    missed = [abs(scored.ends[1] - scored.pair.change) for scored, _ in both]
    simply = [abs(mean(ends) - x) for (_, ends), x in zip(both, changes, strict=True)]
    return {
        "what": what,
        "pairs": len(both),
        "median_miss": median(missed),
        "simple_miss": median(simply),
        "interval_score": mean(ours),
        "simple_score": mean(simple),
        "median_width": _width(rows),
        "simple_covers": mean(inside),
    }


def _width(rows: Sequence[Scored]) -> float:
    return median(row.ends[2] - row.ends[0] for row in rows)


def write_fits() -> None:
    """Write the error table of formats, then the model fitted to all usable pairs."""
    lines = [
        "# SQNR of roundings, 2^20 samples of seed 0 [dB]: `python -m validation accuracy --refit`"
    ]
    lines += [f'"{name}" = {_inline(row)}' for name, row in error_table().items()]
    write_atomic(PACKAGE / TABLE, "\n".join([*lines, ""]))
    pairs, _ = published_pairs()
    write_atomic(PACKAGE / MODEL, model_text(fitted(pairs), pairs))


def model_text(model: AccuracyModel, pairs: Sequence[Any]) -> str:
    """Return the file of a model.

    Args:
        pairs: The pairs that it is fitted to.
    """
    values = asdict(model)
    offsets = {name: values.pop(name) for name in ("methods", "tasks")}
    families = len({pair.family for pair in pairs})
    lines = [
        "# Damage of quantization noise to scores and perplexity, fitted to all usable rows of",
        "# pairs.csv: `python -m validation accuracy --refit`. Positive offsets are more damage.",
        "",
        "[fit]",
        f"pairs = {len(pairs)}",
        f"families = {families}",
        'protocol = "penalised likelihood; a family weighs by the square root of its pairs"',
    ]
    for title, part in (("parameters", values), *offsets.items()):
        lines += ["", f"[{title}]"]
        lines += [f"{name} = {float(f'{x:.{RELATIVE_DIGITS}g}')}" for name, x in part.items()]
    return "\n".join([*lines, ""])


def _inline(row: Mapping[str, float]) -> str:
    return f"{{ {', '.join(f'{name} = {value}' for name, value in row.items())} }}"
