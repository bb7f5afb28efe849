"""Published acceptance of draft tokens, by model and drafter.

Shape legend: K drafts of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.networks.catalog import resolve_model
from perfatlas.quantities import PerfatlasError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray


@dataclass(frozen=True, kw_only=True)
class AcceptanceCurve:
    """Mean tokens per verification step of a model with a drafter, by the number of drafts."""

    network: str  # Name of the network, without organization and number format
    models: Sequence[str]  # Catalog ids of its checkpoints
    drafter: str  # "MTP", or the method of a separate drafter
    mode: str  # "thinking on" or "thinking off"
    tokens_per_step: Sequence[float]  # With 1, 2, ... drafts, the target's own token included
    dataset: str  # Prompts of the measurement
    domains: str  # How far domains of prompts differ
    source: str

    def survival(self, drafts: int) -> FloatArray:
        """Return the probability that the first, second, ... of at least 1 draft is accepted (K,).

        Differences of the measured means, made non-increasing by isotonic regression and scaled to
        the mean measured with this number of drafts. Beyond the table, drafts survive with the
        mean conditional probability of its deeper half.

        Limits: Domains of prompts differ by more than depths do. The difference of two means has
            the noise of both, about 0.07, more than the survival of deep drafts.
        """
        from scipy.optimize import isotonic_regression

        known = len(self.tokens_per_step[:drafts])
        measured_K = np.diff((1.0, *self.tokens_per_step[:known]))
        survival_K = np.maximum(isotonic_regression(measured_K, increasing=False).x, 0.0)
        survival_K *= (self.tokens_per_step[known - 1] - 1.0) / survival_K.sum()
        half = known // 2
        held = (survival_K[-1] / survival_K[half - 1]) ** (1.0 / (known - half))
        deeper_K = survival_K[-1] * held ** np.arange(1, drafts - known + 1)
        return np.concatenate([survival_K, deeper_K])

    def acceptance(self, drafts: int) -> tuple[float, ...]:
        """Return the probability of each draft that it is accepted if all preceding ones are."""
        survival_K = self.survival(drafts)
        before_K = np.concatenate([[1.0], survival_K[:-1]])
        chances_K = np.divide(survival_K, before_K, out=np.zeros(drafts), where=before_K > 0.0)
        return tuple(np.minimum(chances_K, 1.0).tolist())


@cache
def published_curves() -> tuple[AcceptanceCurve, ...]:
    """Return all published curves."""
    table = shipped_table("data/draft_acceptance.toml")
    return tuple(AcceptanceCurve(domains=table["domains"], **row) for row in table["curve"])


def acceptance_curves(model: object) -> tuple[AcceptanceCurve, ...]:
    """Return the published curves of a model, its default first; none for an unknown model.

    Args:
        model: What the user wrote. Changed dimensions make another network, without a curve.

    Example:
        >>> from perfatlas.networks import acceptance_curves
        >>> [curve.drafter for curve in acceptance_curves("zai-org/GLM-5.2-FP8")]
        ['MTP']
    """
    try:
        name = resolve_model(model).name if isinstance(model, str) else ""
    except PerfatlasError:
        return ()
    return tuple(curve for curve in published_curves() if name in curve.models)
