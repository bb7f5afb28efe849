"""Answers of every verb fit a screen; `--verbose` holds all evidence of the JSON object."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from perfatlas.report.text import format_value, limits_of, open_terminal, typeset
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import explain
from perfatlas.verbs.estimate.answer import estimate
from perfatlas.verbs.estimate.frontiers import frontier
from perfatlas.verbs.kernel.answer import kernel_gemm
from perfatlas.verbs.simulate.answer import simulate
from tests.report.support import print_answer
from tests.vocabulary.questions import ASKED, MODEL, RATE, Question, answered, answered_with_files

MAX_LINES = 33
WIDTH = 80
REPRODUCE = "perfatlas --with every flag that was given"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"
OTHERS = {
    "nodes": Question(
        estimate, {"model": DEEPSEEK, "system": "h100_sxm", "gpus": 32, "batch": 64,
                   "attention_dp": 4}),
    "pools": Question(
        estimate, {"model": DEEPSEEK, "system": "h200_sxm", "mode": "disaggregated",
                   "prefill_tp": 8, "decode_tp": 8, "decode_attention_dp": 4, "concurrency": 64}),
    "domain": Question(
        estimate, {"model": DEEPSEEK, "system": "gb200", "gpus": 16, "batch": 64}),
    "no kernels": Question(estimate, {**MODEL, "system": "cpu", "gpus": 16}),
    "frontier": Question(frontier, MODEL),
    "explained": Question(explain, {**MODEL, "tp": 4, "slo_tpot_s": 0.004}),
    "frontier, bound": Question(frontier, {**MODEL, "tier": "bound"}),
    "estimate, bound": Question(estimate, {**MODEL, "tier": "bound"}),
    "simulate, bound": Question(simulate, {**RATE, "tier": "bound"}),
    "kernel, bound": Question(kernel_gemm, {"system": "cpu", "m": 64, "n": 512, "k": 512}),
    "collective, bound": Question(
        collective, {"system": "cpu", "op": "all_reduce", "bytes": 1 << 20, "gpus": 8}),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    found = {name: answered(name) for name in ASKED}
    found |= {name: one.answer() for name, one in OTHERS.items()}
    return {name: answer.to_dict() for name, answer in (found | answered_with_files()).items()}


def text_of(
    answer: dict[str, Any], *, verbose: bool = False, width: int = WIDTH, encoding: str = "utf-8"
) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = open_terminal(stream, width=width, environ={})
    print_answer(console, answer, reproduce=REPRODUCE, verbose=verbose)
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.fixture(scope="module")
def texts(answers: dict[str, dict[str, Any]]) -> Callable[..., dict[str, str]]:
    """Return what gives the texts of all answers, printed once in every form."""

    @cache
    def printed(*, verbose: bool = False, encoding: str = "utf-8") -> dict[str, str]:
        return {
            name: text_of(answer, verbose=verbose, encoding=encoding)
            for name, answer in answers.items()
        }

    return printed


def test_every_answer_fits_a_screen(texts: Callable[..., dict[str, str]]) -> None:
    too_long = {}
    for name, text in texts().items():
        lines = text.splitlines()
        assert lines[-1] == f"reproduce: {REPRODUCE}"
        widest = max(map(len, lines[:-1]))
        if len(lines) > MAX_LINES or widest > WIDTH:
            too_long[name] = (len(lines), widest)
    assert too_long == {}


def test_verbose_holds_every_assumption_source_and_version(
    answers: dict[str, dict[str, Any]], texts: Callable[..., dict[str, str]]
) -> None:
    for name, answer in answers.items():
        text = "".join(texts(verbose=True)[name].split())
        evidence = answer["evidence"]
        told = [typeset(one) for one in (*evidence["assumptions"], *answer["warnings"])]
        told += [*evidence["sources"], *evidence["data_versions"].values()]
        assert [one for one in told if "".join(one.split()) not in text] == []


def test_a_time_is_at_least_and_a_rate_at_most() -> None:
    results = {"ttft_s": 1.0, "ttft_s_low": 1.0, "ttft_s_high": None}
    results |= {"requests_per_s": 4.0, "steps": 3, "bound_time_s": 1.0}
    results |= {"capacity_requests_per_s": 9.0, "offered_load": 0.4, "flop_per_s": 1e15}
    assert limits_of(results) == {"ttft_s": "at least"}
    assert limits_of(results, tier="bound") == {
        "ttft_s": "at least",
        "requests_per_s": "at most",
        "capacity_requests_per_s": "at most",
        "offered_load": "at least",
        "flop_per_s": "at most",
    }
    # an interval without an upper end is no limit: the value is not its lower end
    assert limits_of({"ttft_s": 2.0, "ttft_s_low": 1.0, "ttft_s_high": None}) == {}


def test_numbers_are_as_the_field_prints_them(texts: Callable[..., dict[str, str]]) -> None:
    for text in (*texts().values(), *texts(verbose=True).values()):
        assert " us " not in text
        assert not any(f"{digit} %" in text for digit in "0123456789")
    assert " µs" in texts()["gemm"]


def test_the_slowest_operators_and_the_others_are_the_step(
    answers: dict[str, dict[str, Any]], texts: Callable[..., dict[str, str]]
) -> None:
    answer, text = answers["static"], texts()["static"]
    for phase in ("prefill", "decode"):
        rows = [row for row in answer["breakdown"] if row["phase"] == phase]
        total_s = sum(row["time_s"] for row in rows)
        assert f"{phase} step {format_value('time_s', total_s)}" in text
        slowest = max(rows, key=lambda row: float(row["share"]))
        assert slowest["name"] in text
    assert " others " in text
