"""Readers of JSON logs on objects written by hand after their documentation."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats.goodput_log import read_goodput_log
from perfatlas.reliability.telemetry.formats.job_log import EVENTS, read_job_log
from perfatlas.reliability.telemetry.formats.nvsentinel import read_nvsentinel
from perfatlas.reliability.telemetry.formats.problem_detector import (
    DetectorRules,
    read_problems,
    read_rules,
)
from tests.reliability.telemetry.support import check_law, shared

if TYPE_CHECKING:
    from pathlib import Path

T0 = "2026-03-02T01:00:{:02}Z"
EPOCH = 1772413200.0
RULES = DetectorRules(
    source="kernel-monitor",
    reasons=frozenset({"TaskHung", "OOMKilling"}),
    conditions=frozenset({"KernelDeadlock"}),
)


def lines(tmp_path: Path, *objects: object, name: str = "log.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(f"{json.dumps(one)}\n" for one in objects), "utf-8")
    return path


def document(tmp_path: Path, value: object, name: str = "log.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(value, indent=1), "utf-8")
    return path


def health(second: int, **fields: object) -> dict[str, Any]:
    return {
        "agent": "syslog-health-monitor",
        "componentClass": "GPU",
        "checkName": "SysLogsXIDError",
        "nodeName": "gpu7",
        "generatedTimestamp": T0.format(second),
        **fields,
    }


GPU = [
    {"entityType": "PCI", "entityValue": "0000:61:00"},
    {"entityType": "GPU_UUID", "entityValue": "GPU-1"},
]


def test_a_fault_is_over_when_a_healthy_event_clears_it(tmp_path: Path) -> None:
    fatal = {"isFatal": True, "errorCode": ["79"], "entitiesImpacted": GPU}
    path = lines(
        tmp_path,
        health(0, **fatal),
        health(5, **fatal),
        health(9, isHealthy=True, entitiesImpacted=GPU),
        health(10, isHealthy=True, entitiesImpacted=GPU),
        health(20, **fatal),
        health(30, errorCode=["13"]),
        health(40, isFatal=True, errorCode=["48"], processingStrategy="STORE_ONLY"),
    )
    history = read_nvsentinel([path])
    assert history.cause.text() == ["xid_79", "xid_79", "xid_13", "xid_48"]
    assert history.kind.text() == ["failure", "failure", "notice", "notice"]
    assert history.units() == ["gpu7/GPU-1", "gpu7/GPU-1", "gpu7", "gpu7"]
    assert history.start_s_E[0] == EPOCH
    assert history.recovered_s_E[0] == EPOCH + 9.0
    assert all(math.isnan(time) for time in history.recovered_s_E[1:])
    assert history.files[0].merged == {
        "repeat of an uncleared fault": 1,
        "healthy event that clears a fault": 1,
    }
    assert history.files[0].ignored == {"healthy event with no fault to clear": 1}
    check_law(history.files)


def test_every_spelling_of_a_health_event_is_the_same(tmp_path: Path) -> None:
    plain = health(0, isFatal=True, errorCode=["79"], entitiesImpacted=GPU)
    stored = {"createdAt": {"$date": "2026-03-02T01:00:00Z"}, "healthevent": plain}
    snake = {
        "check_name": plain["checkName"],
        "node_name": "gpu7",
        "is_fatal": True,
        "error_code": ["79"],
        "component_class": "GPU",
        "entities_impacted": [{"entity_type": "GPU_UUID", "entity_value": "GPU-1"}],
        "generated_timestamp": {"seconds": str(int(EPOCH)), "nanos": 0},
    }
    paths = [
        document(tmp_path, {"events": [plain]}, "a.json"),
        document(tmp_path, [stored], "b.json"),
        lines(tmp_path, {"operationType": "insert", "fullDocument": stored}, name="c.jsonl"),
        lines(tmp_path, snake, name="d.ndjson"),
    ]
    for path in paths:
        history = read_nvsentinel([path])
        assert history.units() == ["gpu7/GPU-1"]
        assert history.cause.text() == ["xid_79"]
        assert history.start_s_E.tolist() == [EPOCH]
    assert read_nvsentinel(paths).files[1].merged == {"repeat of an uncleared fault": 1}


def test_a_fault_of_two_devices_is_over_when_both_are_healthy(tmp_path: Path) -> None:
    both = [{"entityType": "NIC", "entityValue": name} for name in ("mlx5_0", "mlx5_1")]
    base = {"checkName": "LinkDown", "componentClass": "NIC"}
    path = lines(
        tmp_path,
        health(0, isFatal=True, entitiesImpacted=both, **base),
        health(4, isHealthy=True, entitiesImpacted=both[:1], **base),
        health(7, isHealthy=True, entitiesImpacted=both[1:], **base),
    )
    history = read_nvsentinel([path])
    assert history.cause.text() == ["linkdown"]
    assert history.component.text() == ["nic"]
    assert history.recovered_s_E.tolist() == [EPOCH + 7.0]


def event(reason: str, second: int = 0, *, source: str = "kernel-monitor") -> dict[str, Any]:
    return {
        "kind": "Event",
        "involvedObject": {"kind": "Node", "name": "gpu7"},
        "source": {"component": source},
        "reason": reason,
        "count": 1,
        "firstTimestamp": T0.format(second),
    }


def node(name: str, **states: str) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": status, "reason": "DockerHung", "lastTransitionTime": T0.format(7)}
        for kind, status in states.items()
    ]
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": conditions}}


def test_problems_of_nodes_by_hand(tmp_path: Path) -> None:
    items = [
        event("TaskHung"),
        event("TaskHung"),
        event("TaskHung", 9) | {"count": 4},
        event("Pulling", source="kubelet"),
        event("Unheard"),
        node("gpu8", KernelDeadlock="True", Ready="True"),
        node("gpu9", KernelDeadlock="False"),
        {"kind": "Pod"},
    ]
    history = read_problems([document(tmp_path, {"kind": "List", "items": items})], [RULES])
    assert history.cause.text() == ["task_hung", "docker_hung", "task_hung"]
    assert history.kind.text() == ["notice", "failure", "notice"]
    assert history.node.text() == ["gpu7", "gpu8", "gpu7"]
    counts = history.files[0]
    assert counts.merged == {"problem already reported": 1}
    assert counts.repaired == {"event counted several times": 1}
    assert counts.ignored == {
        "event of kubelet": 1,
        "reason Unheard is not in the rules": 1,
        "node without a problem": 1,
        "object of kind Pod": 1,
    }
    check_law(history.files)


def test_published_rules_are_read(tmp_path: Path) -> None:
    rules = read_rules(shared("node_problem_detector/kernel-monitor.json"))
    assert rules.source == "kernel-monitor"
    assert {"TaskHung", "OOMKilling", "DockerHung"} <= rules.reasons
    assert "KernelDeadlock" in rules.conditions
    assert read_problems([lines(tmp_path, event("TaskHung"))], [rules]).size == 1


def test_wrong_rules_and_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match="not a node-problem-detector configuration"):
        read_rules(document(tmp_path, {"rules": []}))
    with pytest.raises(InvalidSpecError, match="cannot read"):
        read_rules(tmp_path / "none.json")
    broken = node("gpu8") | {"status": {}}
    with pytest.raises(InvalidSpecError, match=r"column 'status\.conditions'"):
        read_problems([document(tmp_path, [broken])], [RULES])


def steps(*pairs: tuple[int, float]) -> list[dict[str, Any]]:
    return [
        {"job_name": "j", "step_count": step, "step_start_time": EPOCH + second}
        for step, second in pairs
    ]


def test_a_restart_and_its_lost_steps_by_hand(tmp_path: Path) -> None:
    entries = [
        {"job_name": "j", "job_start_time": EPOCH},
        {"job_name": "j", "tpu_init_start_time": EPOCH + 1},
        {"job_name": "j", "tpu_init_end_time": EPOCH + 4},
        *steps((0, 10), (1, 20), (2, 30), (3, 40)),
        {"job_name": "j", "job_start_time": EPOCH + 100},
        *steps((2, 120), (3, 130)),
        {
            "jsonPayload": {
                "job_name": "j",
                "custom_badput_event_type": "Eval Step",
                "custom_badput_event_start_time": EPOCH + 135,
            }
        },
        {"job_name": "j", "training_prep_end_time": EPOCH + 139},
        {"job_name": "j", "job_end_time": EPOCH + 140},
        {"job_name": "j", "colour": "red"},
    ]
    history = read_goodput_log([lines(tmp_path, *entries)])
    told = list(
        zip(
            history.cause.text(),
            history.kind.text(),
            history.start_s_E - EPOCH,
            history.recovered_s_E - EPOCH,
            strict=True,
        )
    )
    assert told[0] == ("tpu_initialization", "overhead", 1.0, 4.0)
    # steps 2 and 3 ran from 30 s on and were done again; the last start seen was at 40 s
    assert told[1] == ("wasted_progress_from_disruption", "overhead", 30.0, 40.0)
    assert told[2] == ("restart", "unclear", 40.0, 120.0)
    assert told[3][:3] == ("eval_step", "overhead", 135.0)
    assert history.detected_s_E[2] == EPOCH + 100.0
    assert history.files[0].ignored == {
        "end without a start": 1,
        "entry without a known field": 1,
    }
    check_law(history.files)


def test_a_rollback_without_a_start_is_a_restart(tmp_path: Path) -> None:
    history = read_goodput_log([lines(tmp_path, *steps((5, 10), (6, 20), (5, 50), (6, 60)))])
    assert history.cause.text() == ["wasted_progress_from_disruption", "restart"]
    assert history.recovered_s_E.tolist() == [EPOCH + 20.0, EPOCH + 50.0]
    check_law(history.files)


def acts(*names: str) -> list[dict[str, Any]]:
    return [
        {"time": EPOCH + second, "job": "j", "event": name}
        | ({"cause": "gpu"} if name == "interrupt" else {})
        for second, name in enumerate(names)
    ]


def test_an_interruption_by_hand(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        *acts(
            "start",
            "checkpoint_start",
            "checkpoint_end",
            "checkpoint_start",
            "interrupt",
            "interrupt",
            "detected",
            "nodes_ready",
            "running",
            "end",
        ),
    )
    history = read_job_log([path])
    assert history.cause.text() == ["checkpoint", "checkpoint", "gpu", "gpu"]
    assert history.kind.text() == ["overhead", "overhead", "failure", "failure"]
    assert (history.recovered_s_E - EPOCH)[[0, 2, 3]].tolist() == [2.0, 8.0, 8.0]
    assert math.isnan(history.recovered_s_E[1])
    assert history.detected_s_E[3] == EPOCH + 6.0
    check_law(history.files)


def test_clocks_that_run_back_are_refused_or_counted(tmp_path: Path) -> None:
    events = acts("start", "interrupt")
    events[1]["time"] = EPOCH - 0.5
    path = lines(tmp_path, *events)
    with pytest.raises(InvalidSpecError, match=r"line 2, column 'time': 0\.500 s before line 1"):
        read_job_log([path])
    history = read_job_log([path], tolerance_s=1.0)
    assert history.start_s_E.tolist() == [EPOCH]
    assert sum(history.files[0].repaired.values()) == 1
    events[1] = events[1] | {"kind": "bad", "time": EPOCH}
    with pytest.raises(InvalidSpecError, match="'bad' is not one of failure"):
        read_job_log([lines(tmp_path, *events)])


@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_any_order_is_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    path = lines(tmp_path_factory.mktemp("j"), *acts("start", *names))
    try:
        history = read_job_log([path])
    except InvalidSpecError:
        return
    check_law(history.files)
    interrupts = names.count("interrupt")
    assert sum(kind == "failure" for kind in history.kind.text()) == interrupts


def test_half_a_surrogate_pair_is_refused_where_it_stands(tmp_path: Path) -> None:
    # JSON can escape it, but no table could hold it
    path = document(tmp_path, [health(0), health(1) | {"nodeName": "a\ud800b"}])
    with pytest.raises(InvalidSpecError, match="record 2: a lone surrogate"):
        read_nvsentinel([path])
    path = lines(tmp_path, health(0), health(1) | {"nodeName": "a\ud800b"})
    with pytest.raises(InvalidSpecError, match=r"line 2: not JSON .*surrogates"):
        read_nvsentinel([path])
    whole = document(tmp_path, [health(1, errorCode=["79"]) | {"nodeName": "a\U0001f600b"}])
    assert read_nvsentinel([whole]).node.text() == ["a\U0001f600b"]
