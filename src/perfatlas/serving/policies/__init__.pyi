from .checks import (
    check_policies as check_policies,
)
from .dispatch import (
    can_hold as can_hold,
    enqueue as enqueue,
    on_idle as on_idle,
    on_last_token as on_last_token,
    schedule as schedule,
    steady_steps as steady_steps,
)
from .policy import (
    Policy as Policy,
)
from .table import (
    POLICIES as POLICIES,
    find_policy as find_policy,
    names_where as names_where,
    policies_named as policies_named,
    policy_names as policy_names,
    register as register,
)
