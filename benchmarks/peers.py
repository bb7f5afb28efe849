"""Comparison of perfatlas, aiconfigurator 0.12 and llm-analysis on the same distinct queries."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from kernel_rate import FAMILY, SYSTEM, distinct_gemms, gemm_operator
from timing import Row, Timing, timed

from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.networks import ModelFormats, resolve_model
from perfatlas.parallelism import PlanColumns
from perfatlas.step import Placement, StepContext, decode_step
from perfatlas.verbs.estimate import estimate

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.step import StepCost

SECTION: Final = "side by side, per distinct question"
MODEL: Final = "meta-llama/Llama-3.1-70B-Instruct"
TP: Final = 8
FIRST: Final = (64, 2304)  # the query with printed results
DECODE: Final = "decode step, Llama-3.1-70B FP8, 8x H200 TP8"
GEMM: Final = "GEMM, H200 FP8"


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Queries of the comparison."""

    decode_D2: FloatArray  # Rows of (batch, keys per sequence), all distinct
    gemm_R3: FloatArray  # Rows of (m, n, k), all distinct

    def payload(self, runs: int) -> str:
        """Return the queries in the format of the peers' scripts."""
        return json.dumps(
            {
                "decode": self.decode_D2.astype(int).tolist(),
                "gemm": self.gemm_R3.astype(int).tolist(),
                "tp": TP,
                "runs": runs,
            }
        )


def draw_questions(count: int, seed: int) -> Questions:
    """Return distinct decode steps and matrix products."""
    random = np.random.default_rng(seed)
    flat = random.choice(128 * 8064, count, replace=False)
    decode = np.stack([1 + flat % 128, 128 + flat // 128], axis=1).astype(np.float64)
    decode = decode[(decode != FIRST).any(axis=1)]
    decode = np.concatenate([np.array([FIRST], np.float64), decode])[:count]
    return Questions(decode_D2=decode, gemm_R3=distinct_gemms(count, seed))


def peer_rows(questions: Questions, *, runs: int, aic_python: str, llm_python: str) -> list[Row]:
    """Return the time per query of each tool; missing peers are noted in their rows.

    Args:
        questions: Queries for all tools.
        runs: Passes over the queries for the median.
        aic_python: Python with aiconfigurator 0.12.0.
        llm_python: Python with llm-analysis.
    """
    payload = questions.payload(runs)
    aic = _ask("peer_aiconfigurator.py", aic_python, payload)
    llm = _ask("peer_llm_analysis.py", llm_python, payload)
    rows = [*_ours(questions, runs=runs)]
    rows.append(_theirs(DECODE, "aiconfigurator", aic, "decode", "predict_decode_latency"))
    rows.append(_theirs(DECODE, "llm-analysis", llm, "decode", "inference(), including prefill"))
    rows.append(_theirs(GEMM, "aiconfigurator", aic, "gemm", "build_ops_json + evaluate_ops_json"))
    rows.append(
        Row(section=SECTION, name=f"{GEMM}: llm-analysis", note="not run: it has no GEMM query")
    )
    return sorted(rows, key=lambda row: row.name.split(":")[0])


def _ours(questions: Questions, *, runs: int) -> list[Row]:
    decode, cost = timed(lambda: _decode(questions.decode_D2), runs=runs)
    timing, _ = timed(lambda: _decode(questions.decode_D2[:1]), runs=max(runs, 20))
    whole, _ = timed(_estimate, runs=max(runs, 20))
    gemm, priced = timed(lambda: _gemm(questions.gemm_R3), runs=runs)
    steps, products = len(questions.decode_D2), len(questions.gemm_R3)
    answer = f"answers {cost.total_s()[0] * 1e3:.2f} ms at batch {FIRST[0]}, {FIRST[1]} keys"
    product = f"answers {priced.time_s_CO[0, 0] * 1e6:.1f} us for the first"
    columns = f"{steps:,} in one call"
    return [
        _row(f"{DECODE}: perfatlas, {columns}", decode, steps, f"every operator; {answer}"),
        _row(f"{DECODE}: perfatlas, one per call", timing, 1, "the same, one candidate per call"),
        _row(
            f"{DECODE}: perfatlas.estimate", whole, 1, "complete answer: prefill, memory, evidence"
        ),
        _row(f"{GEMM}: perfatlas, {products:,} in one call", gemm, products, product),
    ]


def _decode(decode_D2: FloatArray) -> StepCost:
    count = decode_D2.shape[0]
    column = np.ones(count)
    context = StepContext(
        network=resolve_model(MODEL).network,
        formats=ModelFormats(gemm="fp8_static", moe="fp8_static", kv="bf16", attention="bf16"),
        profile=resolve_engine(FAMILY),
        placement=Placement(systems=(resolve_system(SYSTEM),), index_C=np.zeros(count, np.int64)),
        plan=PlanColumns(
            tp=column * TP,
            pp=column,
            cp=column,
            ring_degree=column,
            guidance_degree=column,
            dcp=column,
            attention_dp=column,
            ep=column,
            moe_tp=column * TP,
            dp=column,
        ),
        tier="physics",
    )
    return decode_step(context, decode_D2[:, 0].copy(), decode_D2[:, 1].copy())


def _estimate() -> None:
    estimate(
        model=MODEL, system=SYSTEM, tp=TP, engine=FAMILY, format="fp8", batch=64, isl=2048, osl=512
    )


def _gemm(gemm_R3: FloatArray) -> Any:  # noqa: ANN401 - PricedOperators of the tool under test
    index = np.zeros(gemm_R3.shape[0], np.int64)
    devices = DeviceColumns(devices=(resolve_system(SYSTEM).device,), index_C=index)
    return price_operators([gemm_operator(gemm_R3)], devices, family=FAMILY, tier="physics")


def _ask(script: str, python: str, payload: str) -> dict[str, Any] | str:
    """Return the output of a peer's script, or why it did not run."""
    if not python or not Path(python).is_file():
        return f"not run: not installed ({python or 'no Python specified'})"
    done = subprocess.run(  # noqa: S603 - our own script under the Python the user named
        [python, str(Path(__file__).parent / script)],
        input=payload,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"not run: {last[:160]}"
    answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return answer


def _theirs(title: str, peer: str, published: dict[str, Any] | str, kind: str, call: str) -> Row:
    if isinstance(published, str):
        return Row(section=SECTION, name=f"{title}: {peer}", note=published)
    times, answer_s = published["times"][kind], published["answers_s"][kind]
    scaled = f"{answer_s * 1e3:.2f} ms" if kind == "decode" else f"{answer_s * 1e6:.1f} us"
    return Row(
        section=SECTION,
        name=f"{title}: {peer} {published['version']}",
        value=times["wall_s"] * 1e6,
        cpu_value=times["cpu_s"] * 1e6,
        unit="us",
        runs=times["runs"],
        note=f"{call}, one call each; answers {scaled} to the first",
    )


def _row(name: str, timing: Timing, count: int, note: str) -> Row:
    return Row(
        section=SECTION,
        name=name,
        value=timing.wall_s / count * 1e6,
        cpu_value=timing.cpu_s / count * 1e6,
        unit="us",
        runs=timing.runs,
        note=note,
    )
