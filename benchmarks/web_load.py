"""Speed, errors and memory of `perfatlas web`, as a browser, many users and a slider see them.

python benchmarks/web_load.py [--users 50] [--every-s 5] [--for-s 60] [--moves 100] [--events 1000]
starts a server and prints a table; the browser is the system's Chromium, driven by playwright.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import httpx2
import numpy as np

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from playwright.async_api import Page

MODELS: Final = (
    *("openai/gpt-oss-20b", "openai/gpt-oss-120b", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B"),
    *("meta-llama/Llama-3.1-70B", "Qwen/Qwen3-235B-A22B", "deepseek-ai/DeepSeek-V3"),
)
SYSTEMS: Final = ("h100_sxm", "h200_sxm", "b200_sxm", "gb200", "mi300x", "a100_sxm", "l40s")
SLID: Final = {"model": "meta-llama/Llama-3.1-70B", "system": "h200_sxm", "tp": "2", "batch": "32"}
SLIDER: Final = "slider.device.memory.bandwidth"
REDRAW: Final = {"hx-request": "true", "hx-trigger": "sliders"}
ANSWERED: Final = (200, 422)  # with an answer, or with why the question has none
WARM_UP: Final = 200  # events that fill the caches
MOVE: Final = """position => new Promise(done => {
  const slider = document.getElementById("slider-device-memory-bandwidth");
  const began = performance.now();
  document.addEventListener("htmx:afterSwap", function swapped(event) {
    if (event.target.id !== "answer") return;
    document.removeEventListener("htmx:afterSwap", swapped);
    requestAnimationFrame(() => setTimeout(() => done((performance.now() - began) / 1e3)));
  });
  slider.value = position;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
})"""
PAINT: Final = """() => new Promise(done => new PerformanceObserver(list => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (paint) done(paint.startTime / 1e3);
}).observe({type: "paint", buffered: true}))"""


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


async def user(number: int, client: httpx2.AsyncClient, options: argparse.Namespace) -> Times:
    """Return status and time [s] of the pages of a user."""
    draws = np.random.default_rng(number)
    end = time.monotonic() + options.for_s
    await asyncio.sleep(draws.uniform(0.0, options.every_s))
    found = []
    while time.monotonic() < end:
        began = time.monotonic()
        reply = await client.get(f"/estimate?{question(draws)}")
        found.append((reply.status_code, time.monotonic() - began))
        await asyncio.sleep(max(0.0, options.every_s - found[-1][1]))
    return found


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[str, int]]:
    """Start a server; yield its address, and its process once it answers."""
    command = (sys.executable, "-m", "perfatlas", "web", "--port=0")
    server = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        line = await server.stderr.readline() if server.stderr else b""
        yield line.decode().split()[1].rstrip(";"), server.pid
    finally:
        server.terminate()
        await server.wait()


def processes(root: int) -> list[int]:
    """Return a process and all that it started, by number."""
    children = Path(f"/proc/{root}/task/{root}/children").read_text("utf-8").split()
    return [root, *(one for child in children for one in processes(int(child)))]


def memory_bytes(root: int) -> int:
    """Return the memory of a process and its children without files; shared pages count once."""
    texts = [Path(f"/proc/{one}/smaps_rollup").read_text("utf-8") for one in processes(root)]
    return sum(1024 * int(text.split("\nPss_Anon:")[1].split()[0]) for text in texts)


def cpu_s(root: int) -> float:
    """Return the processor time of a process and its children."""
    stats = [Path(f"/proc/{one}/stat").read_text("utf-8") for one in processes(root)]
    ticks = [sum(map(int, stat.rpartition(")")[2].split()[11:13])) for stat in stats]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


async def slide(client: httpx2.AsyncClient, positions: Sequence[float]) -> list[int]:
    """Return the statuses of the answers to moves of a slider."""
    found = []
    for position in positions:
        asked = {**SLID, SLIDER: f"{position:.5f}"}
        reply = await client.get("/estimate", params=asked, headers=REDRAW)
        found.append(reply.status_code)
    return found


async def painted(page: Page, address: str) -> float:
    """Return the time from asking for a page to its first content [s]."""
    await page.goto(address)
    paint: float = await page.evaluate(PAINT)
    return paint


async def browsed(address: str, draws: np.random.Generator, moves: int) -> dict[str, list[float]]:
    """Return the times [s] of first paints, and of redraws after moves of a slider."""
    from playwright.async_api import async_playwright

    async with async_playwright() as program:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        options = {"executable_path": chromium, "args": ["--no-sandbox"]}
        browser = await program.chromium.launch(**options)  # type: ignore[arg-type]
        page = await browser.new_page()
        queries = [urlencode({**SLID, "isl": isl}) for isl in draws.integers(1, 8192, 10).tolist()]
        answers = [await painted(page, f"{address}/estimate?{query}") for query in queries]
        positions = draws.uniform(-1.9, 1.9, moves + 5).tolist()
        redraws = [await page.evaluate(MOVE, position) for position in positions]
        firsts = [await painted(page, address) for _ in range(10)]
        await browser.close()
    return {"first page": firsts, "answer": answers, "redraw": redraws[5:]}


async def measured(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return what was measured, its figures and its goal as rows."""
    draws = np.random.default_rng(1)
    async with served() as (address, server), httpx2.AsyncClient(
        base_url=address, timeout=120.0, limits=httpx2.Limits(max_connections=None)
    ) as client:  # fmt: skip
        await asyncio.gather(*(client.get(f"/estimate?{question(draws)}") for _ in range(8)))
        seen = await browsed(address, draws, options.moves)
        used_s = cpu_s(server)
        pages = [
            pair
            for pairs in await asyncio.gather(
                *(user(number, client, options) for number in range(options.users))
            )
            for pair in pairs
        ]
        per_page = f"{1e3 * (cpu_s(server) - used_s) / len(pages):.0f} CPU-ms each"
        await slide(client, draws.uniform(-1.9, 1.9, WARM_UP).tolist())
        before, used_s = memory_bytes(server), cpu_s(server)
        statuses = await slide(client, draws.uniform(-1.9, 1.9, options.events).tolist())
        after, used_s = memory_bytes(server), cpu_s(server) - used_s
    errors = sum(status not in ANSWERED for status, _ in pages)
    failed = sum(status != 200 for status in statuses)
    per_event = f"{1e3 * used_s / options.events:.0f} CPU-ms each, {failed} errors"
    return [
        ("first paint of the first page", percentiles(seen["first page"]), "0.3 s"),
        ("first paint of an answer", percentiles(seen["answer"]), "0.3 s"),
        (f"redraw, {options.moves} moves of a slider", percentiles(seen["redraw"]), "p95 0.15 s"),
        (f"page, {options.users} users, each every {options.every_s:g} s",
         percentiles([seconds for _, seconds in pages]), ""),
        (f"{len(pages):,} pages of theirs", f"{per_page}, {errors} errors", "0 errors"),
        (f"{options.events:,} moves of a slider", per_event, "0 errors"),
        ("memory of all processes before and after",
         f"{before / 2**20:.0f} and {after / 2**20:.0f} MiB", "equal"),
    ]  # fmt: skip


def percentiles(times_s: Sequence[float]) -> str:
    """Return median, 95th percentile and maximum of times as text."""
    median, high, most = np.percentile(times_s, (50, 95, 100))
    return f"median {median:.3f} s, p95 {high:.3f} s, longest {most:.3f} s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--every-s", type=float, default=5.0)
    parser.add_argument("--for-s", type=float, default=60.0)
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--events", type=int, default=1000)
    rows = asyncio.run(measured(parser.parse_args()))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{os.cpu_count()} cores, load of the last 1, 5 and 15 minutes {load}")
    for what, figures, goal in rows:
        print(f"{what:48} {figures:56} {goal}")


Times = list[tuple[int, float]]

if __name__ == "__main__":
    main()
