"""Latency of `perfatlas web` under users who each ask another question every few seconds.

python benchmarks/web_load.py [--users 20] [--every-s 5] [--for-s 120]
starts a server, asks estimates of many models, systems and batches as pages,
and prints the percentiles of the time to the whole page.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import numpy as np

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODELS: Final = (
    *("openai/gpt-oss-20b", "openai/gpt-oss-120b", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B"),
    *("meta-llama/Llama-3.1-70B", "Qwen/Qwen3-235B-A22B", "deepseek-ai/DeepSeek-V3"),
)
SYSTEMS: Final = ("h100_sxm", "h200_sxm", "b200_sxm", "gb200", "mi300x", "a100_sxm", "l40s")


def question(draws: np.random.Generator) -> str:
    """Return the query of an estimate that hardly any other user asks."""
    width = draws.choice((1, 2, 4, 8))
    values = {
        "model": draws.choice(MODELS),
        "system": draws.choice(SYSTEMS),
        "gpus": width,
        "tp": width,
        "batch": draws.integers(1, 65),
        "isl": draws.integers(128, 8193),
        "osl": draws.integers(16, 1025),
    }
    return urlencode(values)


async def asked(host: str, port: int, query: str) -> tuple[int, float]:
    """Return status and time [s] of a page."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    head = f"GET /estimate?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    answer = await reader.read()
    while more := await reader.read():
        answer += more
    writer.close()
    return int(answer.split(b" ", 2)[1]), time.perf_counter() - began


async def user(
    number: int, host: str, port: int, options: argparse.Namespace
) -> list[tuple[int, float]]:
    """Return status and time of all questions of a user."""
    draws = np.random.default_rng(number)
    end = time.monotonic() + options.for_s
    await asyncio.sleep(draws.uniform(0.0, options.every_s))
    found = []
    while time.monotonic() < end:
        began = time.monotonic()
        found.append(await asked(host, port, question(draws)))
        await asyncio.sleep(max(0.0, options.every_s - (time.monotonic() - began)))
    return found


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[str, int]]:
    """Start a server; yield its address once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ("-m", "perfatlas", "web", "--port", str(port))
    server = await asyncio.create_subprocess_exec(sys.executable, *words)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                await asked("127.0.0.1", port, "")
                break
            await asyncio.sleep(0.2)
        await asyncio.sleep(3.0)  # its processes answer two questions each when they start
        yield "127.0.0.1", port
    finally:
        server.terminate()
        await server.wait()


async def measured(options: argparse.Namespace) -> list[tuple[int, float]]:
    """Return status and time of all questions of all users."""
    async with served() as (host, port):
        users = [user(number, host, port, options) for number in range(options.users)]
        return [pair for each in await asyncio.gather(*users) for pair in each]


def main() -> None:
    """Print the percentiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--every-s", type=float, default=5.0)
    parser.add_argument("--for-s", type=float, default=120.0)
    options = parser.parse_args()
    found = asyncio.run(measured(options))
    times = sorted(seconds for _, seconds in found)
    statuses = sorted({status for status, _ in found})
    ranks = {
        share: times[min(int(share * len(times)), len(times) - 1)] for share in (0.5, 0.9, 0.99)
    }
    print(f"{options.users} users, a question every {options.every_s:g} s, {os.cpu_count()} cores")
    print(f"{len(times)} pages, statuses {statuses}")
    print(
        ", ".join(f"p{100 * share:g} {1e3 * value:.0f} ms" for share, value in ranks.items()),
        end="",
    )
    print(f", longest {1e3 * times[-1]:.0f} ms")


if __name__ == "__main__":
    main()
