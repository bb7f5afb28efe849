"""What a measured training step tells of a job: its MFU, and the bytes of its checkpoints.

A step is given, not estimated: no estimate of training steps exists here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.closed_form import CHECKPOINT_BYTES_PER_PARAMETER
from perfatlas.quantities import InvalidSpecError, shown
from perfatlas.verbs.goodput.fields import Step, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.models import ParameterCounts

FLOP_PER_PARAMETER: Final = 6.0  # and token: 2 forward, 4 backward
_OF_A_STEP: Final = ("step_time_s", "tokens_per_step")


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """What follows from a step.

    Args:
        flop_per_s: Of the model, over all GPUs [FLOP/s]; None where no step is given.
        peak_flop_per_s: Of one GPU [FLOP/s]; None where no step is given.
        checkpoint_bytes: Of a checkpoint [bytes]; None where nothing tells.
        said: What was assumed.
        only_bytes: Bytes are given, not derived, and no speed for them.
    """

    flop_per_s: float | None = None
    peak_flop_per_s: float | None = None
    checkpoint_bytes: float | None = None
    said: tuple[str, ...] = ()
    only_bytes: bool = False

    def mfu(self, gpus: int) -> float | None:
        """Return the share of the peak that a step reaches; None where no step is given.

        Args:
            gpus: Of the job.

        Raises:
            InvalidSpecError: More than the peak.
        """
        if self.flop_per_s is None or self.peak_flop_per_s is None:
            return None
        share = self.flop_per_s / (gpus * self.peak_flop_per_s)
        if share > 1.0:
            raise InvalidSpecError(
                f"the step does {share:.3g} times the peak of {gpus:,} GPUs: check step_time_s,"
                " tokens_per_step, system and format"
            )
        return share


def split_step(fields: Mapping[str, Any]) -> tuple[dict[str, Any], StepFacts]:
    """Return fields without those of a step, with the write its checkpoints take, and its facts.

    Args:
        fields: As given to `goodput`.

    Raises:
        InvalidSpecError: A value breaks a rule, or the step is told in part or twice.

    Source: 6 FLOP per parameter and token, Kaplan et al. 2020 (arXiv 2001.08361), sec. 2.1: active
        parameters without the input embedding. 14 bytes per parameter: ZeRO (arXiv 1910.02054),
        sec. 3.1, mixed-precision Adam without gradients.

    Limits: attention over the context is left out: MFU is low where contexts are long.

    Example:
        >>> from perfatlas.verbs.goodput.training_step import split_step
        >>> _, facts = split_step({"model": "meta-llama/Llama-3.1-405B", "system": "h100_sxm",
        ...     "step_time_s": 6.2, "tokens_per_step": 16 * 2**20})
        >>> print(f"{facts.mfu(16384):.3f} {facts.checkpoint_bytes / 1e12:.2f} TB")
        0.404 5.68 TB
    """
    own = {name: fields[name] for name in Step.model_fields if name in fields}
    rest = {name: value for name, value in fields.items() if name not in own}
    step = parsed(Step, own)
    counts = None if step.model is None else _counts(step.model)
    said: list[str] = []
    state_bytes = step.checkpoint_bytes
    if state_bytes is None and counts is not None:
        each = CHECKPOINT_BYTES_PER_PARAMETER
        state_bytes = each * counts.total
        said.append(
            f"a checkpoint holds {state_bytes / 1e12:.4g} TB: {each:g} bytes for"
            f" each of {counts.total / 1e9:.4g} billion parameters (16-bit weights, 32-bit copy and"
            " two moments of Adam; arXiv 1910.02054)"
        )
    if step.checkpoint_bytes_per_s is not None:
        rest["checkpoint_write_s"] = _write_s(step, state_bytes, rest)
        said.append(
            f"writing it takes {rest['checkpoint_write_s']:.4g} s through"
            f" {step.checkpoint_bytes_per_s / 1e9:g} GB/s of the whole job"
        )
    work, peak = _work(step, counts, rest)
    if work is not None and counts is not None:
        said.append(
            f"MFU: {FLOP_PER_PARAMETER:g} FLOP per token for each of"
            f" {_multiplied(counts) / 1e9:.4g} billion active parameters (arXiv 2001.08361),"
            f" without attention over the context; the step of {step.step_time_s:g} s is given, not"
            f" estimated; dense {step.format} peak of {step.system}"
        )
    _refuse_unread(step, of_fleet=rest.get("fleet") not in (None, ""))
    return rest, StepFacts(
        flop_per_s=work,
        peak_flop_per_s=peak,
        checkpoint_bytes=state_bytes,
        said=tuple(said),
        only_bytes=step.checkpoint_bytes is not None and step.checkpoint_bytes_per_s is None,
    )


def _refuse_unread(step: Step, *, of_fleet: bool) -> None:
    """Refuse what a step that is not given, or bytes without a speed, would read."""
    if step.step_time_s is not None:
        return
    if step.format != Step.model_fields["format"].default:
        raise InvalidSpecError(
            f"format = {shown(step.format)} is that of the peak of an MFU: give model, system,"
            " step_time_s and tokens_per_step, or leave it out"
        )
    if step.model is not None and step.checkpoint_bytes is not None:
        raise InvalidSpecError(
            f"model = {shown(step.model)} is not read: checkpoint_bytes say how large a checkpoint"
            " is, and there is no step_time_s for an MFU; leave model out"
        )
    if not of_fleet and step.checkpoint_bytes_per_s is None:
        for name in ("model", "checkpoint_bytes"):
            if getattr(step, name) is not None:
                raise InvalidSpecError(
                    f"{name} tells the bytes of a checkpoint, and checkpoint_write_s how long it"
                    " takes: give checkpoint_bytes_per_s in place of that, or leave"
                    f" {name} out"
                )


def _counts(model: str) -> ParameterCounts:
    from perfatlas.models import parameter_counts, resolve_model

    return parameter_counts(resolve_model(model).architecture)


def _multiplied(counts: ParameterCounts) -> int:
    """Return the active parameters that are multiplied: an embedding that is no head is read."""
    return counts.active - (counts.embedding if counts.lm_head else 0)


def _write_s(step: Step, state_bytes: float | None, rest: Mapping[str, Any]) -> float:
    if rest.get("checkpoint_write_s") not in (None, ""):
        raise InvalidSpecError(
            "checkpoint_write_s and checkpoint_bytes_per_s both say how long a write takes: give"
            " one of them"
        )
    if state_bytes is None or step.checkpoint_bytes_per_s is None:
        raise InvalidSpecError(
            "checkpoint_bytes_per_s of how many bytes? give checkpoint_bytes, or model, whose"
            " parameters tell"
        )
    return state_bytes / step.checkpoint_bytes_per_s


def _work(
    step: Step, counts: ParameterCounts | None, rest: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Return the FLOP/s of a step, and the peak of a GPU; None where no step is given."""
    if step.step_time_s is None and step.tokens_per_step is None:
        if step.system is not None:
            raise InvalidSpecError(
                f"system = {shown(step.system)} is the peak of an MFU: give step_time_s and"
                " tokens_per_step, or leave it out"
            )
        return None, None
    missing = [name for name in ("model", "system", *_OF_A_STEP) if getattr(step, name) is None]
    if missing or counts is None or step.system is None:
        raise InvalidSpecError(
            f"the MFU of a step needs model, system, step_time_s and tokens_per_step:"
            f" {', '.join(missing)} missing"
        )
    if rest.get("mfu") not in (None, ""):
        raise InvalidSpecError("mfu and step_time_s both say how fast a step is: give one of them")
    from perfatlas.hardware import resolve_system

    peaks = resolve_system(step.system).device.peak_flop_per_s
    if step.format not in peaks:
        raise InvalidSpecError(
            f"format = {shown(step.format)}: {step.system} has peaks of {', '.join(peaks)}"
        )
    tokens_per_s = float(step.tokens_per_step or 0) / float(step.step_time_s or 1.0)
    return FLOP_PER_PARAMETER * _multiplied(counts) * tokens_per_s, peaks[step.format]
