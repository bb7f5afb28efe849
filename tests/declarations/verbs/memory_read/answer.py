"""`memory_read`: bytes over the peak bandwidth of the memory."""

from __future__ import annotations

from typing import Any

from perfatlas.verbs.memory_read.metrics import METRICS
from perfatlas.verbs.memory_read.question import ReadQuestion

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.hardware import resolve_system
from perfatlas.scenario.fields import complete_scenario


@signature_of("memory_read")
def memory_read(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of one read.

    Args:
        **fields: Those of `perfatlas memory_read`.
    """
    asked = ReadQuestion.read(fields)
    device = resolve_system(asked.system).device
    return Answer(
        command="memory_read",
        scenario=complete_scenario(verb_fields("memory_read"), asked),
        results={METRICS[0].name: asked.bytes / device.memory_bandwidth},
        breakdown=(),
        evidence=Evidence(tier="bound", assumptions=("the read runs at the peak bandwidth",)),
    )
