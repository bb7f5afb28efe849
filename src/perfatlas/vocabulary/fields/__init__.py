"""The table of input fields, one annotated row per name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.vocabulary.fields.accuracy import (
        Quantization as Quantization,
        QuantizedFormats as QuantizedFormats,
    )
    from perfatlas.vocabulary.fields.clusters import (
        NODE_MTBF as NODE_MTBF,
        NODE_REPAIR as NODE_REPAIR,
        RESTART as RESTART,
        Duration as Duration,
    )
    from perfatlas.vocabulary.fields.conditions import (
        AllOf as AllOf,
        AnyOf as AnyOf,
        AnySet as AnySet,
        Equals as Equals,
        Missing as Missing,
        NotEqual as NotEqual,
        NotSet as NotSet,
        WithMessage as WithMessage,
        is_set as is_set,
        value_text as value_text,
    )
    from perfatlas.vocabulary.fields.goodput import (
        JobFailures as JobFailures,
        JobOnFleet as JobOnFleet,
        MeasuredStep as MeasuredStep,
        ResilientJob as ResilientJob,
        SparePool as SparePool,
    )
    from perfatlas.vocabulary.fields.job_power import (
        ClusterPower as ClusterPower,
        JobPower as JobPower,
    )
    from perfatlas.vocabulary.fields.limits import (
        Limits as Limits,
        PromptsFirst as PromptsFirst,
        RankBalance as RankBalance,
    )
    from perfatlas.vocabulary.fields.name_lists import Names as Names, read_names as read_names
    from perfatlas.vocabulary.fields.numbers import (
        LARGEST_COUNT as LARGEST_COUNT,
        LONGEST_S as LONGEST_S,
        Number as Number,
    )
    from perfatlas.vocabulary.fields.operators import (
        AttentionKind as AttentionKind,
        AttentionPhase as AttentionPhase,
        AttentionShape as AttentionShape,
        AttentionSizes as AttentionSizes,
        CollectiveKernels as CollectiveKernels,
        CollectiveShape as CollectiveShape,
        ConvShape as ConvShape,
        DesignedAttention as DesignedAttention,
        ElementwiseShape as ElementwiseShape,
        EmbeddingShape as EmbeddingShape,
        GemmShape as GemmShape,
        KernelChoice as KernelChoice,
        MeasuredProduct as MeasuredProduct,
        MoeShape as MoeShape,
        NormShape as NormShape,
        RowShape as RowShape,
        TileChoice as TileChoice,
    )
    from perfatlas.vocabulary.fields.prices import (
        PRICE_KINDS as PRICE_KINDS,
        PRICES_BY_SYSTEM as PRICES_BY_SYSTEM,
        GpuPrices as GpuPrices,
        read_gpu_price as read_gpu_price,
    )
    from perfatlas.vocabulary.fields.questions import (
        ESTIMATED as ESTIMATED,
        SIMULATED as SIMULATED,
        canonical_name as canonical_name,
    )
    from perfatlas.vocabulary.fields.replicas import (
        KvOffloading as KvOffloading,
        ReplicaFields as ReplicaFields,
        ReplicaOperation as ReplicaOperation,
    )
    from perfatlas.vocabulary.fields.rows import (
        Catalog as Catalog,
        Field as Field,
        Row as Row,
        Written as Written,
        fields_of as fields_of,
        group as group,
    )
    from perfatlas.vocabulary.fields.scenario import (
        Batch as Batch,
        CachedPrefix as CachedPrefix,
        ClientRounds as ClientRounds,
        FeedForward as FeedForward,
        Formats as Formats,
        ImageInputs as ImageInputs,
        Lengths as Lengths,
        Plan as Plan,
        Pools as Pools,
        Serving as Serving,
    )
    from perfatlas.vocabulary.fields.schedule import (
        ScheduledFailures as ScheduledFailures,
        SchedulingPolicy as SchedulingPolicy,
        SubmittedJobs as SubmittedJobs,
    )
    from perfatlas.vocabulary.fields.shared_cluster import SharedCluster as SharedCluster
    from perfatlas.vocabulary.fields.signatures import (
        annotation_of as annotation_of,
        parameter_of as parameter_of,
    )
    from perfatlas.vocabulary.fields.subject import (
        ClockChoice as ClockChoice,
        Facility as Facility,
        ModelChoice as ModelChoice,
        PowerLimit as PowerLimit,
        Subject as Subject,
        SystemChoice as SystemChoice,
        TierChoice as TierChoice,
        TrainingPower as TrainingPower,
    )
    from perfatlas.vocabulary.fields.traffic import (
        MOST_GENERATED_REQUESTS as MOST_GENERATED_REQUESTS,
        TOKENS as TOKENS,
        Arrivals as Arrivals,
        File as File,
        Objectives as Objectives,
        Scheduling as Scheduling,
    )
    from perfatlas.vocabulary.fields.trained_tokens import TrainedTokens as TrainedTokens
    from perfatlas.vocabulary.fields.training import (
        TrainingBatch as TrainingBatch,
        TrainingEngineChoice as TrainingEngineChoice,
        TrainingFormats as TrainingFormats,
        TrainingLayout as TrainingLayout,
    )
    from perfatlas.vocabulary.fields.training_recipe import (
        RECOMPUTE_MODULES as RECOMPUTE_MODULES,
        TrainingCheckpoints as TrainingCheckpoints,
        TrainingRecipe as TrainingRecipe,
        UnevenStages as UnevenStages,
    )
    from perfatlas.vocabulary.fields.wording import (
        bounds_text as bounds_text,
        default_text as default_text,
        json_schema as json_schema,
        needs_text as needs_text,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
