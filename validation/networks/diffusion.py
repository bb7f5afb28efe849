"""Diffusion pipelines of the catalog: text encoders, the denoiser in each step, and the decoder.

Guidance without distillation denoises two items per image: with the prompt and without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

GUIDED: Final = "2 * batch"
SCHEDULER: Final = "the scheduler, the safety checker and the host's work on images are left out"
PARTS: Final = ("hidden_states", "encoder_hidden_states", "timestep")
LATENT: Final = "image_size // 8"
# What pipelines of diffusers check: pixels of a latent position, of a patch of 2 x 2, and of
# videos 4 frames after the first one.
LATENT_PIXELS: Final = {"multiple_of": 8}
PATCH: Final = {"multiple_of": 16}
VIDEO_LIMITS: Final = {
    "frames": {"multiple_of": 4, "plus": 1},
    **dict.fromkeys(("height", "width"), PATCH),
}


def _items(*names: str, **more: Mapping[int, str]) -> dict[str, Mapping[int, str]]:
    return {**{name: {0: BATCH} for name in names}, **more}


def _clip(batch: str) -> Part:
    build = hugging_face(
        "CLIPTextModel",
        "CLIPTextConfig",
        lambda: {"input_ids": tokens(2, 77)},
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=12,
        num_attention_heads=12,
    )
    return Part(build=build, sizes=_items("input_ids"), batch=batch)


def _clip_g(batch: str) -> Part:
    build = hugging_face(
        "CLIPTextModelWithProjection",
        "CLIPTextConfig",
        lambda: {"input_ids": tokens(2, 77)},
        hidden_size=1280,
        intermediate_size=5120,
        num_hidden_layers=32,
        num_attention_heads=20,
        projection_dim=1280,
        hidden_act="gelu",
    )
    return Part(build=build, sizes=_items("input_ids"), batch=batch)


def _t5_xxl(batch: str, length: int, kind: str = "T5", vocabulary: int = 32128) -> Part:
    build = hugging_face(
        f"{kind}EncoderModel",
        f"{kind}Config",
        lambda: {"input_ids": tokens(2, length)},
        d_model=4096,
        d_ff=10240,
        d_kv=64,
        num_layers=24,
        num_heads=64,
        feed_forward_proj="gated-gelu",
        vocab_size=vocabulary,
    )
    return Part(build=build, sizes=_items("input_ids"), batch=batch)


def _decoder(latent_channels: int) -> Part:
    """Return the decoder of images of Stable Diffusion and FLUX."""

    def build() -> Built:
        import diffusers

        whole = diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            latent_channels=latent_channels,
        )
        latents = values(2, latent_channels, 128, 128)
        return module(lambda decoder, x: decoder(x), whole.decoder), (latents,)

    return Part(build=build, sizes={"x": {0: BATCH, 2: LATENT, 3: LATENT}})


def _image_row(source: str, steps: int, limit: Mapping[str, int], *parts: Part) -> Row:
    """Return a pipeline of images, whose size has the limits that the pipeline checks."""
    return Row(
        item="image",
        source=source,
        parts=parts,
        sizes={"image_size": 1024, "steps": steps},
        limits={"image_size": limit},
        notes=(SCHEDULER,),
    )


def _unet() -> dict[str, Any]:
    return {
        "sample": values(2, 4, 128, 128),
        "timestep": values(2),
        "encoder_hidden_states": values(2, 77, 2048),
        "added_cond_kwargs": {"text_embeds": values(2, 1280), "time_ids": values(2, 6)},
    }


SDXL: Final = _image_row(
    "SDXL (arXiv 2307.01952); stabilityai/stable-diffusion-xl-base-1.0",
    50,
    LATENT_PIXELS,
    _clip(GUIDED),
    _clip_g(GUIDED),
    Part(
        build=diffuser(
            "UNet2DConditionModel",
            _unet,
            sample_size=128,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            block_out_channels=(320, 640, 1280),
            cross_attention_dim=2048,
            transformer_layers_per_block=(1, 2, 10),
            attention_head_dim=(5, 10, 20),
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=256,
            projection_class_embeddings_input_dim=2816,
        ),
        sizes=_items(
            "timestep",
            "encoder_hidden_states",
            "added_cond_kwargs_text_embeds",
            "added_cond_kwargs_time_ids",
            sample={0: BATCH, 2: LATENT, 3: LATENT},
        ),
        runs="steps",
        batch=GUIDED,
    ),
    _decoder(4),
)

SD3: Final = _image_row(
    "SD3-medium (arXiv 2403.03206); stabilityai/stable-diffusion-3-medium",
    28,
    {**PATCH, "most": 3072},
    _clip(GUIDED),
    _clip_g(GUIDED),
    _t5_xxl(GUIDED, 256),
    Part(
        build=diffuser(
            "SD3Transformer2DModel",
            lambda: {
                "hidden_states": values(2, 16, 128, 128),
                "encoder_hidden_states": values(2, 333, 4096),
                "pooled_projections": values(2, 2048),
                "timestep": values(2),
            },
            sample_size=128,
            num_layers=24,
            num_attention_heads=24,
            caption_projection_dim=1536,
            pos_embed_max_size=192,
        ),
        sizes=_items(
            *("encoder_hidden_states", "pooled_projections", "timestep"),
            hidden_states={0: BATCH, 2: LATENT, 3: LATENT},
        ),
        runs="steps",
        batch=GUIDED,
    ),
    _decoder(16),
)

FLUX: Final = _image_row(
    "FLUX.1-dev (black-forest-labs/FLUX.1-dev), guidance distilled",
    28,
    PATCH,
    _clip(BATCH),
    _t5_xxl(BATCH, 512),
    Part(
        build=diffuser(
            "FluxTransformer2DModel",
            lambda: {
                "hidden_states": values(2, 4096, 64),
                "encoder_hidden_states": values(2, 512, 4096),
                "pooled_projections": values(2, 768),
                "timestep": values(2),
                "img_ids": values(4096, 3),
                "txt_ids": values(512, 3),
                "guidance": values(2),
            },
            guidance_embeds=True,
        ),
        sizes=_items(
            *("encoder_hidden_states", "pooled_projections", "timestep", "guidance"),
            hidden_states={0: BATCH, 1: "((image_size // 16) ** 2)"},
            img_ids={0: "((image_size // 16) ** 2)"},
        ),
        runs="steps",
    ),
    _decoder(16),
)

PIXART: Final = _image_row(
    "PixArt-Sigma (arXiv 2403.04692); PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
    20,
    PATCH,
    _t5_xxl(GUIDED, 300),
    Part(
        build=diffuser(
            "PixArtTransformer2DModel",
            lambda: {
                "hidden_states": values(2, 4, 128, 128),
                "encoder_hidden_states": values(2, 300, 4096),
                "timestep": values(2),
                "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
                "encoder_attention_mask": values(2, 300),
            },
            sample_size=128,
            cross_attention_dim=1152,
            caption_channels=4096,
            out_channels=8,
            use_additional_conditions=False,
        ),
        sizes=_items(
            *("encoder_hidden_states", "timestep", "encoder_attention_mask"),
            hidden_states={0: BATCH, 2: LATENT, 3: LATENT},
        ),
        runs="steps",
        batch=GUIDED,
    ),
    _decoder(4),
)

VIDEO_SIZES: Final = {2: "((frames + 3) // 4)", 3: "height // 8", 4: "width // 8"}


def _wan_frames() -> list[Callable[[], Built]]:
    """Return the decoder of videos for its first latent frame, and for each later one."""

    def built(*, later: bool) -> Built:
        import diffusers

        whole = diffusers.AutoencoderKLWan()
        latents = values(1, 16, 1, 60, 104)
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


def _wan(name: str, heads: int, inner: int, layers: int) -> Row:
    denoiser = Part(
        build=diffuser(
            "WanTransformer3DModel",
            lambda: {
                "hidden_states": values(2, 16, 21, 60, 104),
                "timestep": values(2),
                "encoder_hidden_states": values(2, 512, 4096),
            },
            num_attention_heads=heads,
            ffn_dim=inner,
            num_layers=layers,
        ),
        sizes=_items(
            *("timestep", "encoder_hidden_states"),
            hidden_states={0: BATCH, **VIDEO_SIZES},
        ),
        runs="steps",
        batch=GUIDED,
    )
    first, later = _wan_frames()
    return Row(
        item="video",
        source=f"Wan2.1 (arXiv 2503.20314); Wan-AI/{name}",
        parts=(
            _t5_xxl(GUIDED, 512, "UMT5", 256384),
            denoiser,
            Part(build=first, sizes={}, batch="1", runs=BATCH),
            Part(
                build=later,
                sizes={},
                batch="1",
                runs="batch * ((frames - 1) // 4)",
                stored=False,
            ),
        ),
        sizes={"frames": 81, "height": 480, "width": 832, "steps": 50},
        limits=VIDEO_LIMITS,
        notes=(SCHEDULER, "the decoder is that of 480 x 832, whatever the size"),
    )


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
        Part(build=lambda: build(2), sizes={}, batch="1", runs=f"{later} * batch", stored=False),
    )


COGVIDEOX_2B: Final = Row(
    item="video of 49 frames of 480 x 720",
    source="CogVideoX (arXiv 2408.06072); zai-org/CogVideoX-2b",
    parts=(
        _t5_xxl(GUIDED, 226),
        Part(
            build=diffuser(
                "CogVideoXTransformer3DModel",
                lambda: {
                    "hidden_states": values(2, 13, 16, 60, 90),
                    "encoder_hidden_states": values(2, 226, 4096),
                    "timestep": values(2),
                },
            ),
            sizes=_items(*PARTS),
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
        _t5_xxl(GUIDED, 226),
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
            sizes=_items(*PARTS),
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
            sizes=_items("input_ids"),
        ),
        _clip(BATCH),
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
            sizes=_items(
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
    "sdxl": SDXL,
    "sd3-medium": SD3,
    "flux.1-dev": FLUX,
    "pixart-sigma": PIXART,
    "wan2.1-t2v-1.3b": _wan("Wan2.1-T2V-1.3B", 12, 8960, 30),
    "wan2.1-t2v-14b": _wan("Wan2.1-T2V-14B", 40, 13824, 40),
    "hunyuanvideo": HUNYUAN,
    "cogvideox-2b": COGVIDEOX_2B,
    "cogvideox1.5-5b": COGVIDEOX_5B,
}
