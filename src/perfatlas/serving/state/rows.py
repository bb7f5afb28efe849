"""Rows of the state of a simulation: their types, and the values of their codes."""

from __future__ import annotations

from typing import Final

import numpy as np

NEVER: Final = 2**63 - 1
NOBODY: Final = -1
LOCAL, HANDED, FETCHED, TRAVELLING = range(4)  # stages of a request between two pools
UP, OUT, DRAINING, OFF, STARTING = range(5)  # states of a replica; in UP alone it takes requests
REJECTED, LOST = 1, 2  # fates of a request that does not end

REQUEST: Final = np.dtype(
    [
        ("finish", "i8"),  # step of its scheduler at whose end it finishes, while it decodes
        ("order", "i4"),  # of admission at its scheduler
        ("joined", "i4"),  # beat of its scheduler in which it began to decode
        ("isl", "i4"),
        ("osl", "i4"),
        ("computed", "i4"),  # tokens in the cache, while its prompt runs
        ("gave", "i4"),  # tokens its last decode step gave
        ("placed", "i4"),  # tokens that have a place there
        ("generated", "i4"),  # output tokens so far, while it does not decode
        ("after", "i4"),  # neighbours in the queue or among the running
        ("before", "i4"),
        ("place", "i4"),  # in its heap
        ("lane", "i4"),  # its scheduler
        ("next_turn", "i4"),  # request that follows its last token
        ("heir", "i4"),  # that, where its prompt begins with prompt and output of this
        ("growth_after", "i4"),  # neighbours that need blocks in the same steps
        ("growth_before", "i4"),
        ("row", "i4"),  # of the table of blocks
        ("registered", "i4"),  # leading blocks whose hash is known
        ("kept", "i4"),  # leading blocks found in the tiers below or written to them
    ],
    align=True,
)
LOSS: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "gone",  # since when a request is thrown out, and one more; 0 where it is not
            "since",  # its last token before that, or when it last began to decode
            "mark",  # its tokens in the cache then
        )
    ],
    align=True,
)
TRAVEL: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "handed",  # when its prompt had ended,
            "arrived",  # its cache was at the decode engine,
            "resumed",  # and it decoded; -1 before
            "stage",
            "tokens",  # to be fetched
            "home",  # its prefill replica, among all,
            "lane",  # its scheduler there,
            "row",  # and what it holds there
            "placed",
            "registered",
            "replica",  # its decode replica, among all
        )
    ],
    align=True,
)
FAULT: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "again",  # when it arrived again, its replica having failed; -1 before
            "tries",  # how often that failed
            "fate",  # REJECTED or LOST, or 0
        )
    ],
    align=True,
)
STRIKE: Final = np.dtype([("time", "i8"), ("replica", "i8"), ("what", "i8")], align=True)
SCALER: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "low",  # replicas
            "queue_only",  # those that run do not count
            "period",  # between two looks [ps]
            "stable",  # how long the most of what was wanted holds [ps]
            "start_up",  # of a replica [ps]
            "due",  # the next look
            "heard",  # looks so far, and one before them
        )
    ]
    + [("target", "f8"), ("tolerance", "f8")],  # requests of a replica, and share of them
    align=True,
)
LANE: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "step",  # steps since the start
            "free",  # blocks
            "waiting",
            "waiting_head",
            "waiting_tail",
            "running",
            "running_tail",
            "admitted",  # since the start
            "partial",  # request with part of its prompt computed
            "decoding",  # sequences past their prompts
            "context",  # their tokens in the cache
            "heap",  # members of the finish heap
            "fresh",  # of this step: prompts that end in it,
            "chunks",  # pieces of prompts,
            "tokens",  # tokens of those,
            "attention",  # what they add to each other [ps],
            "last",  # what the one to end last takes beyond that [ps],
            "preempted",  # and sequences thrown out
            "free_head",  # blocks in order of their reuse
            "free_tail",
            "spare_rows",  # of the table of blocks
            "spare",  # blocks not promised either, where they are
            "decodes",  # of this step: sequences that decode,
            "keyed",  # their attention [ps]
            "learning",  # sequences whose prompt it computes
            "leaving",  # sequences whose last token the step now running gives
            "beat",  # stretches since the start
            "ran",  # of the last one: sequences that decoded
            "prefilled",  # and pieces of prompts, as decided
            "full",  # nobody is admitted before a sequence has left the batch
            "ended",  # sequences that have ended and not left it
            "decays",  # steps since the ratio was set
            "unread",  # requests that have arrived and are not yet read,
            "unread_head",
            "unread_tail",
            "read",  # step after which requests were read last
            "held",  # steps that prompts have waited for more of them
            "start",  # of the step being scheduled
            "delay",  # sum over steps of what they took beyond decoding alone
            "last_end",  # of the last step in which sequences decoded,
            "paused",  # after which prompts ran without them
            "arrived",  # requests whose caches are there, and who comes first and last of them
            "arrived_head",
            "arrived_tail",
            "away",  # requests that hold blocks for caches, these included
            "joiners",  # of this step: sequences from them
            "ready",  # of those that hold blocks: they wait for a slot alone
            "ready_head",
            "ready_tail",
            "retracted",  # requests whose caches are kept elsewhere until they fit again
            "retracted_head",
            "retracted_tail",
            "moving",  # of this step: what it waits for tiers below the GPU [ps]
        )
    ]
    + [("ratio", "f8")],  # of outputs that are expected
    align=True,
)
REPLICA: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "start",  # of the steps that run,
            "steps",
            "base",
            "rise",
            "load",
            "ready",
            "next_steps",  # those scheduled to follow them,
            "next_base",
            "next_rise",
            "decided",  # once the last of those that run has begun,
            "stale",  # and whether the queue has changed since
            "extra",  # of a step with prompts: what it takes beyond decoding alone
            "next_extra",
            "busy",  # time that steps have taken [ps],
            "done",  # and how many
            "status",  # UP and so on
            "era",  # how often the router has forgotten what it got
            "doomed",  # it loses what it has when the steps that run end,
            "back",  # and serves again from then on
            "up_at",  # while it starts: when it serves
            "held",  # time in which it served, started or drained [ps]
            "unsent",  # what its front end has to send when a step ends [ps],
            "sent",  # when that was,
            "late",  # and how late a client gets a token of that step [ps]
        )
    ],
    align=True,
)
BLOCK: Final = np.dtype(
    [
        ("key", "i8"),  # its hash, where known
        ("known", "i4"),
        ("references", "i4"),  # requests that hold it
        ("after", "i4"),  # neighbours among the free
        ("before", "i4"),
        ("chain_after", "i4"),  # neighbours in its bucket of the hash table
        ("chain_before", "i4"),
    ],
    align=True,
)
SHELF: Final = np.dtype(  # a block in a tier below the GPU
    [
        ("key", "i8"),
        ("after", "i4"),  # neighbours in order of use, the oldest one first
        ("before", "i4"),
        ("chain_after", "i4"),  # neighbours in its bucket of the hash table
        ("chain_before", "i4"),
    ],
    align=True,
)
STOCK: Final = np.dtype(  # of a tier
    [(name, "i8") for name in ("held", "oldest", "newest", "came", "went", "loaded", "stored")],
    align=True,
)
LOADED: Final = np.dtype(  # of a request: tokens by tier, and the time of its copies [ps]
    [(name, "i8") for name in ("host", "ssd", "moved")], align=True
)
ENDS: Final = np.dtype([("head", "i4"), ("tail", "i4")], align=True)
CLOCK: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "now",
            "next",  # request not yet issued
            "coming",  # members of the heap of arrivals that others caused
            "left",  # requests neither finished nor rejected
            "steps",
            "preemptions",
            "turn",  # of round robin and of equal loads,
            "decode_turn",  # and among decode engines,
            "reader",  # and among front ends that tokenize
            "ready",  # replicas that may begin a step
            "rows",  # of the series
            "pause",  # between two of them [ps]
            "due",  # time of the next
            "gap",  # place of the last gap between tokens among the borders
            "late",  # the simulation outran its clock
            "strike",  # next failure or return of a replica
            "counted",  # up to when replicas' times are
            "wasted",  # tokens that failing replicas had given
            "door",  # requests that wait for a replica to serve, first and last of them
            "door_head",
            "door_tail",
        )
    ],
    align=True,
)
