"""Dispatch of the event loop to the functions of scheduling policies.

Each function here selects the policy's implementation by a chain of comparisons with its index,
generated from the table. The event loop calls these and does not depend on policy names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.compiled import part
from perfatlas.serving.policies.table import POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROTOCOL: Final = {
    "schedule": ("sim", "s", "now"),
    "enqueue": ("sim", "i"),
    "steady_steps": ("sim", "s"),
    "on_last_token": ("sim", "i"),
    "on_idle": ("sim", "s"),
    "can_hold": ("sim", "i", "tokens"),
}


def choice(name: str, indices: Iterable[int]) -> Callable[..., Any]:
    """Return a compiled function that dispatches to the implementations of some policies.

    Policies that share a function share a branch; the most common one is the default branch.

    Args:
        indices: Indices in `POLICIES` of the policies; only these are compiled.
    """
    arguments = ", ".join(PROTOCOL[name])
    names: dict[str, Any] = {"__name__": __name__}
    lines = [f"def {name}({arguments}):"]
    owners: dict[Callable[..., Any], list[int]] = {}
    for index in indices:
        owners.setdefault(getattr(POLICIES[index], name), []).append(index)
    *others, most = sorted(owners, key=lambda function: len(owners[function]))
    for function in others:
        test = " or ".join(f"sim.policy == {index}" for index in owners[function])
        names[f"{name}_{owners[function][0]}"] = function
        lines.append(f"    if {test}: return {name}_{owners[function][0]}({arguments})")
    names[f"{name}_otherwise"] = most
    lines.append(f"    return {name}_otherwise({arguments})")
    exec("\n".join(lines), names)  # noqa: S102 - a branch per policy, from names in this file
    chosen: Callable[..., Any] = part(names[name])
    return chosen


_ALL = range(len(POLICIES))
schedule = choice("schedule", _ALL)
enqueue = choice("enqueue", _ALL)
steady_steps = choice("steady_steps", _ALL)
on_last_token = choice("on_last_token", _ALL)
on_idle = choice("on_idle", _ALL)
can_hold = choice("can_hold", _ALL)
