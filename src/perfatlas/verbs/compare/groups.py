"""The groups of fields that `compare` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.studies.deployments import BestPlan
from perfatlas.vocabulary.fields import ESTIMATED, Names, group


@group("Comparison", 0)
class Alternatives:
    """What differs between the compared scenarios."""

    models: Names | None = None
    systems: Names | None = None
    engines: Names | None = None
    formats: Names | None = None


QUESTIONS: Final[dict[str, tuple[type, ...]]] = {"compare": (Alternatives, BestPlan, *ESTIMATED)}
