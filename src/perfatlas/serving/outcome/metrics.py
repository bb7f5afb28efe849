"""Latencies, throughput and goodput of a simulation.

Shape legend: N requests, B some of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import large_array, release_pages
from perfatlas.serving.outcome.columns import GAP_EDGES
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import STATISTICS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.outcome.columns import Outcome, RunEnergy, Series, Window
    from perfatlas.serving.requests import Requests

PERCENTILES: Final = tuple(int(name[1:]) for name in STATISTICS[1:])  # the mean is first
HALF: Final = 32  # bits of a time that are summed separately
AT_A_TIME: Final = 1 << 18  # requests per batch when computing latencies


class ClientDelays(NamedTuple):
    """Delays between engine and client [s]."""

    request_s: float = 0.0  # From sending a request until it is queued
    token_s: float = 0.0  # From the step that produces a token to the client
    # From the last token to the end of the response, when the client continues
    response_s: float = 0.0

    @property
    def late_s(self) -> float:
        """Delay of a token at the client, relative to the engine [s]."""
        return self.request_s + self.token_s

    @property
    def turnaround_s(self) -> float:
        """Time from the engine's last token until the client's next request is queued [s]."""
        return self.request_s + self.token_s + self.response_s


AT_ENGINE: Final = ClientDelays()


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Latencies of all completed requests; times [s]."""

    arrival_s: NDArray[np.float64]  # Arrival (N,)
    # Until the prompt is tokenized, including waiting for its front end (N,)
    read_s: NDArray[np.float64]
    queue_s: NDArray[np.float64]  # From queueing to the first step with a token of the request (N,)
    ttft_s: NDArray[np.float64]  # Arrival to first output token (N,)
    # (request latency - TTFT) / (osl - 1) (N,); NaN for a single output token
    tpot_s: NDArray[np.float64]
    # Mean time between the streamed chunks of a request (N,), its TPOT without drafts
    itl_s: NDArray[np.float64]
    request_latency_s: NDArray[np.float64]  # Arrival to last output token (N,)
    # With two pools, from the end of the prompt to the arrival of its KV cache, including waiting
    # for blocks and links (N,); NaN without a transfer, empty without pools
    kv_transfer_s: NDArray[np.float64]
    place_N: NDArray[np.int64]  # Indices of these requests (N,)

    def between(self, window: Window) -> Latencies:
        """Return the latencies of the requests of a window."""
        inside_N = (self.place_N >= window.first) & (self.place_N < window.last)
        columns = {
            field.name: values_N[inside_N] if values_N.size else values_N
            for field in fields(self)
            if (values_N := getattr(self, field.name)) is not None
        }
        return Latencies(**columns)


def release_columns(*tables: tuple[Any, ...] | Latencies) -> None:
    """Return the memory of columns that are on disk to the operating system; their values stay."""
    for table in tables:
        for column in vars(table).values() if isinstance(table, Latencies) else table:
            if isinstance(column, np.ndarray):
                release_pages(column)
            elif isinstance(column, tuple):
                release_columns(column)


def request_latencies(
    requests: Requests, outcome: Outcome, seen: ClientDelays = AT_ENGINE
) -> Latencies:
    """Return the latencies of completed requests.

    Args:
        seen: Delays between engine and client.

    Limits: With drafts, the chunks of a request are not recorded: each has as many per output token
        as all requests together, and at least one after the first token.
    """
    place_N = np.flatnonzero(outcome.finished_N >= 0)
    columns: dict[str, NDArray[np.float64]] = {}
    for first in range(0, max(place_N.size, 1), AT_A_TIME):
        some_B = place_N[first : first + AT_A_TIME]
        for name, values_B in _latencies(requests, outcome, seen, some_B).items():
            if name not in columns:
                columns[name] = large_array(place_N.size, np.float64)
            columns[name][first : first + AT_A_TIME] = values_B
        release_pages(*columns.values())
        release_columns(requests, outcome)
    transfer_s = np.zeros(0)
    if outcome.travels.handed_N.size:
        handed_N, arrived_N = (
            times_N[place_N] for times_N in (outcome.travels.handed_N, outcome.travels.arrived_N)
        )
        transfer_s = np.where(arrived_N >= 0, (arrived_N - handed_N) / TICKS_PER_SECOND, np.nan)
    columns["itl_s"], per_token = columns["tpot_s"], gaps_per_token(outcome)
    if 0.0 < per_token < 1.0:
        gaps_N = requests.osl_N[place_N] - 1
        columns["itl_s"] = columns["tpot_s"] * np.minimum(gaps_N, 1.0 / per_token)
    return Latencies(**columns, kv_transfer_s=transfer_s, place_N=place_N)


def _latencies(
    requests: Requests, outcome: Outcome, seen: ClientDelays, place_B: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Return the latencies of some completed requests by name, each (B,) [s]."""
    arrival, fronted = outcome.arrival_N[place_B], outcome.fronted
    read = fronted.read_N[place_B] if fronted.read_N.size else arrival
    first, last = outcome.first_token_N[place_B], outcome.finished_N[place_B]
    if fronted.late_last_N.size:
        first = first + fronted.late_first_N[place_B]
        last = last + fronted.late_last_N[place_B]
    gaps = requests.osl_N[place_B] - 1
    between_s = (last - first) / TICKS_PER_SECOND
    return {
        "arrival_s": arrival / TICKS_PER_SECOND,
        "read_s": (read - arrival) / TICKS_PER_SECOND,
        "queue_s": (outcome.scheduled_N[place_B] - read) / TICKS_PER_SECOND,
        "ttft_s": (first - arrival) / TICKS_PER_SECOND + seen.late_s,
        "tpot_s": np.where(gaps > 0, between_s / np.maximum(gaps, 1), np.nan),
        "request_latency_s": (last - arrival) / TICKS_PER_SECOND + seen.late_s,
    }


def gap_statistics(requests: Requests, outcome: Outcome) -> dict[str, float | None]:
    """Return mean and percentiles of the inter-token latency over all requests [s].

    It is the time between the steps that stream output of a request, each of one token and those
    drafts that it accepted. Percentiles come from a histogram with 64 edges per decade, accurate to
    3.7% from 10 µs on, measured at the engine. The mean is over completed requests, as seen by
    clients; it is exact without drafts, and with drafts if all requests completed.

    Source: vllm-project/vllm, vllm/benchmarks: ITL is the time between chunks of the stream.
    """
    count_G = outcome.gaps_G[1:]
    total = int(count_G.sum())
    if total == 0:
        return dict.fromkeys(STATISTICS)
    low_s = GAP_EDGES[1:] / TICKS_PER_SECOND
    high_s = np.append(low_s[1:], low_s[-1] * 10.0)
    below_G = np.concatenate(([0.0], np.cumsum(count_G)))
    border_s = np.stack((low_s, high_s), axis=1).ravel()[: 2 * count_G.size]
    along = np.repeat(below_G, 2)[1:-1]
    at = [float(np.interp(percent / 100.0 * total, along, border_s)) for percent in PERCENTILES]
    done_N = outcome.finished_N >= 0
    gaps = int((requests.osl_N[done_N] - 1).sum()) * gaps_per_token(outcome)
    spent = _total_s((outcome.finished_N - outcome.first_token_N)[done_N])
    if outcome.fronted.late_last_N.size:
        late_N = outcome.fronted.late_last_N - outcome.fronted.late_first_N
        spent += _total_s(late_N[done_N])
    return dict(zip(STATISTICS, (spent / gaps if gaps else None, *at), strict=True))


def gaps_per_token(outcome: Outcome) -> float:
    """Return the gaps between steps of a request per gap between its tokens, 1 without drafts."""
    count = int(outcome.gaps_G.sum())
    return 1.0 - int(outcome.gaps_G[0]) / count if count else 1.0


def _total_s(ticks_N: NDArray[np.int64]) -> float:
    """Return the exact sum of times [s], which may exceed 64 bits in picoseconds (107 days)."""
    high, low = int((ticks_N >> HALF).sum()), int((ticks_N & ((1 << HALF) - 1)).sum())
    return float((high << HALF) + low) / TICKS_PER_SECOND


def request_columns(
    requests: Requests, outcome: Outcome, seen: ClientDelays = AT_ENGINE
) -> dict[str, list[Any]]:
    """Return per-request results as columns of a table, with None for missing values.

    Args:
        seen: Delays between engine and client.
    """
    latencies = request_latencies(requests, outcome, seen)
    count = requests.isl_N.shape[0]
    state_N = np.full(count, "waiting", dtype=object)
    state_N[outcome.scheduled_N >= 0] = "running"
    state_N[outcome.arrival_N < 0] = "to come"
    state_N[outcome.rejected()] = "rejected"
    state_N[latencies.place_N] = "completed"
    if outcome.operated.lost_N.size:
        state_N[outcome.operated.lost_N] = "lost"
    columns: dict[str, list[Any]] = {
        "request": list(range(count)),
        "state": state_N.tolist(),
        "arrival_s": _times(outcome.arrival_N),
        "isl": requests.isl_N.tolist(),
        "osl": requests.osl_N.tolist(),
        "replica": [None if value < 0 else value for value in outcome.replica_N.tolist()],
        "cached_tokens": outcome.cached_N.tolist(),
        "preemptions": outcome.preempted_N.tolist(),
    }
    if outcome.travels.handed_N.size:
        travels = outcome.travels
        went_N, came_N = travels.handed_N >= 0, travels.arrived_N >= 0
        prefilled_s = (travels.handed_N - outcome.arrival_N) / TICKS_PER_SECOND
        transfer_s = (travels.arrived_N - travels.handed_N) / TICKS_PER_SECOND
        columns |= {
            "decode_replica": [None if r < 0 else r for r in travels.replica_N.tolist()],
            "prefilled_s": [v if k else None for v, k in zip(prefilled_s, went_N, strict=True)],
            "kv_transfer_s": [v if k else None for v, k in zip(transfer_s, came_N, strict=True)],
        }
    if outcome.offloaded.moved_N.size:
        columns["host_tokens"] = outcome.offloaded.host_N.tolist()
        columns["ssd_tokens"] = outcome.offloaded.ssd_N.tolist()
        columns["remote_tokens"] = outcome.offloaded.remote_N.tolist()
        columns["load_s"] = (outcome.offloaded.moved_N / TICKS_PER_SECOND).tolist()
    if not outcome.travels.handed_N.size:
        columns["prefilled_s"] = _since(outcome.first_token_N, outcome.arrival_N)
    columns["generated_s"] = _since(outcome.finished_N, outcome.arrival_N)
    columns["interference_s"] = (outcome.interference_N / TICKS_PER_SECOND).tolist()
    columns["preempted_s"] = (outcome.lost_N / TICKS_PER_SECOND).tolist()
    if outcome.operated.again_N.size:
        columns["failed_tries"] = outcome.operated.tries_N.tolist()
        columns["sent_again_s"] = _times(outcome.operated.again_N)
    for name in ("read_s", "queue_s", "ttft_s", "tpot_s", "request_latency_s"):
        column: list[float | None] = [None] * count
        for i, value in zip(latencies.place_N, getattr(latencies, name).tolist(), strict=True):
            column[i] = None if value != value else value  # noqa: PLR0124 - NaN has no gap
        columns[name] = column
    return columns


def series_columns(series: Series, kv_blocks: int) -> dict[str, list[float]]:
    """Return the time series as columns of a table.

    The columns are time_s, running, waiting, kv_used_share and replicas (serving).

    Args:
        kv_blocks: KV cache blocks of all schedulers.
    """
    return {
        "time_s": (series.time_W / TICKS_PER_SECOND).tolist(),
        "running": series.running_W.tolist(),
        "waiting": series.waiting_W.tolist(),
        "kv_used_share": (series.used_W / max(kv_blocks, 1)).tolist(),
        "replicas": series.replicas_W.tolist(),
    }


def power_column(energy: RunEnergy) -> list[float]:
    """Return the mean power of all GPUs from each row of the series to the next one [W]."""
    gap_s = np.diff(energy.time_W) / TICKS_PER_SECOND
    power_w = np.diff(energy.energy_j_W) / np.where(gap_s > 0.0, gap_s, np.inf)
    values: list[float] = power_w.tolist()
    return values


def _times(ticks_N: NDArray[np.int64]) -> list[float | None]:
    return [None if tick < 0 else tick / TICKS_PER_SECOND for tick in ticks_N.tolist()]


def _since(ticks_N: NDArray[np.int64], start_N: NDArray[np.int64]) -> list[float | None]:
    passed_s = ((ticks_N - start_N) / TICKS_PER_SECOND).tolist()
    return [s if tick >= 0 else None for s, tick in zip(passed_s, ticks_N.tolist(), strict=True)]
