"""`catalog fields` and `catalog metrics` answer what is declared of every name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.declarations import declared_metrics, questions, verb_fields
from perfatlas.verbs.catalog.facts import CATALOGS

TABLES = {
    "fields": lambda: {name for verb in questions() for name in verb_fields(verb)},
    "metrics": lambda: set(declared_metrics()),
}


def _results(capsys: pytest.CaptureFixture[str], *words: str) -> Any:  # noqa: ANN401 - JSON
    assert main(["catalog", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["results"]


@pytest.mark.parametrize(("catalog", "names"), TABLES.items())
def test_every_name_is_listed_on_one_line(
    catalog: str,
    names: Callable[[], set[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = _results(capsys, catalog)[catalog]
    assert [row["name"] for row in rows] == sorted(names())
    assert main(["catalog", catalog]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [row["name"] for row in rows]
    assert max(map(len, lines)) <= 80


def test_a_field_shows_what_is_declared_of_it_for_each_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    serving, tuned, training = _results(capsys, "fields", "tp")["definitions"]
    assert tuned["commands"] == ["kernel tune"]
    assert "estimate" in serving["commands"]
    assert training["commands"] == ["search training", "train"]
    assert "tensor_parallel_size" in serving["in_other_tools"]
    assert serving["set_by_pool"] == ["prefill_tp", "decode_tp"]
    (window,) = _results(capsys, "fields", "rope-dim")["definitions"]
    assert window["needs"] == "kind = mla"


def test_a_metric_shows_its_unit_and_interval(capsys: pytest.CaptureFixture[str]) -> None:
    facts = _results(capsys, "metrics", "show", "ttft_s")
    assert (facts["unit"], facts["better"]) == ("s", "lower")
    assert "ttft_s_low" in facts["interval"]


def test_every_entry_of_the_tables_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for catalog in ("fields", "metrics", "hardware-fields", "engine-fields"):
        for row in _results(capsys, catalog)[catalog]:
            assert CATALOGS[catalog].facts(row["name"])["name"] == row["name"]


def test_a_field_of_hardware_names_what_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    (every_kind,) = _results(capsys, "hardware-fields", "device.memory.bandwidth")["definitions"]
    assert every_kind["kinds"] == ["dataflow", "gpu", "systolic"]
    assert "attention" in every_kind["read_by"]


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("fields tensor_parallel_size", "tp"),
        ("fields max-num-seq", "max_num_seqs"),
        ("metrics ttft", "ttft_s"),
        ("fields estimate", "estimate"),
        ("commands kernel_gem", "kernel gemm"),
        ("engine-fields host.stp", "host.step"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    words: str, nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalog", *words.split()]) == 2
    assert repr(nearest) in capsys.readouterr().err
