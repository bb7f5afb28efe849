"""Parts of the time of a request."""

from __future__ import annotations

from typing import Final

# parts of the time of a request, in chronological order
SPENT: Final = {
    "http": "HTTP",
    "tokenize": "tokenization (incl. queueing)",
    "stream": "output streaming (incl. queueing)",
    "queue": "queue",
    "prompt": "own prefill",
    "shared": "batched steps",
    "decode": "own decode",
    "interference": "prefill interference",
    "preemption": "preemption",
    "transfer": "KV cache transfer",
    "join": "joining the decode batch",
    "failure": "failed attempts",
    "load": "KV cache offload transfers",
}
TO_FIRST_TOKEN: Final = {
    name: label
    for name, label in SPENT.items()
    if name not in ("decode", "interference", "preemption")
}
