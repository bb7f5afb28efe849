"""`validate here`: predictions of this CPU beside measurements on it.

Operators are calibrated on some shapes; products of other shapes, and prefill and decode steps of
transformers of other sizes, are predicted from them and then measured.

Shape legend: N calibrated shapes, F features, D sizes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.lab.harness import transformer
from perfatlas.lab.harness.clocks import CpuClock
from perfatlas.lab.harness.loop import Arm, Measurement, Protocol, measure, one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from perfatlas.lab.harness.machine import Machine

Step = tuple[str, int, int, int]  # phase, batch, new tokens, keys
COLD: Final = 3.0  # last-level caches that weights and caches rotate through
NEIGHBOURS: Final = 3
PRODUCT_SIZES: Final = 3  # m, n, k
# Weight of the distance in rows of a product: libraries choose kernels by them. Chosen among 1 to
# 16 by the products of calibration left out one by one.
ROWS_WEIGHT: Final = 8.0
BRIEF: Final = Protocol(fewest=15, most=60, budget_s=0.25, warm_up_s=0.05)
STEADY: Final = Protocol(fewest=12, most=40, budget_s=1.0)
SEED: Final = 1
TARGETS: Final = {"gemm": 0.05, "prefill": 0.06, "decode": 0.12}  # median errors aimed at
# Sizes of calibration are none of those predicted.
ROWS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
WIDTHS: Final = (192, 320, 448, 576, 704, 832, 960, 1216, 1600, 1920, 2624, 3456)
PRODUCTS_PER_ROWS: Final = 6
HEADS: Final = ((3, 3), (6, 2), (10, 10), (14, 7))
PROMPTS: Final = (48, 96, 160, 320, 448)
CACHED: Final = (96, 224, 448, 900, 1500)
BATCHES: Final = (1, 2, 3, 6, 8)
STREAM_ROWS: Final = (1, 3, 6, 24, 96, 192, 448)
STREAM_WIDTHS: Final = (192, 448, 960, 1920)
HELD_OUT: Final = tuple(
    transformer.Piece("gemm", sizes)
    for sizes in (
        *((1, 1024, 1024), (1, 3072, 768), (2, 2048, 512), (4, 768, 768), (8, 4096, 1024)),
        *((16, 512, 2048), (32, 1536, 512), (64, 768, 3072), (100, 1000, 1000), (200, 640, 640)),
        *((256, 1024, 256), (400, 512, 1536)),
    )
)
MODELS: Final = (
    transformer.Sizes(hidden=256, intermediate=768, layers=4, kv_heads=4),
    transformer.Sizes(hidden=512, intermediate=1408, layers=4, kv_heads=4),
    transformer.Sizes(hidden=768, intermediate=2048, layers=4, kv_heads=4),
)
# Transformers whose steps tell what layers take beyond their pieces: code and data that other
# pieces drove out of the inner caches, and the interpreter.
COMPOSED: Final = (
    transformer.Sizes(hidden=320, intermediate=832, layers=3, kv_heads=5),
    transformer.Sizes(hidden=640, intermediate=1600, layers=3, kv_heads=5),
)
COMPOSED_STEPS: Final = (
    *(("prefill", 1, 48, 48), ("prefill", 2, 96, 96), ("prefill", 1, 320, 320)),
    *(("decode", 2, 1, 96), ("decode", 3, 1, 448), ("decode", 6, 1, 900)),
)
PREFILLS: Final = ((1, 64), (1, 256), (4, 128))  # batch and prompt
DECODES: Final = ((1, 128), (4, 512), (8, 1024))  # batch and keys


@dataclass(frozen=True, kw_only=True)
class Row:
    """A prediction beside its measurement."""

    group: str  # gemm, prefill or decode
    case: str  # What was predicted
    predicted_s: float  # Before the measurement [s]
    measured: Measurement  # The measurement

    @property
    def error(self) -> float:
        """Prediction over measurement minus one."""
        return self.predicted_s / self.measured.interval.median - 1.0


class OperatorFit:
    """Times of one kind: non-negative rates of its features, and residuals of nearest shapes."""

    def __init__(self, sizes_ND: Sequence[tuple[int, ...]], times_s_N: Sequence[float]) -> None:
        """Fit relative errors."""
        from scipy.optimize import nnls

        times_N = np.asarray(times_s_N)
        features_NF = np.array([_features(size) for size in sizes_ND])
        scale_F = features_NF.max(axis=0)
        scaled_NF = features_NF / scale_F / times_N[:, None]
        self.rates_F = nnls(scaled_NF, np.ones(len(times_N)))[0] / scale_F
        self.log_sizes_ND = _log_sizes(sizes_ND)
        self.residuals_N = np.log(times_N / (features_NF @ self.rates_F))

    def time_s(self, sizes: tuple[int, ...]) -> float:
        """Return the predicted time of a shape [s]."""
        distance_N = np.linalg.norm(self.log_sizes_ND - _log_sizes([sizes]), axis=1)
        nearest = np.argsort(distance_N)[:NEIGHBOURS]
        weights = 1.0 / (distance_N[nearest] + 0.1)
        residual = float(np.average(self.residuals_N[nearest], weights=weights))
        return float(_features(sizes) @ self.rates_F * np.exp(residual))


def _log_sizes(sizes_ND: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
    log_sizes_ND = np.log2(np.asarray(sizes_ND, np.float64))
    if log_sizes_ND.shape[1] == PRODUCT_SIZES:
        log_sizes_ND[:, 0] *= ROWS_WEIGHT
    return log_sizes_ND


def _features(sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return what the time of a piece is made of (F,): calls, arithmetic, bytes."""
    if len(sizes) == 2:
        rows, width = sizes
        return np.array([1.0, rows, rows * width])
    if len(sizes) == PRODUCT_SIZES:
        m, n, k = sizes
        return np.array([1.0, m * n * k, n * k, m * k, m * n])
    batch, q_len, kv_len, heads, kv_heads = sizes
    pairs = batch * heads * q_len * kv_len
    cached, queries = batch * kv_heads * kv_len, batch * heads * q_len
    return np.array([1.0, pairs, cached, queries, batch * heads])


def calibration_pieces() -> list[transformer.Piece]:
    """Return the shapes that are calibrated; none is a shape of HELD_OUT or MODELS."""
    rng = np.random.default_rng(SEED)
    pieces = [
        transformer.Piece("gemm", (rows, int(n), int(k)))
        for rows in ROWS
        for n, k in rng.choice(WIDTHS, (PRODUCTS_PER_ROWS, 2))
    ]
    pieces += [
        transformer.Piece("gemm", (rows, 6144, k)) for rows in (1, 2, 4, 8) for k in (320, 704)
    ]
    pieces += [
        transformer.Piece("gemm", (rows, 9216, k)) for rows in (1, 2, 4, 8) for k in (448, 832)
    ]
    for (heads, kv_heads), tokens in product(HEADS, PROMPTS):
        batch = int(rng.choice((1, 2, 4)))
        pieces.append(
            transformer.Piece("prefill_attention", (batch, tokens, tokens, heads, kv_heads))
        )
    for batch, keys in product(BATCHES, CACHED):
        heads, kv_heads = HEADS[int(rng.integers(len(HEADS)))]
        pieces.append(transformer.Piece("decode_attention", (batch, 1, keys, heads, kv_heads)))
    streams = product(transformer.STREAMS, STREAM_ROWS, STREAM_WIDTHS)
    pieces += [transformer.Piece(kind, (rows, width)) for kind, rows, width in streams]
    return list(dict.fromkeys(pieces))


def validate_here(machine: Machine, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return predictions of held-out products and of steps beside their measurements.

    Args:
        machine: This machine, a CPU.
        progress: Called with what begins.
    """
    start_s, cold_bytes = time.perf_counter(), COLD * machine.cache_bytes
    with one_thread():
        pieces = transformer.PieceCalls(cold_bytes)
        progress("calibrating operators")
        fits = calibrate(pieces, calibration_pieces())
        model = StepModel(fits, cold_bytes)
        calibrated_s = time.perf_counter() - start_s
        progress("measuring held-out products")
        rows = [
            Row(
                group="gemm",
                case="x".join(map(str, piece.sizes)),
                predicted_s=fits["gemm"].time_s(piece.sizes),
                measured=_measured(pieces.calls(piece), BRIEF),
            )
            for piece in HELD_OUT
        ]
        progress("measuring steps of transformers")
        rows += [_step(model, sizes, step, cold_bytes) for sizes, step in _steps()]
    return {
        "rows": [_described(row) for row in rows],
        **{
            f"{group}_median_error": float(
                np.median([abs(row.error) for row in rows if row.group == group])
            )
            for group in TARGETS
        },
        "calibrated_shapes": len(calibration_pieces()),
        "calibration_s": calibrated_s,
        "total_s": time.perf_counter() - start_s,
    }


def calibrate(
    pieces: transformer.PieceCalls, shapes: Iterable[transformer.Piece]
) -> dict[str, OperatorFit]:
    """Return the fit of each kind."""
    times: dict[str, dict[tuple[int, ...], float]] = {}
    for piece in shapes:
        measurement = _measured(pieces.calls(piece), BRIEF)
        times.setdefault(piece.kind, {})[piece.sizes] = measurement.interval.median
    return {kind: OperatorFit(list(rows), list(rows.values())) for kind, rows in times.items()}


class StepModel:
    """Times of steps: the sum of their pieces, and what layers take beyond them."""

    def __init__(self, fits: dict[str, OperatorFit], cold_bytes: float) -> None:
        """Measure steps of the transformers of COMPOSED."""
        from scipy.optimize import nnls

        self.fits = fits
        self.rates_F = np.zeros(3)
        rows_NF, beyond_N = [], []
        for sizes, step in product(COMPOSED, COMPOSED_STEPS):
            measured_s = _measured_step(sizes, step, cold_bytes).interval.median
            rows_NF.append(_layer_features(sizes, step) / measured_s)
            beyond_N.append(1.0 - self.time_s(sizes, step) / measured_s)
        scale_F = np.max(rows_NF, axis=0)
        self.rates_F = nnls(np.array(rows_NF) / scale_F, np.array(beyond_N))[0] / scale_F

    def time_s(self, sizes: transformer.Sizes, step: Step) -> float:
        """Return the predicted time of a step [s]."""
        pieces = transformer.step_pieces(sizes, *step[1:])
        pieces_s = sum(
            count * self.fits[piece.kind].time_s(piece.sizes) for piece, count in pieces.items()
        )
        return float(pieces_s + _layer_features(sizes, step) @ self.rates_F)


def _layer_features(sizes: transformer.Sizes, step: Step) -> NDArray[np.float64]:
    """Return layers, and their elements and weights (F,)."""
    _, batch, q_len, _ = step
    layer = sizes.weight_bytes / 4.0 / sizes.layers
    return sizes.layers * np.array([1.0, batch * q_len * sizes.hidden, layer])


def _steps() -> list[tuple[transformer.Sizes, Step]]:
    steps: list[Step] = [("prefill", batch, prompt, prompt) for batch, prompt in PREFILLS]
    steps += [("decode", batch, 1, keys) for batch, keys in DECODES]
    return [(sizes, step) for sizes in MODELS for step in steps]


def _step(model: StepModel, sizes: transformer.Sizes, step: Step, cold_bytes: float) -> Row:
    group, batch, _, kv_len = step
    return Row(
        group=group,
        case=f"hidden {sizes.hidden}, batch {batch}, {kv_len} tokens",
        predicted_s=model.time_s(sizes, step),
        measured=_measured_step(sizes, step, cold_bytes),
    )


def _measured_step(sizes: transformer.Sizes, step: Step, cold_bytes: float) -> Measurement:
    """Return the times of a step of as many copies of a transformer as no cache holds."""
    _, batch, q_len, kv_len = step
    copies = int(np.ceil(cold_bytes / sizes.weight_bytes)) + 1
    models = [transformer.Transformer(sizes, batch, kv_len) for _ in range(copies)]
    return _measured([partial(model.step, q_len) for model in models], STEADY)


def _measured(calls: Sequence[Callable[[], object]], protocol: Protocol) -> Measurement:
    return measure([Arm(name="", calls=calls)], CpuClock(), protocol)[0]


def _described(row: Row) -> dict[str, Any]:
    interval = row.measured.interval
    return {
        "group": row.group,
        "case": row.case,
        "predicted_s": row.predicted_s,
        "measured_s": interval.median,
        "measured_s_low": interval.low,
        "measured_s_high": interval.high,
        "error": row.error,
        "dropped": row.measured.dropped,
    }
