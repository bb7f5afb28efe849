"""What every test shares: hypothesis profiles.

`suite` (the default) draws the same examples in every run, so that a green run stays green;
`explore` (`pytest --hypothesis-profile=explore`) draws new ones and more of them.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "suite",
    deadline=None,
    print_blob=True,
    derandomize=True,
    max_examples=50,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    settings.get_profile("suite"),
    derandomize=False,
    max_examples=1000,
)
settings.load_profile("suite")
