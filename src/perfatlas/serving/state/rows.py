"""Row types of the state of a simulation, and their codes."""

from __future__ import annotations

from typing import Final

import numpy as np

from perfatlas.compiled import record_type

NEVER: Final = 2**63 - 1
NO_INDEX: Final = -1
LOCAL, HANDED, FETCHED, TRAVELLING = range(4)  # stages of a request between two pools
UP, OUT, DRAINING, OFF, STARTING = range(5)  # states of a replica; only UP accepts requests
REJECTED, LOST = 1, 2  # outcomes of a request that does not finish

REQUEST: Final = np.dtype(
    [
        ("finish", "i8"),  # while decoding: step of its scheduler in which it finishes
        ("order", "i4"),  # order of admission at its scheduler
        ("joined", "i4"),  # beat of its scheduler in which it started to decode
        ("isl", "i4"),
        ("osl", "i4"),
        ("computed", "i4"),  # during prefill: tokens in the KV cache
        ("gave", "i4"),  # tokens produced by its last decode step
        ("placed", "i4"),  # tokens with slots in the KV cache
        ("generated", "i4"),  # while not decoding: output tokens so far
        ("after", "i4"),  # neighbours in the queue or running list
        ("before", "i4"),
        ("heap_slot", "i4"),  # position in its heap
        ("scheduler", "i4"),  # its scheduler
        # first request that waits for it whose prompt starts with prompt and output of this one
        ("next_turn_prefix_owner", "i4"),
        ("growth_after", "i4"),  # neighbours that need blocks in the same steps
        ("growth_before", "i4"),
        ("row", "i4"),  # its row of the block table
        ("registered", "i4"),  # leading blocks in the prefix cache
        ("offloaded", "i4"),  # leading blocks in the tiers below the GPU
    ],
    align=True,
)
TURN: Final = np.dtype(
    [
        ("since", "i8"),  # last end of a request it waits for [ps]
        ("open", "i4"),  # requests it still waits for
        ("session", "i4"),
    ],
    align=True,
)
SESSION: Final = np.dtype(
    [("root", "i8"), ("left", "i8")],  # position of its first request, requests left
    align=True,
)
LOSS: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "gone",  # time of preemption plus one; 0 if not preempted
            "since",  # its last token before that, or the last start of decoding
            "mark",  # its tokens in the KV cache at that time
        )
    ],
    align=True,
)
TRAVEL: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "handed",  # end of its prompt, -1 before
            "arrived",  # arrival of its KV cache at the decode engine, -1 before
            "resumed",  # start of decoding, -1 before
            "stage",
            "tokens",  # tokens to be transferred
            "home",  # its prefill replica, among all
            "scheduler",  # its scheduler there
            "row",  # its blocks there
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
            "again",  # time of its last retry after a failure, -1 before
            "tries",  # number of failures
            "fate",  # REJECTED or LOST, or 0
        )
    ],
    align=True,
)
FAILURE_EVENT: Final = np.dtype([("time", "i8"), ("replica", "i8"), ("what", "i8")], align=True)
SCALER: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "first",  # replicas of its pool
            "end",
            "low",  # replicas
            "queue_only",  # count only waiting requests
            "period",  # sync period [ps]
            "stable",  # stabilization window [ps]
            "start_up",  # start-up time of a replica [ps]
            "due",  # next sync
            "heard",  # syncs so far plus one
        )
    ]
    + [("target", "f8"), ("tolerance", "f8")],  # requests per replica, relative tolerance
    align=True,
)


REPLICA: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "start",  # start of the running steps
            "steps",
            "base",
            "rise",
            "load",
            "sending",  # requests whose prompts it keeps until their KV caches have arrived
            "ready",
            "next_steps",  # number of steps scheduled next
            "next_base",
            "next_rise",
            "decided",  # whether the last running step has started
            "stale",  # whether the queue has changed since
            "extra",  # time that prompts add to the step
            "next_extra",
            "energy_base",  # dynamic energy of the running steps on one GPU per rank [nJ]
            "energy_rise",
            "prompt_time",  # its part of prompts [ps]
            "prompt_energy",
            "wait_base",  # part of a running step without a kernel on its GPUs [ps]
            "wait_rise",
            "prompt_wait",  # its part of prompts [ps]
            "next_energy_base",
            "next_energy_rise",
            "next_prompt_time",
            "next_prompt_energy",
            "next_wait_base",
            "next_wait_rise",
            "next_prompt_wait",
            "busy",  # total time of steps [ps]
            "prompts",  # its part of prompts [ps]
            "waits",  # its part without a kernel [ps]
            "prompt_waits",  # the part of these that prompts add [ps]
            "done",  # total steps
            "status",  # UP, OUT, ...
            "era",  # number of resets in the router's prefix tree
            "doomed",  # whether it is lost at the end of the running steps
            "back",  # when it serves again
            "up_at",  # while starting: when it serves
            "allocated",  # time in which it served, started or drained [ps]
            "holds",  # whether its prompts wait for those of other ranks
            "prompted",  # step in which they last ran
            "unsent",  # backlog of its front end at the end of a step [ps]
            "sent",  # time of that end
            "late",  # delay of the tokens of that step at the client [ps]
            "slot",  # with pipeline stages: the batch in flight that was scheduled last
        )
    ]
    + [("spent", "f8"), ("spent_on_prompts", "f8")],  # total dynamic energy [nJ]
    align=True,
)
BLOCK: Final = np.dtype(
    [
        ("key", "i8"),  # its hash, if any
        ("hashed", "i4"),
        ("references", "i4"),  # requests that reference it
        ("after", "i4"),  # neighbours in the free queue
        ("before", "i4"),
        ("chain_after", "i4"),  # neighbours in its bucket of the hash table
        ("chain_before", "i4"),
    ],
    align=True,
)
TIER_BLOCK: Final = np.dtype(  # a block in a tier below the GPU
    [
        ("key", "i8"),
        ("after", "i4"),  # neighbours in the LRU list, least recently used first
        ("before", "i4"),
        ("chain_after", "i4"),  # neighbours in its bucket of the hash table
        ("chain_before", "i4"),
    ],
    align=True,
)
TIER: Final = np.dtype(  # a tier below the GPU of one scheduler, or one that all share
    [
        (name, "i8")
        for name in (
            "first",  # its first block among those of all tiers
            "capacity",  # most blocks
            "bucket",  # first bucket of its hash table, of which there are `mask` + 1
            "mask",
            "blocks",
            "oldest",
            "newest",
            "entered",
            "left",
            "loaded",
            "stored",
            "free_at",  # end of the last load over its shared link [ps]
        )
    ],
    align=True,
)
LOADED: Final = np.dtype(  # per request: tokens by tier, and the time of its copies [ps]
    [(name, "i8") for name in ("host", "ssd", "remote", "moved")], align=True
)
# requests that wait at the router for a pool, and the first and last of them
DOOR: Final = np.dtype([(name, "i8") for name in ("waiting", "head", "tail")], align=True)
ENDS: Final = np.dtype([("head", "i4"), ("tail", "i4")], align=True)
CLOCK: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "now",
            "next",  # next request to issue, or next session of a closed loop
            "coming",  # size of the heap of scheduled arrivals
            "left",  # requests neither finished nor rejected
            "steps",
            "preemptions",
            "turn",  # turn of round robin and ties
            "decode_turn",  # the same among decode engines
            "asked",  # request whose replica the caller's function chooses, plus one
            "chosen",  # that replica, negative to reject the request
            "reader",  # the same among front ends
            "ready",  # replicas that may start a step
            "rows",  # rows of the series
            "pause",  # interval of the series [ps]
            "due",  # time of the next row
            "gap",  # histogram bin of the last token gap
            "late",  # whether the simulation exceeded its clock
            "strike",  # next failure or recovery of a replica
            "counted",  # time up to which replica times are counted
            "wasted",  # output tokens lost in replica failures
        )
    ],
    align=True,
)


class SchedulerState:
    """The state of a scheduler: of an engine, or of an attention-data-parallel rank of it."""

    step: int  # steps since the start
    free: int  # blocks
    waiting: int
    waiting_head: int
    waiting_tail: int
    running: int
    elsewhere: int  # with pipeline stages: those in other batches in flight
    running_tail: int
    admitted: int  # total
    partial: int  # request with a partially computed prompt
    decoding: int  # sequences past their prompts
    context: int  # their tokens in the KV cache
    heap: int  # size of the finish heap
    fresh: int  # this step: prompts that end in it
    chunks: int  # this step: prompt chunks
    tokens: int  # this step: tokens of the chunks
    attention: int  # this step: marginal time of the chunks [ps]
    last: int  # this step: further time of the last chunk [ps]
    attention_energy: int  # this step: energy of the chunks [nJ]
    last_energy: int  # this step: further energy of the last chunk [nJ]
    preempted: int  # this step: preempted sequences
    unnamed_head: int  # free blocks to be reused first
    touched: int  # blocks that were allocated at least once: the others follow
    free_head: int  # then these, in order of reuse
    free_tail: int
    spare_rows: int  # unused rows of the block table
    spare: int  # free blocks that are not reserved, if blocks are reserved
    decodes: int  # this step: decoding sequences
    keyed: int  # this step: decode attention [ps]
    cell: int  # this step: cell of its mean context in the price table
    learning: int  # sequences in prefill
    leaving: int  # sequences that get their last token in the running step
    beat: int  # batches of steps so far
    ran: int  # last batch: decoding sequences
    prefilled: int  # last batch: prompt chunks, as scheduled
    full: int  # no admission until a sequence leaves the batch
    ended: int  # finished sequences still in the batch
    decays: int  # steps since the ratio was set
    unread: int  # arrived requests not yet received
    unread_head: int
    unread_tail: int
    read: int  # step after which requests were last received
    batch_waits: int  # steps that prompts have waited for more prompts
    start: int  # start of the step being scheduled
    delay: int  # total time added by prompts
    last_end: int  # end of the last step with decodes
    paused: int  # whether prompts ran without decodes since then
    arrived: int  # requests with arrived KV caches, and the first and last of them
    arrived_head: int
    arrived_tail: int
    away: int  # requests with blocks allocated for transfers, including these
    joiners: int  # this step: sequences that join from them
    ready: int  # those that wait only for a slot
    ready_head: int
    ready_tail: int
    retracted: int  # requests whose KV caches are in host memory until they fit again
    retracted_head: int
    retracted_tail: int
    moving: int  # this step: time waiting for tiers below the GPU [ps]
    ratio: float  # new-token ratio


SCHEDULER: Final = record_type(SchedulerState)
