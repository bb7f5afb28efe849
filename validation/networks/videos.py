"""Diffusion pipelines of videos, whose decoders run several times for a video."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from validation.networks.diffusion import GUIDED, PATCH, SCHEDULER, clip, sizes_of, t5
from validation.networks.parts import (
    BATCH,
    Part,
    Row,
    diffuser,
    hugging_face,
    module,
    tokens,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from validation.networks.parts import Built, Module, Tensor

PARTS: Final = ("hidden_states", "encoder_hidden_states", "timestep")
# What pipelines of diffusers check: frames are 4 after the first one.
VIDEO_LIMITS: Final = {
    "frames": {"multiple_of": 4, "plus": 1},
    **dict.fromkeys(("height", "width"), PATCH),
}
VIDEO_SIZES: Final = {2: "((frames + 3) // 4)", 3: "height // 8", 4: "width // 8"}


def _wan_frames(latent: tuple[int, ...], **sizes: object) -> list[Callable[[], Built]]:
    """Return the decoder of videos for its first latent frame, and for each later one."""

    def built(*, later: bool) -> Built:
        import diffusers

        whole = diffusers.AutoencoderKLWan(**sizes)
        channels, height, width = latent
        latents = values(1, channels, 1, height, width)
        whole.clear_cache()
        decoder, cache = whole.decoder, vars(whole)["_feat_map"]
        if later:  # the second frame replaces marks of the first one by what it keeps
            for number in range(2):
                decoder(latents, feat_cache=cache, feat_idx=[0], first_chunk=number == 0)

        def forward(one: Module, x: Tensor) -> Tensor:
            kept = list(cache)
            return one(x, feat_cache=kept, feat_idx=[0], first_chunk=not later)

        return module(forward, decoder), (latents,)

    return [lambda: built(later=False), lambda: built(later=True)]


def _with_times_of_tokens(build: Callable[[], Built]) -> Callable[[], Built]:
    """Return what builds a denoiser of videos that embeds a time step for each token."""

    def built() -> Built:
        denoiser, inputs = build()
        run = denoiser.forward

        def forward(
            hidden_states: Tensor, timestep: Tensor, encoder_hidden_states: Tensor
        ) -> Tensor:
            _, _, frames, height, width = hidden_states.shape
            of_tokens = timestep[:, None].expand(-1, frames * (height // 2) * (width // 2))
            return run(hidden_states, of_tokens, encoder_hidden_states)

        denoiser.forward = forward
        return denoiser, inputs

    return built


def _wan(
    source: str,
    denoiser: tuple[int, int, int],
    sizes: Mapping[str, int],
    *,
    experts: int = 1,
    latent: tuple[int, int, int] = (16, 60, 104),
    pixels: int = 8,
    **decoder: object,
) -> Row:
    """Return a pipeline of Wan.

    Args:
        source: Where it is published.
        denoiser: Its heads, width of feed-forward layers, and layers.
        sizes: Default sizes.
        experts: Denoisers that are stored, of which one runs in each step.
        latent: Channels, height and width of the latents that are decoded.
        pixels: Pixels of a latent position in each direction.
        decoder: Sizes of the autoencoder.
    """
    heads, inner, layers = denoiser
    channels, height, width = latent
    video_sizes = {**VIDEO_SIZES, 3: f"height // {pixels}", 4: f"width // {pixels}"}
    build = diffuser(
        "WanTransformer3DModel",
        lambda: {
            "hidden_states": values(2, channels, 21, height, width),
            "timestep": values(2),
            "encoder_hidden_states": values(2, 512, 4096),
        },
        num_attention_heads=heads,
        ffn_dim=inner,
        num_layers=layers,
        in_channels=channels,
        out_channels=channels,
    )
    first, later = _wan_frames(latent, **decoder)
    return Row(
        item="video",
        source=source,
        parts=(
            t5(4096, GUIDED, 512, "UMT5", 256384),
            Part(
                build=_with_times_of_tokens(build) if decoder else build,
                sizes=sizes_of(
                    *("timestep", "encoder_hidden_states"),
                    hidden_states={0: BATCH, **video_sizes},
                ),
                runs="steps",
                batch=GUIDED,
                stored=experts,
            ),
            Part(build=first, sizes={}, batch="1", runs=BATCH),
            Part(
                build=later,
                sizes={},
                batch="1",
                runs="batch * ((frames - 1) // 4)",
                stored=0,
            ),
        ),
        sizes={**sizes},
        limits={
            **VIDEO_LIMITS,
            **{name: {"multiple_of": 2 * pixels} for name in ("height", "width")},
        },
        notes=(
            SCHEDULER,
            f"the decoder is that of {pixels * height} x {pixels * width}, whatever the size",
        ),
    )


WAN_SIZES: Final = {"frames": 81, "height": 480, "width": 832, "steps": 50}
WAN_14B: Final = (40, 13824, 40)
WAN_PAPER: Final = "(arXiv 2503.20314); Wan-AI"


def _cogvideox_decoder(height: int, width: int, later: int) -> tuple[Part, ...]:
    """Return the decoder for its first three latent frames, and for pairs of later ones."""

    def build(frames: int) -> Built:
        import diffusers

        whole = diffusers.AutoencoderKLCogVideoX(
            down_block_types=("CogVideoXDownBlock3D",) * 4,
            up_block_types=("CogVideoXUpBlock3D",) * 4,
        )
        latents = values(1, 16, frames, height, width)
        return module(lambda decoder, x: decoder(x)[0], whole.decoder), (latents,)

    return (
        Part(build=lambda: build(3), sizes={}, batch="1", runs=BATCH),
        Part(build=lambda: build(2), sizes={}, batch="1", runs=f"{later} * batch", stored=0),
    )


COGVIDEOX_2B: Final = Row(
    item="video of 49 frames of 480 x 720",
    source="CogVideoX (arXiv 2408.06072); zai-org/CogVideoX-2b",
    parts=(
        t5(4096, GUIDED, 226),
        Part(
            build=diffuser(
                "CogVideoXTransformer3DModel",
                lambda: {
                    "hidden_states": values(2, 13, 16, 60, 90),
                    "encoder_hidden_states": values(2, 226, 4096),
                    "timestep": values(2),
                },
            ),
            sizes=sizes_of(*PARTS),
            runs="steps",
            batch=GUIDED,
        ),
        *_cogvideox_decoder(60, 90, 5),
    ),
    sizes={"steps": 50},
    notes=(SCHEDULER,),
)

COGVIDEOX_5B: Final = Row(
    item="video of 81 frames of 768 x 1360",
    source="CogVideoX1.5 (arXiv 2408.06072); zai-org/CogVideoX1.5-5B",
    parts=(
        t5(4096, GUIDED, 226),
        Part(
            build=diffuser(
                "CogVideoXTransformer3DModel",
                lambda: {
                    "hidden_states": values(2, 22, 16, 96, 170),
                    "encoder_hidden_states": values(2, 226, 4096),
                    "timestep": values(2),
                    "image_rotary_emb": (values(44880, 64), values(44880, 64)),
                },
                num_attention_heads=48,
                num_layers=42,
                patch_size_t=2,
                sample_width=300,
                sample_height=300,
                sample_frames=81,
                use_rotary_positional_embeddings=True,
            ),
            sizes=sizes_of(*PARTS),
            runs="steps",
            batch=GUIDED,
        ),
        *_cogvideox_decoder(96, 170, 9),
    ),
    sizes={"steps": 50},
    notes=(SCHEDULER,),
)


def _hunyuan_decoder() -> Built:
    import diffusers

    whole = diffusers.AutoencoderKLHunyuanVideo()
    return module(lambda decoder, x: decoder(x), whole.decoder), (values(1, 16, 5, 32, 32),)


HUNYUAN: Final = Row(
    item="video",
    source="HunyuanVideo (arXiv 2412.03603); tencent/HunyuanVideo, guidance distilled",
    parts=(
        Part(
            build=hugging_face(
                "LlamaModel",
                "LlamaConfig",
                lambda: {"input_ids": tokens(2, 351)},
                hidden_size=4096,
                intermediate_size=14336,
                num_hidden_layers=32,
                num_attention_heads=32,
                num_key_value_heads=8,
                vocab_size=128320,
                use_cache=False,
            ),
            sizes=sizes_of("input_ids"),
        ),
        clip(BATCH),
        Part(
            build=diffuser(
                "HunyuanVideoTransformer3DModel",
                lambda: {
                    "hidden_states": values(2, 16, 33, 90, 160),
                    "timestep": values(2),
                    "encoder_hidden_states": values(2, 256, 4096),
                    "encoder_attention_mask": values(2, 256),
                    "pooled_projections": values(2, 768),
                    "guidance": values(2),
                },
                guidance_embeds=True,
            ),
            sizes=sizes_of(
                *("timestep", "encoder_hidden_states", "encoder_attention_mask"),
                *("pooled_projections", "guidance"),
                hidden_states={0: BATCH, **VIDEO_SIZES},
            ),
            runs="steps",
        ),
        Part(
            build=_hunyuan_decoder,
            sizes={},
            batch="1",
            runs="batch * ((height + 191) // 192) * ((width + 191) // 192) * ((frames + 11) // 12)",
        ),
    ),
    sizes={"frames": 129, "height": 720, "width": 1280, "steps": 50},
    limits=VIDEO_LIMITS,
    notes=(
        SCHEDULER,
        "the decoder runs in tiles of 17 frames of 256 x 256, of which 12 of 192 x 192 are new",
    ),
)

ROWS: Final[Mapping[str, Row]] = {
    "wan2.1-t2v-1.3b": _wan(f"Wan2.1 {WAN_PAPER}/Wan2.1-T2V-1.3B", (12, 8960, 30), WAN_SIZES),
    "wan2.1-t2v-14b": _wan(f"Wan2.1 {WAN_PAPER}/Wan2.1-T2V-14B", WAN_14B, WAN_SIZES),
    "wan2.2-t2v-a14b": _wan(
        f"Wan2.2 {WAN_PAPER}/Wan2.2-T2V-A14B, one of two denoisers by noise level",
        WAN_14B,
        {"frames": 81, "height": 720, "width": 1280, "steps": 40},
        experts=2,
        latent=(16, 90, 160),
    ),
    "wan2.2-ti2v-5b": _wan(
        f"Wan2.2 {WAN_PAPER}/Wan2.2-TI2V-5B",
        (24, 14336, 30),
        {"frames": 121, "height": 704, "width": 1280, "steps": 50},
        latent=(48, 44, 80),
        pixels=16,
        base_dim=160,
        decoder_base_dim=256,
        z_dim=48,
        is_residual=True,
        in_channels=12,
        out_channels=12,
        patch_size=2,
        scale_factor_spatial=16,
    ),
    "hunyuanvideo": HUNYUAN,
    "cogvideox-2b": COGVIDEOX_2B,
    "cogvideox1.5-5b": COGVIDEOX_5B,
}
