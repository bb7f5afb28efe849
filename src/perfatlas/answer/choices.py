"""What resolution chose for a scenario: its plan, and launch settings of the engine's recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfatlas.step import Candidates


def choice_notes(question: Candidates) -> list[str]:
    """Return what resolution chose for a scenario: its plan, and launch settings of a recipe."""
    notes = [plan_note(question)] if question.derived_plan_C[0] else []
    recipe = int(question.recipe_C[0])
    if recipe >= 0:
        notes.append(_recipe_note(question, recipe))
    return notes


def plan_note(question: Candidates) -> str:
    """Return how the plan of a number of GPUs was chosen.

    Args:
        question: The candidates; the sentence is about the first.
    """
    plan, systems = question.plan, question.placement.systems
    domain = systems[int(question.placement.index_C[0])].device.scale_up.domain_size
    replicas = f"; {plan.dp[0]:g} replicas use all GPUs" if plan.dp[0] > 1 else ""
    chosen = f"plan from gpus = {plan.ranks[0]:g}: tp = {plan.tp[0]:g}"
    if plan.pp[0] > 1:
        return (
            f"{chosen} with pp = {plan.pp[0]:g}: tensor parallelism stays inside a scale-up"
            f" domain of {domain:g} GPUs, and pipeline stages span domains{replicas}"
        )
    return (
        f"{chosen} is the smallest tensor parallelism inside a scale-up domain of {domain:g}"
        f" GPUs that fits with room for the load{replicas}"
    )


def _recipe_note(question: Candidates, index: int) -> str:
    recipe, limits = question.profile.recipes[index], question.limits
    settings = (
        f"max_num_batched_tokens {limits.max_num_batched_tokens[0]:g}, gpu_memory_utilization"
        f" {limits.gpu_memory_utilization[0]:g}, stream_interval {limits.stream_interval[0]:g}"
    )
    return (
        f"launch settings that are not set follow the recipe of {question.profile.id} for"
        f" {recipe.name} ({settings}): {recipe.source}"
    )
