"""The table of input fields, one annotated row per name."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.vocabulary.fields.accuracy import Quantization, QuantizedFormats
    from perfatlas.vocabulary.fields.clusters import NODE_MTBF, NODE_REPAIR, RESTART, Duration
    from perfatlas.vocabulary.fields.conditions import (
        AllOf, AnyOf, AnySet, Equals, Missing, NotEqual, NotSet, WithMessage, is_set, value_text,
    )
    from perfatlas.vocabulary.fields.goodput import (
        JobFailures, JobOnFleet, MeasuredStep, ResilientJob, SparePool,
    )
    from perfatlas.vocabulary.fields.job_power import ClusterPower, JobPower, SitePowerFields
    from perfatlas.vocabulary.fields.libraries import (
        FftShape, FilterShape, GridShape, GroupByShape, HistogramShape, JoinShape, SolveShape,
        SortShape, SpmvShape, StencilShape, ValueShape,
    )
    from perfatlas.vocabulary.fields.limits import Limits, PromptsFirst, RankBalance
    from perfatlas.vocabulary.fields.name_lists import Names, read_names
    from perfatlas.vocabulary.fields.numbers import MAX_COUNT, MAX_S, Number
    from perfatlas.vocabulary.fields.operators import (
        AttentionKind, AttentionPhase, AttentionShape, AttentionSizes, CollectiveKernels,
        CollectiveRoutes,
        CollectiveShape, ConvShape, DesignedAttention, ElementwiseShape, EmbeddingShape, GemmShape,
        KernelChoice, MeasuredProduct, MoeShape, NormShape, ReducedRows, RowShape, TileChoice,
        TuneBudget, TunedStep,
    )
    from perfatlas.vocabulary.fields.power_traces import PowerTrace
    from perfatlas.vocabulary.fields.prices import (
        PRICE_KINDS, PRICES_BY_SYSTEM, GpuPrices, read_gpu_price,
    )
    from perfatlas.vocabulary.fields.questions import ESTIMATED, SIMULATED, canonical_name
    from perfatlas.vocabulary.fields.replicas import (
        KvOffloading, ReplicaEventFields, ReplicaFields, ReplicaOperation,
    )
    from perfatlas.vocabulary.fields.rows import Catalog, Field, Row, Written, fields_of, group
    from perfatlas.vocabulary.fields.scenario import (
        Batch, CachedPrefix, ClientRounds, FeedForward, Formats, ImageInputs, Lengths, Plan, Pools,
        Serving,
    )
    from perfatlas.vocabulary.fields.schedule import (
        ScheduledFailures, SchedulingPolicy, SubmittedJobs,
    )
    from perfatlas.vocabulary.fields.shared_cluster import SharedCluster
    from perfatlas.vocabulary.fields.signatures import annotation_of, parameter_of
    from perfatlas.vocabulary.fields.subject import (
        ClockChoice, Facility, ModelChoice, PowerLimit, Subject, SystemChoice, TierChoice,
        TrainingPower,
    )
    from perfatlas.vocabulary.fields.traffic import (
        MAX_GENERATED_REQUESTS, TOKENS, Arrivals, File, Objectives, Scheduling,
    )
    from perfatlas.vocabulary.fields.trained_tokens import TrainedTokens
    from perfatlas.vocabulary.fields.training import (
        TrainingBatch, TrainingEngineChoice, TrainingFormats, TrainingLayout,
    )
    from perfatlas.vocabulary.fields.training_recipe import (
        RECOMPUTE_MODULES, TrainingCheckpoints, TrainingRecipe, UnevenStages,
    )
    from perfatlas.vocabulary.fields.wording import (
        bounds_text, default_text, json_schema, needs_text,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
