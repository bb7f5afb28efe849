"""Communication behind computation: what two streams with contention leave exposed.

The compute stream runs *windows* (layers, or parts of layers) in their order; the communication
stream runs *transfers* in theirs. A transfer starts once the window that makes its data has ended,
and some window waits for it. While both streams run, each is slower than alone: communication
kernels occupy SMs and take memory bandwidth.

Shape legend: C candidates, L windows, K transfers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled import entry, part
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

ON_START: Final = -1  # `ready_after` of a transfer that nothing delays


@dataclass(frozen=True, kw_only=True)
class Streams:
    """Computation and communication of candidates."""

    window_s_CL: FloatArray  # Windows in their order, each alone on the device [s] (C, L)
    transfer_s_CK: FloatArray  # Transfers in their order, each alone [s] (C, K)
    # Window whose end makes the data of a transfer (C, K), `ON_START` for none
    ready_after_CK: IntArray
    needed_by_CK: IntArray  # Window that waits for a transfer (C, K); L or more for none
    # Speed of a window while a transfer runs, over its speed alone (C, L), from `contended_rate`
    compute_rate_CL: FloatArray
    # Speed of transfers while a window runs, over their speed alone (C,)
    transfer_rate_C: FloatArray


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """What communication adds to computation: total_s_C = computation alone + exposed_s_C."""

    total_s_C: FloatArray  # Until both streams have ended [s] (C,)
    exposed_s_C: FloatArray  # Time that communication adds [s] (C,)
    hidden_s_C: FloatArray  # Time in which both streams run [s] (C,)


class _Running(NamedTuple):
    """Arrays of the simulation: those of `Streams`, and results (C, 2) of total and both."""

    window_CL: Any
    transfer_CK: Any
    ready_CK: Any
    needed_CK: Any
    rate_CL: Any
    rate_C: Any
    result_C2: Any
    last_L: Any


@part
def _find_needed(run: _Running, c: int) -> None:
    """Write the last transfer that must have ended before each window."""
    windows = run.window_CL.shape[1]
    for w in range(windows):
        run.last_L[w] = -1
    for k in range(run.transfer_CK.shape[1]):
        if run.needed_CK[c, k] < windows:
            run.last_L[run.needed_CK[c, k]] = k
    for w in range(1, windows):
        run.last_L[w] = max(run.last_L[w], run.last_L[w - 1])


@part
def _run(run: _Running, c: int) -> None:
    """Run both streams of a candidate from one end of a window or transfer to the next."""
    windows, transfers = run.window_CL.shape[1], run.transfer_CK.shape[1]
    w, k, now, both = 0, 0, 0.0, 0.0
    work = run.window_CL[c, 0] if windows > 0 else 0.0
    unsent = run.transfer_CK[c, 0] if transfers > 0 else 0.0
    while w < windows or k < transfers:
        computes = w < windows and run.last_L[w] < k
        sends = k < transfers and run.ready_CK[c, k] < w
        rate, send_rate = 1.0, 1.0
        if computes and sends:
            rate, send_rate = run.rate_CL[c, w], run.rate_C[c]
        to_end = work / rate if computes else np.inf
        to_sent = unsent / send_rate if sends else np.inf
        passed = min(to_end, to_sent)
        now += passed
        both += passed if computes and sends else 0.0
        work -= min(passed * rate, work) if computes else 0.0
        unsent -= min(passed * send_rate, unsent) if sends else 0.0
        if computes and to_end <= passed:
            w += 1
            work = run.window_CL[c, w] if w < windows else 0.0
        if sends and to_sent <= passed:
            k += 1
            unsent = run.transfer_CK[c, k] if k < transfers else 0.0
    run.result_C2[c, 0], run.result_C2[c, 1] = now, both


@entry
def _run_all(run: _Running) -> None:
    """Run the streams of all candidates."""
    for c in range(run.window_CL.shape[0]):
        _find_needed(run, c)
        _run(run, c)


def exposed_communication(streams: Streams) -> Exposed:
    """Return what communication adds to computation, exactly for the given rates.

    Raises:
        InvalidSpecError: A duration is negative or not finite, a rate is not in (0, 1], or a window
            waits for a transfer that only starts after it.

    Limits: One communication stream; transfers do not overtake each other. Rates hold for the whole
        time in which both streams run.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step.overlap import Streams, exposed_communication
        >>> exposed = exposed_communication(
        ...     Streams(  # two windows of 4 s; 3 s of communication after each, SMs shared 3 : 1
        ...         window_s_CL=np.array([[4.0, 4.0]]),
        ...         transfer_s_CK=np.array([[3.0, 3.0]]),
        ...         ready_after_CK=np.array([[0, 1]]),
        ...         needed_by_CK=np.array([[2, 2]]),
        ...         compute_rate_CL=np.array([[0.75, 0.75]]),
        ...         transfer_rate_C=np.array([1.0]),
        ...     )
        ... )
        >>> exposed.total_s_C.tolist(), exposed.hidden_s_C.tolist()
        ([11.75], [3.0])
    """
    _check(streams)
    count, windows = np.shape(streams.window_s_CL)
    run = _Running(
        window_CL=_floats(streams.window_s_CL),
        transfer_CK=_floats(streams.transfer_s_CK),
        ready_CK=np.array(streams.ready_after_CK, dtype=np.int64, order="C"),
        needed_CK=np.array(streams.needed_by_CK, dtype=np.int64, order="C"),
        rate_CL=_floats(streams.compute_rate_CL),
        rate_C=_floats(streams.transfer_rate_C),
        result_C2=np.zeros((count, 2)),
        last_L=np.zeros(max(windows, 1), dtype=np.int64),
    )
    _run_all(run)
    total_C, both_C = run.result_C2.T.copy()
    alone_C = run.window_CL.sum(axis=1)
    exposed_C = np.maximum(total_C - alone_C, 0.0)
    return Exposed(
        total_s_C=total_C,
        exposed_s_C=exposed_C,
        hidden_s_C=both_C,
    )


def _floats(column: FloatArray) -> FloatArray:
    return np.array(column, dtype=np.float64, order="C")  # compiled code takes no read-only array


def _check(streams: Streams) -> None:
    """Refuse columns that no streams can have."""
    for name in ("window_s_CL", "transfer_s_CK"):
        column = np.asarray(getattr(streams, name))
        if not np.all(np.isfinite(column) & (column >= 0)):
            raise InvalidSpecError(f"{name}: durations are finite and not negative")
    for name in ("compute_rate_CL", "transfer_rate_C"):
        column = np.asarray(getattr(streams, name))
        if not np.all((column > 0) & (column <= 1)):
            raise InvalidSpecError(f"{name}: rates are above 0 and at most 1")
    windows = np.shape(streams.window_s_CL)[1]
    ready_CK = np.asarray(streams.ready_after_CK)
    latest_CK = np.maximum.accumulate(ready_CK, axis=1)
    stuck_CK = (np.asarray(streams.needed_by_CK) <= latest_CK) | (ready_CK >= windows)
    if stuck_CK.any():
        c, k = np.argwhere(stuck_CK)[0].tolist()
        raise InvalidSpecError(
            f"candidate {c}: transfer {k} starts after window {latest_CK[c, k]} of {windows}, and"
            f" window {streams.needed_by_CK[c][k]} waits for it"
        )
