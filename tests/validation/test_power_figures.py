"""Published figures of clocks, locks and racks: present, finite, and their errors kept."""

from __future__ import annotations

from validation.power.figures import clock_figures


def test_errors_of_published_figures_do_not_grow() -> None:
    errors = [found / published - 1.0 for _, published, found in clock_figures()]
    budgets = (
        0.03,
        0.01,
        -0.03,
        0.13,
        -0.07,
        0.43,
        -0.38,
        -0.02,
        -0.09,
        0.02,
        -0.01,
        -0.02,
        0.10,
        0.05,
        0.09,
        0.09,
        0.66,
    )
    for error, budget in zip(errors, budgets, strict=True):
        assert abs(error) <= abs(budget)
