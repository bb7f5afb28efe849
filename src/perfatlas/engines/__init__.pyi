from .catalog import (
    all_reduce_groups as all_reduce_groups,
    engine_ids as engine_ids,
    engine_names as engine_names,
    resolve_engine as resolve_engine,
)
from .host_times import (
    Launches as Launches,
)
from .laboratories import (
    LABORATORIES as LABORATORIES,
    OperatorSpread as OperatorSpread,
    operator_class as operator_class,
    operator_spreads as operator_spreads,
    release_spread as release_spread,
    shipped_laboratories as shipped_laboratories,
    step_spreads as step_spreads,
    whole_run_spread as whole_run_spread,
)
from .launch_settings import with_launch_settings as with_launch_settings
from .profile import (
    EngineProfile as EngineProfile,
)
from .profile_file import (
    profile_fields as profile_fields,
)
from .step_error import (
    STEP_ERRORS as STEP_ERRORS,
    step_errors as step_errors,
)
from .template import engine_template as engine_template
from .tokenizers import (
    Tokenizing as Tokenizing,
    tokenizing as tokenizing,
)
