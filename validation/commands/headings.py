"""Columns of the text tables of the validation and their headings."""

from __future__ import annotations

from typing import Final

from validation.scoring import SCORES

# fields that identify a row, joined in one cell
ABOUT: Final = (
    "operator",
    "family",
    "models",
    "setting",
    "model",
    "network",
    "precision",
    "system",
    "backend",
    "engine",
    "format",
)
# columns of the text tables and their headings; --json has all rows and figures
ERROR_HEADINGS: Final = {
    "about": "",
    "gpus": "GPUs",
    "mape": "MAPE",
    "median_error": "median",
    "p90_error": "p90",
    "bias": "bias",
    "goal_mape": "goal",
    "goal_met": "met",
}
BESIDE_HEADINGS: Final = {
    "about": "",
    "rows": "rows",
    "roofline_mape": "roofline",
    "inside_90": "in 90%",
    **SCORES,
}
STEP_HEADINGS: Final = {
    "about": "",
    "id": "run",
    "reason": "reason",
    "figure": "figure",
    "reached_error": "reached",
    "goal_error": "goal",
    "goal_met": "met",
    "note": "",
    "gpus": "GPUs",
    "concurrency": "concurrency",
    "isl": "in",
    "osl": "out",
    "rows": "rows",
    "tpot_mape": "MAPE",
    "tpot_median_error": "median",
    "tpot_p90_error": "p90",
    "tpot_bias": "bias",
    "tpot_inside_90": "in 90%",
    "tpot_inside_90_unseen": "unseen",
    **SCORES,
    "ttft_median_error": "TTFT",
    "request_latency_mape": "latency",
    "request_latency_measured_s": "measured",
    "request_latency_s": "predicted",
    "request_latency_bound_s": "roofline",
    "request_latency_error": "error",
}
PLAN_HEADINGS: Final = {
    "groups_of": "choice of",
    "groups": "groups",
    "rows": "rows",
    "probability": "P",
    "choices": "choices",
    "no_choice_share": "no plan",
    "missed_share": "missed",
    "regret_median": "regret",
    "regret_p90": "p90",
    "regret_mean": "mean",
    "random_regret_mean": "random",
    "spearman_median": "Spearman",
    "spearman_p10": "p10",
}
WHERE: Final = ("system", "engine", "phase", "kv_format")
BLOCK_HEADINGS: Final = {
    "cells": {
        "where": "",
        "kernel": "kernel",
        "mape": "MAPE",
        "bias": "bias",
        "inside_90": "in 90%",
    },
    "skipped": {"where": "", "why": "why", "rows": "rows"},
}
CAPACITY_HEADINGS: Final = {
    "totals": {
        "group": "",
        "rows": "rows",
        "median_error": "median",
        "p90_error": "p90",
        "bias": "bias",
        "worst_error": "worst",
    },
    "runs": {
        "id": "run",
        "published": "published",
        "predicted": "predicted",
        "error": "error",
        "gap_bytes": "gap",
    },
    "left_out": {"id": "run", "reason": "reason"},
}
PUBLISHED_HEADINGS: Final = {
    "id": "published run",
    "op": "",
    "rows": "rows",
    "gpus": "GPUs",
    "published_s": "published",
    "time_s": "predicted",
    "error": "error",
    "mape": "MAPE",
    "median_error": "median",
    "mean_error": "bias",
    "inside_90": "in 90%",
    **SCORES,
}
FACT_LINES: Final = 4  # printed above the tables of operators
DETAILS: Final = (
    "reasons",
    "unseen",
    "cells",
    "by_concurrency",
)  # tables that only --verbose prints
FOR_MACHINES: Final = ("predictions", "left_out")
# too wide, or less important than the other columns
NOT_SHOWN: Final = {
    "settings": ("note",),
    "cells": ("ttft_median_error",),
    "totals": ("ttft_median_error",),
}
