"""Diffusion pipelines of the catalog: text encoders, the denoiser in each step, and the decoder.

Guidance without distillation denoises two items per image: with the prompt and without.
"""

from __future__ import annotations

from dataclasses import replace
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


def _clip_h(batch: str) -> Part:
    build = hugging_face(
        "CLIPTextModel",
        "CLIPTextConfig",
        lambda: {"input_ids": tokens(2, 77)},
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=23,
        num_attention_heads=16,
        hidden_act="gelu",
    )
    return Part(build=build, sizes=_items("input_ids"), batch=batch)


def _t5(width: int, batch: str, length: int, kind: str = "T5", vocabulary: int = 32128) -> Part:
    """Return the encoder of T5 v1.1 XL or XXL, or of a multilingual T5 of their sizes."""
    build = hugging_face(
        f"{kind}EncoderModel",
        f"{kind}Config",
        lambda: {"input_ids": tokens(2, length)},
        d_model=width,
        d_ff=width * 5 // 2,
        d_kv=64,
        num_layers=24,
        num_heads=width // 64,
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

SD2: Final = replace(
    _image_row(
        "SD 2.1 (arXiv 2112.10752); stabilityai/stable-diffusion-2-1",
        50,
        LATENT_PIXELS,
        _clip_h(GUIDED),
        Part(
            build=diffuser(
                "UNet2DConditionModel",
                lambda: {
                    "sample": values(2, 4, 96, 96),
                    "timestep": values(2),
                    "encoder_hidden_states": values(2, 77, 1024),
                },
                sample_size=96,
                cross_attention_dim=1024,
                attention_head_dim=(5, 10, 20, 20),
                use_linear_projection=True,
            ),
            sizes=_items(
                *("timestep", "encoder_hidden_states"),
                sample={0: BATCH, 2: LATENT, 3: LATENT},
            ),
            runs="steps",
            batch=GUIDED,
        ),
        _decoder(4),
    ),
    sizes={"image_size": 768, "steps": 50},
)


def _sd3(name: str, steps: int, positions: int, width: int, **more: object) -> Row:
    """Return a pipeline of Stable Diffusion 3 or 3.5, whose heads are as many as its layers."""
    return _image_row(
        f"SD3 (arXiv 2403.03206); stabilityai/{name}",
        steps,
        {**PATCH, "most": 16 * positions},
        _clip(GUIDED),
        _clip_g(GUIDED),
        _t5(4096, GUIDED, 256),
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
                num_layers=width // 64,
                num_attention_heads=width // 64,
                caption_projection_dim=width,
                pos_embed_max_size=positions,
                **more,
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
    _t5(4096, BATCH, 512),
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
    _t5(4096, GUIDED, 300),
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

HUNYUAN_DIT: Final = _image_row(
    "HunyuanDiT (arXiv 2405.08748); Tencent-Hunyuan/HunyuanDiT-v1.2-Diffusers",
    50,
    PATCH,
    Part(
        build=hugging_face(
            "BertModel",
            "BertConfig",
            lambda: {"input_ids": tokens(2, 77), "attention_mask": tokens(2, 77)},
            vocab_size=47020,
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=24,
            num_attention_heads=16,
        ),
        sizes=_items("input_ids", "attention_mask"),
        batch=GUIDED,
    ),
    _t5(2048, GUIDED, 256, "MT5", 250112),
    Part(
        build=diffuser(
            "HunyuanDiT2DModel",
            lambda: {
                "hidden_states": values(2, 4, 128, 128),
                "timestep": values(2),
                "encoder_hidden_states": values(2, 77, 1024),
                "text_embedding_mask": tokens(2, 77),
                "encoder_hidden_states_t5": values(2, 256, 2048),
                "text_embedding_mask_t5": tokens(2, 256),
                "image_rotary_emb": (values(4096, 88), values(4096, 88)),
            },
            in_channels=4,
            patch_size=2,
            sample_size=128,
            hidden_size=1408,
            num_layers=40,
            mlp_ratio=4.3637,
            use_style_cond_and_image_meta_size=False,
        ),
        sizes=_items(
            *("timestep", "encoder_hidden_states", "text_embedding_mask"),
            *("encoder_hidden_states_t5", "text_embedding_mask_t5"),
            hidden_states={0: BATCH, 2: LATENT, 3: LATENT},
            **{f"image_rotary_emb_{one}": {0: "((image_size // 16) ** 2)"} for one in range(2)},
        ),
        runs="steps",
        batch=GUIDED,
    ),
    _decoder(4),
)


def _sana_text(length: int) -> Part:
    build = hugging_face(
        "Gemma2Model",
        "Gemma2Config",
        lambda: {"input_ids": tokens(2, length)},
        use_cache=False,
        attn_implementation="eager",  # it caps scores with tanh
    )
    return Part(build=build, sizes=_items("input_ids"))


def _sana_decoder() -> Built:
    import diffusers

    types = ("ResBlock",) * 3 + ("EfficientViTBlock",) * 3
    whole = diffusers.AutoencoderDC(
        encoder_block_types=types,
        decoder_block_types=types,
        upsample_block_type="interpolate",
        downsample_block_type="conv",
    )
    return module(lambda decoder, x: decoder(x), whole.decoder), (values(2, 32, 32, 32),)


def _sana(name: str, layers: int) -> Row:
    """Return a pipeline of SANA-1.5, whose text encoder reads an instruction before the prompt."""
    latent = {0: BATCH, 2: "image_size // 32", 3: "image_size // 32"}
    row = _image_row(
        f"SANA-1.5 (arXiv 2501.18427); Efficient-Large-Model/{name}",
        20,
        {"multiple_of": 32},
        _sana_text(500),
        replace(_sana_text(300), stored=0),
        Part(
            build=diffuser(
                "SanaTransformer2DModel",
                lambda: {
                    "hidden_states": values(2, 32, 32, 32),
                    "encoder_hidden_states": values(2, 300, 2304),
                    "timestep": values(2),
                    "encoder_attention_mask": values(2, 300),
                },
                num_layers=layers,
                qk_norm="rms_norm_across_heads",
            ),
            sizes=_items(
                *("encoder_hidden_states", "timestep", "encoder_attention_mask"),
                hidden_states=latent,
            ),
            runs="steps",
            batch=GUIDED,
        ),
        Part(build=_sana_decoder, sizes={"x": latent}),
    )
    return replace(row, notes=(*row.notes, "the instruction before the prompt is of 200 tokens"))


def _qwen_denoiser() -> Built:
    """Return the denoiser of Qwen-Image, which takes latents by row and column of patches."""
    build = diffuser(
        "QwenImageTransformer2DModel",
        lambda: {
            "hidden_states": values(2, 83, 83, 64),
            "encoder_hidden_states": values(2, 64, 3584),
            "timestep": values(2),
        },
    )
    denoiser, inputs = build()
    run = denoiser.forward

    def forward(hidden_states: Tensor, encoder_hidden_states: Tensor, timestep: Tensor) -> Tensor:
        _, height, width, _ = hidden_states.shape
        return run(
            hidden_states.flatten(1, 2),
            encoder_hidden_states,
            timestep=timestep,
            img_shapes=[[(1, height, width)]],
        )

    denoiser.forward = forward
    return denoiser, inputs


def _qwen_decoder() -> Built:
    import diffusers

    whole = diffusers.AutoencoderKLQwenImage()
    return module(lambda decoder, x: decoder(x), whole.decoder), (values(2, 16, 1, 166, 166),)


QWEN_IMAGE: Final = Row(
    item="image",
    source="Qwen-Image (arXiv 2508.02324); Qwen/Qwen-Image",
    parts=(
        Part(
            build=hugging_face(
                "Qwen2_5_VLForConditionalGeneration",
                "Qwen2_5_VLConfig",
                lambda: {"input_ids": tokens(2, 98)},
                text_config={
                    "hidden_size": 3584,
                    "intermediate_size": 18944,
                    "num_hidden_layers": 28,
                    "num_attention_heads": 28,
                    "num_key_value_heads": 4,
                    "use_cache": False,
                },
                vision_config={
                    "hidden_size": 1280,
                    "intermediate_size": 3420,
                    "out_hidden_size": 3584,
                },
            ),
            sizes=_items("input_ids"),
            batch=GUIDED,
        ),
        Part(
            build=_qwen_denoiser,
            sizes=_items(
                *("timestep", "encoder_hidden_states"),
                hidden_states={0: BATCH, 1: "image_size // 16", 2: "image_size // 16"},
            ),
            runs="steps",
            batch=GUIDED,
        ),
        Part(build=_qwen_decoder, sizes={"x": {0: BATCH, 3: LATENT, 4: LATENT}}),
    ),
    sizes={"image_size": 1328, "steps": 50},
    limits={"image_size": PATCH},
    notes=(SCHEDULER, "the prompt and the negative prompt are of 64 tokens after 34 of a template"),
)

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
            _t5(4096, GUIDED, 512, "UMT5", 256384),
            Part(
                build=_with_times_of_tokens(build) if decoder else build,
                sizes=_items(
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
        _t5(4096, GUIDED, 226),
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
        _t5(4096, GUIDED, 226),
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
    "sd2.1": SD2,
    "sd3-medium": _sd3("stable-diffusion-3-medium", 28, 192, 1536),
    "sd3.5-medium": _sd3(
        *("stable-diffusion-3.5-medium", 40, 384, 1536),
        qk_norm="rms_norm",
        dual_attention_layers=tuple(range(13)),
    ),
    "sd3.5-large": _sd3("stable-diffusion-3.5-large", 28, 192, 2432, qk_norm="rms_norm"),
    "flux.1-dev": FLUX,
    "pixart-sigma": PIXART,
    "hunyuandit": HUNYUAN_DIT,
    "sana1.5-1.6b": _sana("SANA1.5_1.6B_1024px", 20),
    "sana1.5-4.8b": _sana("SANA1.5_4.8B_1024px", 60),
    "qwen-image": QWEN_IMAGE,
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
