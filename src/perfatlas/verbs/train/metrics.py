"""Metrics that `train` alone answers."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

TRAIN: Final = ("train",)
SEARCH: Final = ("search training",)
TRAINING_VERBS: Final = (*TRAIN, *SEARCH)
RULES: Final = {
    "tp_divides_heads": "attention heads not divisible by tp",
    "tp_divides_kv_heads": "KV heads neither divisible nor replicated by tp",
    "tp_divides_network": "feed-forward width not divisible by tp",
    "batch_divides": "global batch not divisible by dp x micro-batch",
    "cp_divides_sequence": "sequence not divisible by 2 x cp",
    "tp_divides_tokens": "tokens not divisible by tp",
    "stages_within_layers": "more stages than layers",
    "passes_within_limit": "too many passes to schedule",
    "schedule": "sizes that the pipeline schedule refuses",
    "dense_without_ep": "expert parallelism of a dense model",
    "ep_divides_experts": "experts not divisible by ep",
    "expert_tp_divides_expert": "expert width not divisible by expert_tp",
    "experts_divide_ranks": "ranks not divisible by ep x expert_tp",
    "recipe": "sizes that the engine or the recipe refuses",
    "fits_in_memory": "does not fit in memory",
    "max_step_time_s": "slower than max_step_time_s",
    "max_job_power_w": "above max_job_power_w",
}
PARTS: Final = {
    "compute": "kernels",
    "exposed_tp": "tensor parallelism",
    "exposed_cp": "context parallelism",
    "exposed_ep": "expert parallelism",
    "exposed_dp": "data parallelism",
    "exposed_pp": "pipeline transfers",
    "exposed_offload": "offloaded activations",
    "bubble": "pipeline bubble",
    "recompute": "recomputation",
    "optimizer": "optimizer",
    "host": "host",
    "jitter": "waiting for the slowest rank",
    "input": "waiting for the input",
    "smoothing": "power ramps",
}
OF_GRAPHS: Final = PARTS | {"exposed_ep": "exchange of embeddings"}
ENERGY: Final = {
    "products": "matrix products",
    "experts": "experts",
    "attention": "attention",
    "other_kernels": "other kernels",
    "communication": "communication",
    "recompute": "recomputation",
    "optimizer": "optimizer",
    "bubble": "pipeline bubble",
    "waiting": "waiting for host, input, offloads and slowest rank",
    "smoothing": "power smoothing",
}
TRACED: Final = {"trace_duration_s": 60.0, "trace_limit_w": 1e6}
FAILURES: Final = {
    "objective": "effective_step_time_s",
    "node_mtbf_s": 1e6,
    "restart_s": 300.0,
    "checkpoint_write_s": 30.0,
}
METRICS: Final = declare_metrics(
    Metric(
        name="step_time_s",
        label="step time",
        better="lower",
        has_interval=True,
        verbs=TRAINING_VERBS,
        description="Time of a training step, optimizer included.",
    ),
    Metric(
        name="tokens_per_s_per_gpu",
        label="tokens/s per GPU",
        better="higher",
        has_interval=True,
        verbs=TRAINING_VERBS,
        description="Tokens of a step over its time and all GPUs.",
    ),
    Metric(
        name="mfu",
        label="model FLOP utilization (MFU)",
        short="MFU",
        shown="share",
        better="higher",
        has_interval=True,
        verbs=TRAINING_VERBS,
        description="Model FLOP of a step over its time and the dense peak of all GPUs; the answer"
        " names the convention.",
    ),
    Metric(
        name="hfu",
        label="hardware FLOP utilization (HFU)",
        short="HFU",
        shown="share",
        has_interval=True,
        verbs=TRAIN,
        description="As the MFU, with the FLOP of recomputation.",
    ),
    *(
        Metric(
            name=name,
            label=label,
            short=short,
            unit="J",
            shown="scaled",
            better="lower",
            has_interval=True,
            verbs=TRAIN,
            description=description,
        )
        for name, label, short, description in (
            (
                "energy_per_step_j",
                "energy per step",
                "J/step",
                "Energy of the GPU boards of the job in a step.",
            ),
            (
                "energy_per_token_j",
                "energy per token",
                "train J/token",
                "Energy of the GPU boards of the job over the tokens of a step.",
            ),
        )
    ),
    Metric(
        name="energy_parts",
        label="parts of the energy",
        holds="object",
        parts=ENERGY,
        verbs=TRAIN,
        description="Parts of `energy_per_step_j`, which sum to it: dynamic energy of operators and"
        " the power of boards without kernels over their time; a bubble has the latter alone.",
    ),
    Metric(
        name="kernel_clock_ratio",
        label="clock of kernels",
        unit="1",
        verbs=TRAIN,
        description="Clock that the power limit or a lock leaves to kernels over that at which"
        " they were measured, sustained at the TDP.",
    ),
    Metric(
        name="usd_per_million_tokens",
        label="cost per million tokens",
        short="cost/M trained",
        better="lower",
        has_interval=True,
        verbs=TRAIN,
        description="Cost of all GPUs over the tokens of a step.",
    ),
    Metric(
        name="gco2_per_million_tokens",
        label="carbon per million tokens",
        short="gCO2e/M trained",
        better="lower",
        verbs=TRAIN,
        asked_with={"gco2_per_kwh": 400.0},
        description="Carbon of `facility_power_w` over the tokens of a step, in CO2 equivalent.",
    ),
    Metric(
        name="electricity_usd_per_million_tokens",
        label="electricity per million tokens",
        short="kWh cost/M trained",
        better="lower",
        verbs=TRAIN,
        asked_with={"usd_per_kwh": 0.1},
        description="Cost of `facility_power_w` over the tokens of a step.",
    ),
    Metric(
        name="micro_batches",
        label="micro-batches",
        holds="count",
        verbs=TRAIN,
        description="Micro-batches of a pipeline per step.",
    ),
    Metric(
        name="waterfall",
        label="waterfall",
        holds="object",
        parts=PARTS,
        verbs=TRAINING_VERBS,
        description="Parts of the step in seconds, which sum to it, on the rank with most work.",
    ),
    *(
        Metric(
            name=name,
            label=label,
            short=short,
            unit="s",
            shown="scaled",
            better="lower",
            verbs=TRAIN,
            asked_with={"checkpoint_bytes_per_s": 1e11},
            description=description,
        )
        for name, label, short, description in (
            (
                "checkpoint_stall_s",
                "checkpoint stall",
                "stall",
                "Time in which no step runs while a checkpoint is saved.",
            ),
            (
                "checkpoint_save_s",
                "checkpoint save",
                "save",
                "Time from the start of a checkpoint until storage has all of it.",
            ),
            (
                "checkpoint_read_s",
                "checkpoint read",
                "read",
                "Time to read a checkpoint back, on this or on another layout.",
            ),
        )
    ),
    Metric(
        name="power_over_time",
        label="power over time",
        holds="rows",
        verbs=TRAIN,
        asked_with=TRACED,
        description="AC power of the first rack, of the job and, with several jobs, of the site.",
    ),
    *(
        Metric(
            name=f"power_over_time.{name}",
            label=label,
            shown="share" if name.endswith("share") else "",
            has_interval=not name.endswith("share"),
            verbs=TRAIN,
            asked_with=TRACED,
            description=description,
        )
        for name, label, description in (
            ("mean_power_w", "mean power", "Mean over the horizon."),
            ("peak_power_w", "peak power", "Largest sample."),
            ("least_power_w", "least power", "Smallest sample."),
            ("ramp_w_per_s", "largest ramp", "Largest change over `ramp_window_s`, up or down."),
            (
                "critical_band_share",
                "fluctuations at 0.1-20 Hz",
                "Share of the energy of fluctuations in that band; none above samples of 25 ms.",
            ),
            (
                "above_limit_share",
                "time above the limit",
                "Share of the samples of all jobs above `trace_limit_w`.",
            ),
        )
    ),
    *(
        Metric(
            name=name,
            label=label,
            short=short,
            shown="share" if name.endswith("share") else "",
            better="lower",
            verbs=TRAIN,
            asked_with=TRACED | {"power_floor_w": 400.0, "ramp_up_w_per_s": 1e4},
            description=description,
        )
        for name, label, short, description in (
            (
                "smoothing_energy_share",
                "energy of power smoothing",
                "smoothing energy",
                "Energy that the power floor and slow ramps add over that of the boards.",
            ),
            (
                "smoothing_time_share",
                "time of power ramps",
                "time of ramps",
                "Time that limits of ramps add to a step, over the step without them.",
            ),
            (
                "floor_reached_s",
                "time to the power floor",
                "time to the floor",
                "Time from the power without kernels to the power floor.",
            ),
        )
    ),
    Metric(
        name="power_over_time.scale",
        label="scale",
        holds="text",
        verbs=TRAIN,
        asked_with=TRACED,
        description="What draws the power: rack, job or site.",
    ),
    Metric(
        name="memory.gradients_bytes",
        label="gradients",
        better="lower",
        verbs=TRAIN,
        description="Accumulated gradients on the GPU.",
    ),
    Metric(
        name="memory.optimizer_bytes",
        label="optimizer states",
        short="optimizer",
        better="lower",
        verbs=TRAIN,
        description="Master weights and moments of the optimizer on the GPU.",
    ),
    Metric(
        name="layouts",
        label="best layouts",
        short="layouts",
        holds="rows",
        description="The best layouts, best first, each with different parallel sizes.",
    ),
    Metric(
        name="layouts.goodput",
        label="goodput",
        shown="share",
        better="higher",
        asked_with=FAILURES,
        description="Productive share of the job's time at the best checkpoint interval.",
    ),
    Metric(
        name="layouts.effective_step_time_s",
        label="step time over goodput",
        short="effective",
        better="lower",
        asked_with=FAILURES,
        description="Wall time per step of the whole job: its step time over its goodput.",
    ),
    Metric(
        name="layouts.memory_total_bytes",
        label="memory",
        better="lower",
        description="Memory of the fullest GPU.",
    ),
    Metric(
        name="layouts.memory_capacity_bytes",
        label="memory of a GPU",
        short="capacity",
        description="Memory that a GPU has.",
    ),
    Metric(
        name="layouts.why",
        label="why",
        holds="text",
        description="How the next layout is worse, and the parts of its step that make it so.",
    ),
    Metric(
        name="legal_layouts",
        label="legal layouts",
        holds="count",
        description="Layouts that keep all rules of the model, the batch and the schedule.",
    ),
    Metric(
        name="priced_layouts",
        label="priced layouts",
        holds="count",
        description="Legal layouts that were priced.",
    ),
    Metric(
        name="excluded_layouts",
        label="excluded layouts",
        holds="count",
        description="Legal layouts that were not priced, since a lower bound of the objective is"
        " worse than every layout of the answer.",
    ),
    Metric(
        name="rejected_layouts",
        label="rejected layouts",
        short="refused layouts",
        holds="object",
        parts=RULES,
        description="Layouts that cannot run, by the first rule that refuses them.",
    ),
    verbs=SEARCH,
)
