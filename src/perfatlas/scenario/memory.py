"""Device memory of a question, and the advice when it does not fit.

Shape legend: C candidates.
"""

from __future__ import annotations

from perfatlas.scenario.question import Question
