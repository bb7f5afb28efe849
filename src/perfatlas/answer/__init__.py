"""The answer of a verb: envelope, breakdown, tiers, evidence."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.answer.breakdown import (
        bound_codes, breakdown_rows, calibration_rows, extrapolated_note, laboratory_spread,
        match_versions, on_any_machine, price_columns, single_evidence, single_row, step_bounds,
        tier_codes, tier_of, used_matches,
    )
    from perfatlas.answer.evidence import (
        FORMULA, engine_assumptions, held_prompts_note, interval_remark, merged_evidence, plan_note,
        quantization_note, quantization_of, question_evidence, step_evidence,
    )
    from perfatlas.answer.clock_notes import (
        LockedClocks, clock_causes, clock_note,
    )
    from perfatlas.answer.envelope import (
        BOTTLENECK, SCHEMA, Answer, AnsweredRun, CommandAnswer, Evidence, flat_results,
        other_vendors_note,
    )
    from perfatlas.answer.repetitions import averaged, half_widths
    from perfatlas.answer.system_overrides import (
        OFFLOADING, POWER, ROUTES, STEPS, collective_readers, format_readers, unread_of_steps,
        unread_overrides,
    )
    from perfatlas.answer.tiers import (
        ASSUMED_LOSSES, MEASURED_STANDING, comparison_note, joined_tiers, limit_note,
        require_engine, require_tier, require_vendor, tier_names,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
