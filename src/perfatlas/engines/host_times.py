"""Host times of an engine: its scheduler, step by step, and its front end.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


class Launches(NamedTuple):
    """What the host launches in a step without CUDA graphs."""

    operators_C: FloatArray  # Operators, each counted in every layer (C,)
    expert_layers_C: FloatArray  # Layers with experts (C,)


@dataclass(frozen=True, kw_only=True)
class HostTime:
    """Host work per step."""

    step_s: float  # Scheduling and input preparation per step [s]
    per_sequence_s: float  # Additional time per sequence in the step [s]
    per_layer_prefill_s: float  # Kernel launch time per layer if no full CUDA graph runs [s]
    overlapped: bool  # The next step is prepared during GPU work; only the excess is exposed
    source: str  # Reference for the times
    # Time per output token that decoding sequences have so far, if requests set sampling penalties
    # [s]; None if unknown
    per_penalized_token_s: float | None = None
    # Time to launch one operator of a step with prompts, if such steps run without any CUDA graph
    # [s]
    per_operator_prefill_s: float = 0.0
    # Further time to launch the routing and the experts of one layer of such a step [s]
    per_expert_layer_prefill_s: float = 0.0
    penalties: bool = False  # Whether requests set sampling penalties

    def prefill_launch_s(self, layers: FloatArray | float, launches: Launches) -> FloatArray:
        """Return the time to launch the kernels of a step with prompts (C,) [s].

        Args:
            launches: What it launches if no CUDA graph runs.
        """
        launch_s_C: FloatArray = (
            layers * self.per_layer_prefill_s
            + launches.operators_C * self.per_operator_prefill_s
            + launches.expert_layers_C * self.per_expert_layer_prefill_s
        )
        return launch_s_C

    def history_token_s(self) -> float:
        """Return the time per output token that a decoding sequence has so far [s]."""
        return (self.per_penalized_token_s or 0.0) if self.penalties else 0.0


@dataclass(frozen=True, kw_only=True)
class FrontEnd:
    """Latency of the front end, outside engine steps."""

    request_s: float  # HTTP handling before a request is queued; concurrent for all requests [s]
    token_s: float  # Detokenizing and streaming one output token; serial [s]
    response_s: float  # Time after the last token [s]
    tokenizes: bool  # Whether prompts arrive as text and are tokenized; serial
    # Whether each attention-data-parallel rank has its own tokenizer and detokenizer process;
    # otherwise one per replica
    per_rank: bool
    source: str  # Reference for the times
    # Fastest published `token_s`, to which the interval of a rate reaches, 0 if only one is known
    # [s]
    token_fastest_s: float = 0.0
    token_slowest_s: float = 0.0  # Slowest published `token_s`, likewise [s]
    # Fastest `request_s` known, to which the interval of TTFT reaches, 0 if only one is known [s]
    request_fastest_s: float = 0.0
    request_slowest_s: float = 0.0  # Slowest `request_s` known, likewise [s]
    # Whether the times are those of another engine: they delay tokens, but no rate of sending
    # follows from them
    assumed: bool = False
    tokenizing_ratio: float = 1.0  # Time to tokenize relative to the measured tokenizers
