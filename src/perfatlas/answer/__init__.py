"""The answer of a verb: envelope, breakdown, tiers, evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.answer.breakdown import (
        bound_codes as bound_codes,
        breakdown_rows as breakdown_rows,
        calibration_rows as calibration_rows,
        match_versions as match_versions,
        price_columns as price_columns,
        single_evidence as single_evidence,
        single_row as single_row,
        step_bounds as step_bounds,
        tier_codes as tier_codes,
        tier_of as tier_of,
        used_matches as used_matches,
    )
    from perfatlas.answer.choices import plan_note as plan_note
    from perfatlas.answer.clock_notes import (
        clock_causes as clock_causes,
        clock_note as clock_note,
        power_warnings as power_warnings,
        raised_clock_notes as raised_clock_notes,
        raised_step_notes as raised_step_notes,
    )
    from perfatlas.answer.crossed_nodes import (
        node_notes as node_notes,
        pool_node_notes as pool_node_notes,
    )
    from perfatlas.answer.envelope import (
        BOTTLENECK as BOTTLENECK,
        SCHEMA as SCHEMA,
        Answer as Answer,
        AnsweredRun as AnsweredRun,
        Evidence as Evidence,
        flat_results as flat_results,
        other_vendors_note as other_vendors_note,
    )
    from perfatlas.answer.evidence import (
        FORMULA as FORMULA,
        engine_assumptions as engine_assumptions,
        held_prompts_note as held_prompts_note,
        interval_remark as interval_remark,
        merged_evidence as merged_evidence,
        question_evidence as question_evidence,
        step_evidence as step_evidence,
    )
    from perfatlas.answer.machine_interval import (
        laboratory_spread as laboratory_spread,
        on_any_machine as on_any_machine,
    )
    from perfatlas.answer.quantization import (
        quantization_note as quantization_note,
        quantization_of as quantization_of,
    )
    from perfatlas.answer.repetitions import averaged as averaged, half_widths as half_widths
    from perfatlas.answer.system_overrides import (
        OFFLOADING as OFFLOADING,
        POWER as POWER,
        STEPS as STEPS,
        collective_readers as collective_readers,
        format_readers as format_readers,
        overrides_of_steps as overrides_of_steps,
        unread_overrides as unread_overrides,
    )
    from perfatlas.answer.tiers import (
        ASSUMED_LOSSES as ASSUMED_LOSSES,
        MEASURED_STANDING as MEASURED_STANDING,
        comparison_note as comparison_note,
        joined_tiers as joined_tiers,
        limit_note as limit_note,
        require_engine as require_engine,
        require_tier as require_tier,
        require_vendor as require_vendor,
        tier_names as tier_names,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
