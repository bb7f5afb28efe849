"""Steps that Calculon predicts, beside those predicted here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from validation.training.fits import predicted_steps
from validation.training.runs import rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from validation.training.runs import PublishedRun


def calculon_rows(runs: Sequence[PublishedRun]) -> list[dict[str, Any]]:
    """Return published steps with the predictions of Calculon and of perfatlas [s].

    Args:
        runs: Published runs; those that Calculon was run on are compared.

    Source: calculon-ai/calculon@caa4b11, its own validation with the efficiencies that it ships.

    Limits: Calculon predicts GPT-style models only, and was run on no other layouts.
    """
    peer = rules()["calculon"]
    own = [
        run
        for run in runs
        if run.question is not None
        and run.run["source"] == peer["source"]
        and _name(run) in peer["step_s"]
    ]
    predicted_s_R = predicted_steps(own, {})[0] if own else []
    return [
        {
            "model": published_run.run["model"],
            "recompute": published_run.run["recompute"],
            "measured_s": (measured_s := float(published_run.run["step_time_s_derived"])),
            "predicted_s": float(predicted_s),
            "error": float(predicted_s) / measured_s - 1.0,
            "calculon_s": (peer_s := float(peer["step_s"][_name(published_run)])),
            "calculon_error": peer_s / measured_s - 1.0,
        }
        for published_run, predicted_s in zip(own, predicted_s_R, strict=True)
    ]


def _name(published: PublishedRun) -> str:
    return f"{published.run['model']} {published.run['recompute']}"
