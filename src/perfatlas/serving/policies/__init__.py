"""Scheduling policies of engines, one module each."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.policies.checks import check_policies
    from perfatlas.serving.policies.dispatch import (
        can_hold, enqueue, on_idle, on_last_token, schedule, steady_steps,
    )
    from perfatlas.serving.policies.policy import BatchingPolicy
    from perfatlas.serving.policies.table import (
        POLICIES, find_policy, names_where, policies_named, policy_names, register,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
