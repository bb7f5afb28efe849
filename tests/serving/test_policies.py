"""The table of scheduling policies, and a policy registered from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.config import ROLES, Replicas, SchedulerLimits, equal_engines
from perfatlas.serving.policies import POLICIES, BatchingPolicy, check_policies, find_policy
from tests.serving.serving_support import flat_prices

# A decode step takes 10 ps, one with a prompt 100 ps. Arrivals (0, 10, 50, 125), outputs (3, 2, 1,
# 2). The toy runs A to 100 + 2 x 10 = 120; of B and C, which wait, C is newer and ends at 220; of B
# and D, D, at 330; B last, at 440. Where it shares the traffic with vLLM it gets A and C, and vLLM
# runs B from 10 to 120 and D from 125 to 235.
TOY = """
import json
from perfatlas.serving.config import Control, Fleet, ReplicaGroup, Limits
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of
from tests.serving.toy_policy import add_newest_first

add_newest_first()
from tests.serving.interpreted import interpreted

requests = requests_of([(0, 4, 3), (10, 4, 2), (50, 4, 1), (125, 4, 2)])
prices, toy = flat_prices(10, 100), Limits(4, 64, 4, 100, rules="newest_first")
both = Fleet((ReplicaGroup(prices, toy), ReplicaGroup(prices, toy._replace(rules="vllm"))))
found = [run(requests, prices, toy, control=Control(coalesce=each)) for each in (True, False)]
found.append(interpreted(requests, both))
print(json.dumps([[one.scheduled_N.tolist(), one.finished_N.tolist()] for one in found]))
"""


@pytest.mark.study
def test_a_policy_of_one_file_runs_in_the_compiled_loop() -> None:
    done = subprocess.run([sys.executable, "-c", TOY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    alone = [[0, 330, 120, 220], [120, 440, 220, 330]]
    assert json.loads(done.stdout) == [alone, alone, [[0, 10, 120, 125], [120, 120, 220, 235]]]


def test_every_name_has_one_policy_for_each_of_its_roles() -> None:
    pairs = [(policy.name, role) for policy in POLICIES for role in policy.roles]
    assert len(pairs) == len(set(pairs))
    assert {role for _, role in pairs} == set(ROLES)
    assert all(find_policy(*pair).name == pair[0] for pair in pairs)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: f"{one.name}-{one.roles[-1]}")
def test_what_a_policy_reads_and_fixes_are_limits(policy: BatchingPolicy) -> None:
    fixed = {name for each in policy.fixed.values() for name in each}
    assert policy.reads | fixed <= set(SchedulerLimits._fields)
    assert set(policy.fixed) <= set(policy.roles) <= set(ROLES)


# the event loop of this process is loaded or is not: a process of its own knows
LATE = """
from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.policies import find_policy, register
from tests.serving.toy_policy import NEWEST_FIRST

for policy, load in ((find_policy("vllm"), False), (NEWEST_FIRST, True)):
    if load:
        from perfatlas.serving.policies import schedule
    try:
        register(policy)
    except InvalidSpecError as error:
        print(error)
"""


def test_a_name_is_registered_once_and_before_the_loop_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    twice, late = done.stdout.splitlines()
    assert twice == "scheduler vllm already exists for role both; rename it"
    assert late.startswith("scheduler newest_first was registered after the event loop")


@pytest.mark.parametrize(
    ("limits", "error", "words"),
    [
        ({"rules": "vlm"}, InvalidSpecError, "unknown rules 'vlm'.*did you mean 'vllm'"),
        ({"rules": "sglang", "chunked_prefill": False}, UnsupportedError, "chunked_prefill"),
        ({"rules": "static", "block_size": 65}, InvalidSpecError, "no chunk of whole blocks fits"),
    ],
)
def test_unsupported_options_of_a_policy_are_refused(
    limits: dict[str, Any], error: type[Exception], words: str
) -> None:
    asked = SchedulerLimits(4, 64, 4, 100)._replace(**limits)
    with pytest.raises(error, match=words):
        check_policies(equal_engines(flat_prices(10, 100), asked, Replicas()))
