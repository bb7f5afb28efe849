"""The course of one training step: its passes, what follows them, and memory over time.

Shape legend: N passes, E events of one rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.training.schedules import pipeline_timeline
from perfatlas.training.step.memory import kept_by_stages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.run import TrainingSteps

# parts of a step after its last pass, beside the collectives of the whole step
AFTER_BACKWARD: Final = ("optimizer", "jitter", "input")
FIRST_PASSES: Final = ("forward",)  # they take activations
LAST_PASSES: Final = ("backward", "weight_gradient")  # they free them


@dataclass(frozen=True, kw_only=True)
class StepTimeline:
    """The course of a step."""

    # Passes of all ranks as columns (N,), as of `pipeline_timeline`
    passes: Mapping[str, NDArray[Any]]
    # Parts of the step after its last pass, in their order, by name of the waterfall [s]
    later_s: Mapping[str, float]
    memory_rank: int  # Pipeline rank that needs most memory
    memory_time_s: FloatArray  # Times at which its memory changes (E,) [s]
    memory_bytes: FloatArray  # Its memory from then on (E,) [bytes]

    @property
    def step_s(self) -> float:
        """End of the last part [s]."""
        return float(self.passes["end_s"].max()) + sum(self.later_s.values())


def step_timeline(question: TrainingQuestion, steps: TrainingSteps) -> StepTimeline:
    """Return the course of the step of the first candidate.

    Limits: `expert_overlap` shortens all passes by the same factor. Memory has the activations that
        passes take and free; gathered weights and the workspace of the loss count all the time.
    """
    passes = dict(pipeline_timeline(steps.pipelines, 0))
    end_s = float(steps.passes_s_C[0])
    share = end_s / float(passes["end_s"].max())
    passes |= {name: share * passes[name] for name in ("start_s", "end_s")}
    later_s = {name: float(steps.waterfall[name][0]) for name in AFTER_BACKWARD}
    later_s["host"] = question.engine.host_s_per_step
    collectives_s = float(steps.step_s_C[0]) - end_s - sum(later_s.values())
    rank = int(steps.memory.rank[0])
    time_s, kept_bytes = _kept(passes, rank, kept_by_stages(question, steps.stages)[0], end_s)
    total_bytes = float(steps.memory.total_bytes[0])
    return StepTimeline(
        passes=passes,
        later_s={"exposed_dp": max(collectives_s, 0.0), **later_s},
        memory_rank=rank,
        memory_time_s=time_s,
        memory_bytes=total_bytes - kept_bytes.max() + kept_bytes,
    )


def _kept(
    passes: Mapping[str, NDArray[Any]], rank: int, kept_bytes_S: FloatArray, end_s: float
) -> tuple[FloatArray, FloatArray]:
    """Return the activations that a rank keeps over time: times (E,) [s] and (E,) [bytes]."""
    own_N = passes["rank"] == rank
    taken_N = own_N & np.isin(passes["pass"], FIRST_PASSES)
    freed_N = own_N & np.isin(passes["pass"], LAST_PASSES)
    time_s = np.concatenate([passes["start_s"][taken_N], passes["end_s"][freed_N]])
    change = np.concatenate(
        [kept_bytes_S[passes["stage"][taken_N]], -kept_bytes_S[passes["stage"][freed_N]]]
    )
    order = np.lexsort((change, time_s))  # what a pass frees at a time is gone for the next one
    saved = np.maximum(np.cumsum(change[order]), 0.0)
    return np.concatenate([[0.0], time_s[order], [end_s]]), np.concatenate([[0.0], saved, [0.0]])
