"""Scheduling policies of engines, one module each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.policies.checks import check_policies as check_policies
    from perfatlas.serving.policies.dispatch import (
        can_hold as can_hold,
        enqueue as enqueue,
        on_idle as on_idle,
        on_last_token as on_last_token,
        schedule as schedule,
        steady_steps as steady_steps,
    )
    from perfatlas.serving.policies.policy import Policy as Policy
    from perfatlas.serving.policies.table import (
        POLICIES as POLICIES,
        find_policy as find_policy,
        names_where as names_where,
        policies_named as policies_named,
        policy_names as policy_names,
        register as register,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
