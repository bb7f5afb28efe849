"""MFU and checkpoint size of a job from a measured training step.

The step time is an input: training steps are not estimated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError, counted, repr_for_error, significant
from perfatlas.reliability.fleet.model import failure_domains

if TYPE_CHECKING:
    from perfatlas.networks import ParameterCounts
    from perfatlas.reliability.fleet.model import FailureDomains, Fleet
    from perfatlas.scenario.interrupted_jobs.job_fields import Goodput

FLOP_PER_PARAMETER: Final = 6.0  # per parameter and token: 2 forward, 4 backward
# weights 2, master copy 4, Adam's two moments 8 (arXiv 1910.02054)
CHECKPOINT_BYTES_PER_PARAMETER: Final = 14.0


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """Quantities derived from a step."""

    flop_per_s: float | None = None  # Model FLOP/s over all GPUs [FLOP/s]; None without a step
    peak_flop_per_s: float | None = None  # Peak of one GPU [FLOP/s]; None without a step
    checkpoint_bytes: float | None = None  # Size of a checkpoint [bytes]; None where unknown
    # Write time from bytes and bandwidth [s]; None without a bandwidth
    write_s: float | None = None
    notes: tuple[str, ...] = ()  # Assumptions

    def mfu(self, gpus: int) -> float | None:
        """Return the share of the peak in a step; None without a step.

        Raises:
            InvalidSpecError: It exceeds the peak.
        """
        if self.flop_per_s is None or self.peak_flop_per_s is None:
            return None
        share = self.flop_per_s / (gpus * self.peak_flop_per_s)
        if share > 1.0:
            raise InvalidSpecError(
                f"the step has {share:.3g} times the peak FLOP/s of {gpus:,} GPUs: check"
                " step_time_s, tokens_per_step, system and format"
            )
        return share


def measured_step(inputs: Goodput) -> StepFacts:
    """Return the quantities derived from a step and from the checkpoint size.

    Raises:
        InvalidSpecError: The step is incomplete or overspecified.

    Source: 6 FLOP per parameter and token, Kaplan et al. 2020 (arXiv 2001.08361), sec. 2.1: active
        parameters without the input embedding. 14 bytes per parameter: ZeRO (arXiv 1910.02054),
        sec. 3.1, mixed-precision Adam without gradients.

    Limits: attention over the context is not counted: MFU is underestimated for long contexts.

    Example:
        >>> from perfatlas.scenario.interrupted_jobs.job_fields import Goodput
        >>> from perfatlas.scenario.interrupted_jobs.step_facts import measured_step
        >>> facts = measured_step(Goodput.read({"model": "meta-llama/Llama-3.1-405B",
        ...     "system": "h100_sxm", "step_time_s": 6.2, "tokens_per_step": 16 * 2**20}))
        >>> print(f"{facts.mfu(16384):.3f} {facts.checkpoint_bytes / 1e12:.2f} TB")
        0.404 5.68 TB
    """
    inputs.checked()
    counts = None if inputs.model is None else _counts(inputs.model)
    notes: list[str] = []
    state_bytes = inputs.checkpoint_bytes
    if state_bytes is None and counts is not None:
        each = CHECKPOINT_BYTES_PER_PARAMETER
        state_bytes = each * counts.total
        notes.append(
            f"a checkpoint has {significant(state_bytes / 1e12, 4)} TB: {each:g} bytes per"
            " parameter of"
            f" {significant(counts.total / 1e9, 4)} billion (16-bit weights, 32-bit copy and two"
            " moments of"
            " Adam; arXiv 1910.02054)"
        )
    write_s = None
    if inputs.checkpoint_bytes_per_s is not None and state_bytes is not None:
        write_s = state_bytes / inputs.checkpoint_bytes_per_s
        notes.append(
            f"writing it takes {significant(write_s, 4)} s at"
            f" {inputs.checkpoint_bytes_per_s / 1e9:g} GB/s for"
            " the whole job"
        )
    work, peak = _work(inputs, counts)
    if work is not None and counts is not None:
        notes.append(
            f"MFU: {FLOP_PER_PARAMETER:g} FLOP per token for each of"
            f" {significant(_multiplied(counts) / 1e9, 4)} billion active parameters (arXiv"
            " 2001.08361),"
            f" without attention over the context; the step time of {inputs.step_time_s:g} s is an"
            f" input, not estimated; dense {inputs.format} peak of {inputs.system}"
        )
    return StepFacts(
        flop_per_s=work,
        peak_flop_per_s=peak,
        checkpoint_bytes=state_bytes,
        write_s=write_s,
        notes=tuple(notes),
    )


def _counts(model: str) -> ParameterCounts:
    from perfatlas.networks import resolve_model

    network = resolve_model(model).network
    return (network if network.item else network.trained()).parameters()


def _multiplied(counts: ParameterCounts) -> int:
    """Return the active parameters in products, without an input embedding."""
    return counts.active - (counts.embedding if counts.lm_head else 0)


def _work(inputs: Goodput, counts: ParameterCounts | None) -> tuple[float | None, float | None]:
    """Return the FLOP/s of a step, and the peak of a GPU; None without a step."""
    if counts is None or inputs.system is None or inputs.step_time_s is None:
        return None, None
    from perfatlas.hardware import resolve_system

    peaks = resolve_system(inputs.system).device.peak_flop_per_s
    if inputs.format not in peaks:
        raise InvalidSpecError(
            f"format = {repr_for_error(inputs.format)}: {inputs.system} has peaks of"
            f" {', '.join(peaks)}"
        )
    tokens_per_s = float(inputs.tokens_per_step or 0) / inputs.step_time_s
    return FLOP_PER_PARAMETER * _multiplied(counts) * tokens_per_s, peaks[inputs.format]


def topology_of(system: str) -> FailureDomains:
    """Return the failure domains of a system.

    Args:
        system: Its name or file.
    """
    from perfatlas.hardware import resolve_system

    return failure_domains(resolve_system(system))


def of_system(inputs: Goodput) -> dict[str, Any]:
    """Return the fields that the topology of a system decides, where they are not set.

    Args:
        inputs: The fields of a job without a fleet.
    """
    if inputs.system is None or "gpus_per_node" in inputs.fields_set:
        return {}
    return {"gpus_per_node": topology_of(inputs.system).gpus_per_node}


def topology_notes(inputs: Goodput) -> list[str]:
    """Return whose GPUs per node those of a job are, as sentences.

    Args:
        inputs: The fields of a job without a fleet.
    """
    if inputs.system is None:
        return []
    found, count = topology_of(inputs.system), inputs.gpus_per_node
    if "gpus_per_node" in inputs.fields_set and count != found.gpus_per_node:
        known = found.gpus_per_node
        return [f"gpus_per_node = {count} overrides the {known} of {inputs.system}"]
    text = f"{counted(found.gpus_per_node, 'GPU')} per node, as in {inputs.system}"
    if found.gpus_per_node == verb_fields("goodput")["gpus_per_node"].default:
        text += f": system = {inputs.system} has no effect, as it is the default"
    return [text]


def units_of_another_size(system: str, fleet: Fleet) -> str:
    """Return a remark where units of a fleet are neither nodes nor domains of a system, or "".

    Args:
        system: Name or file of the system.
    """
    found = topology_of(system)
    if fleet.gpus_per_unit in (found.gpus_per_node, found.gpus_per_domain):
        return ""
    return (
        f"a unit of the fleet has {counted(fleet.gpus_per_unit, 'GPU')}, but a node of {system} has"
        f" {found.gpus_per_node} and its scale-up domain {found.gpus_per_domain}"
    )
