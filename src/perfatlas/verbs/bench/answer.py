"""The answers of `perfatlas bench` in Python."""

from __future__ import annotations

from perfatlas.commands.output import answer_function
from perfatlas.verbs.bench.run import compare, device, run

bench_compare = answer_function(compare, "bench compare")
bench_device = answer_function(device, "bench device")
bench_run = answer_function(run, "bench run")
