"""The Python results of all verbs share attributes and columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import perfatlas
from perfatlas.answer import Answer, AnsweredRun
from tests.vocabulary.questions import ASKED, MODEL, with_files

ATTRIBUTES = ("command", "scenario", "results", "breakdown", "evidence", "warnings")


def _reads_like_an_answer(found: Any) -> None:  # noqa: ANN401 - what any verb returns
    answer = getattr(found, "answer", found)
    assert isinstance(found, Answer | AnsweredRun)
    assert all(getattr(found, name) == getattr(answer, name) for name in ATTRIBUTES)
    assert found.to_dict() == answer.to_dict()
    lengths = {len(cells) for cells in found.columns.values()}
    assert len(lengths) == 1


def test_every_verb_returns_an_answer_interface(tmp_path: Path) -> None:
    files = with_files(tmp_path)
    for asked in (ASKED["gemm"], ASKED["static"], ASKED["one pool"], ASKED["goodput"]):
        _reads_like_an_answer(asked.verb_function(**asked.fields))
    for name in ("fleet", "trace"):
        _reads_like_an_answer(files[name].verb_function(**files[name].fields))


def test_columns_of_an_answer_join_nested_keys() -> None:
    asked = ASKED["one pool"]
    found = asked.verb_function(**asked.fields)
    results = found.results
    assert found.columns["ttft_s_p99"] == [results["ttft_s"]["p99"]]
    assert found.columns["tail_ttft_s_queue"] == [results["tail_ttft_s"]["queue"]]
    assert not any(name.startswith("series") for name in found.columns)
    (memory,) = perfatlas.estimate(**MODEL).columns["memory_weights_bytes"]
    assert memory == perfatlas.estimate(**MODEL).results["memory"]["weights_bytes"]


def test_tables_and_frontiers_have_one_row_per_scenario() -> None:
    rows = {"model": [MODEL["model"]] * 2, "system": ["h200_sxm", "h2000"]}
    table = perfatlas.estimate_table(rows)
    _reads_like_an_answer(table)
    assert (table.results["rows"], table.results["failed"]) == (2, 1)
    assert table.columns["error_code"] == ["", "invalid"]
    frontier = perfatlas.frontier(**MODEL, osl=64)
    _reads_like_an_answer(frontier)
    points = frontier.results["frontier"]
    assert frontier.columns["batch"] == [point["batch"] for point in points]
    assert frontier.columns["memory_kv_bytes"][-1] == points[-1]["memory"]["kv_bytes"]
