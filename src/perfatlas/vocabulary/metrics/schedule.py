"""Metrics of `fleet schedule`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by

SCHEDULE: Final = ("fleet schedule",)
STATES: Final = {
    "pending": "not yet submitted",
    "queued": "in the queue",
    "running": "running",
    "stalled": "stalled",
    "waiting": "waiting for a node",
    "held": "held",
    "completed": "completed",
    "timeout": "killed at their time limit",
    "node_fail": "failed with their node",
    "preempted": "cancelled by preemption",
}

JOBS: Final = reported_by(
    Metric(
        name="jobs",
        label="jobs",
        holds="count",
        description="Number of jobs in the schedule.",
    ),
    Metric(
        name="nodes",
        label="nodes",
        holds="count",
        description="Nodes of the cluster.",
    ),
    Metric(
        name="sustainable_load",
        label="largest sustainable load",
        short="sustainable load",
        shown="share",
        better="higher",
        description="Share of all GPU time that does useful work when the queue is never empty: the"
        " largest load with a steady state.",
    ),
    Metric(
        name="jobs_at_start",
        label="jobs at the start",
        holds="count",
        description="Jobs of the steady state at the start, not counted as submitted jobs.",
    ),
    Metric(
        name="warm_up_jobs",
        label="warm-up jobs",
        holds="count",
        description="First jobs that are warm-up by MSER-5; left out unless num_jobs is set.",
    ),
    Metric(
        name="measured_jobs",
        label="measured jobs",
        holds="count",
        description="Jobs between the warm-up and the last ones, which may not have ended.",
    ),
    Metric(
        name="completed",
        label="jobs completed",
        better="higher",
        holds="count",
        description="Jobs that completed.",
    ),
    Metric(
        name="allocated_share",
        label="allocated GPU time",
        shown="share",
        better="higher",
        description="Share of all GPU time that is allocated to jobs.",
    ),
    Metric(
        name="productive_share",
        label="productive GPU time",
        shown="share",
        better="higher",
        description="Share of all GPU time that is work of completed jobs.",
    ),
    Metric(
        name="under_way_share",
        label="GPU time of unfinished jobs",
        shown="share",
        description="Share of all GPU time that is work of jobs still unfinished at the end.",
    ),
    Metric(
        name="unfinished_share",
        label="GPU time of failed jobs",
        shown="share",
        better="lower",
        description="Share of all GPU time that is work of jobs that ended without completing.",
    ),
    Metric(
        name="wait_s",
        label="queue wait",
        shown="duration",
        better="lower",
        has_interval=True,
        statistics_of=SCHEDULE,
        description="From submission to the first start of a job, or to the end if none.",
    ),
    Metric(
        name="wait_started_s",
        label="queue wait of started jobs",
        shown="duration",
        better="lower",
        statistics_of=SCHEDULE,
        description="Queue wait of jobs that started.",
    ),
    Metric(
        name="slowdown",
        label="slowdown",
        unit="1",
        better="lower",
        statistics_of=SCHEDULE,
        description="Time from submission to end over run time (at least 10 s).",
    ),
    Metric(
        name="never_started",
        label="jobs never started",
        better="lower",
        holds="count",
        description="Jobs that never started.",
    ),
    Metric(
        name="restarts",
        label="job restarts",
        better="lower",
        holds="count",
        description="Number of times a job restarted.",
    ),
    Metric(
        name="load",
        label="offered load",
        shown="share",
        description="Requested GPU time over available GPU time.",
    ),
    Metric(
        name="backfilled",
        label="jobs backfilled",
        holds="count",
        description="Jobs started by backfill.",
    ),
    Metric(
        name="failures",
        label="node failures",
        better="lower",
        holds="count",
        description="Number of node failures.",
    ),
    Metric(
        name="fragmented_share",
        label="idle GPU time lost to fragmentation",
        shown="share",
        better="lower",
        description="Share of GPU time idle although enough GPUs are free for the next job.",
    ),
    Metric(
        name="stranded_share",
        label="idle GPU time on partly used nodes",
        shown="share",
        better="lower",
        description="Share of GPU time idle on partly allocated nodes.",
    ),
    Metric(
        name="single_domain_share",
        label="jobs within one domain",
        short="in one domain",
        shown="share",
        better="higher",
        asked_with={"nodes_per_domain": 2},
        description="Share of started jobs with all their nodes in one domain, or under one leaf"
        " switch where nodes have no domains, at their first start.",
    ),
    Metric(
        name="domains_per_job",
        label="domains per job",
        better="lower",
        asked_with={"nodes_per_domain": 2},
        description="Mean number of domains, or of leaf switches where nodes have no domains, of"
        " a started job.",
    ),
    Metric(
        name="states",
        label="states of jobs",
        holds="object",
        parts=STATES,
        description="Number of jobs by final state.",
    ),
    Metric(
        name="classes",
        label="by job class",
        holds="rows",
        description="The same metrics by job class.",
    ),
    Metric(
        name="classes.kind",
        label="class",
        holds="text",
        description="Name of the class.",
    ),
    Metric(
        name="compared",
        label="comparison",
        holds="rows",
        description="Metrics of each compared policy.",
    ),
    Metric(
        name="compared.name",
        label="policy",
        holds="text",
        description="Description of the change.",
    ),
    Metric(
        name="compared.changes",
        label="changes",
        holds="object",
        description="Changed field and value.",
    ),
    Metric(
        name="rows_read",
        label="rows read",
        holds="count",
        description="Trace rows that were read.",
    ),
    Metric(
        name="rows_ignored",
        label="rows ignored",
        holds="count",
        description="Trace rows that were ignored.",
    ),
    Metric(
        name="trace",
        label="trace",
        holds="object",
        description="Summary of the rows read, and of those ignored by reason.",
    ),
    verbs=SCHEDULE,
)
