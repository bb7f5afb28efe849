"""Diffusion pipelines of images: text encoders, the denoiser in each step, and the decoder.

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
    from collections.abc import Mapping

    from validation.networks.parts import Built, Tensor

GUIDED: Final = "2 * batch"
SCHEDULER: Final = "the scheduler, the safety checker and the host's work on images are left out"
LATENT: Final = "image_size // 8"
# What pipelines of diffusers check: pixels of a latent position, and of a patch of 2 x 2.
LATENT_PIXELS: Final = {"multiple_of": 8}
PATCH: Final = {"multiple_of": 16}


def sizes_of(*names: str, **more: Mapping[int, str]) -> dict[str, Mapping[int, str]]:
    """Return symbolic sizes: the batch of the inputs named, and what is given of others."""
    return {**{name: {0: BATCH} for name in names}, **more}


def clip(batch: str) -> Part:
    """Return the text encoder of CLIP L."""
    build = hugging_face(
        "CLIPTextModel",
        "CLIPTextConfig",
        lambda: {"input_ids": tokens(2, 77)},
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=12,
        num_attention_heads=12,
    )
    return Part(build=build, sizes=sizes_of("input_ids"), batch=batch)


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
    return Part(build=build, sizes=sizes_of("input_ids"), batch=batch)


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
    return Part(build=build, sizes=sizes_of("input_ids"), batch=batch)


def t5(width: int, batch: str, length: int, kind: str = "T5", vocabulary: int = 32128) -> Part:
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
    return Part(build=build, sizes=sizes_of("input_ids"), batch=batch)


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
    clip(GUIDED),
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
        sizes=sizes_of(
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
            sizes=sizes_of(
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
        clip(GUIDED),
        _clip_g(GUIDED),
        t5(4096, GUIDED, 256),
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
            sizes=sizes_of(
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
    clip(BATCH),
    t5(4096, BATCH, 512),
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
        sizes=sizes_of(
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
    t5(4096, GUIDED, 300),
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
        sizes=sizes_of(
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
        sizes=sizes_of("input_ids", "attention_mask"),
        batch=GUIDED,
    ),
    t5(2048, GUIDED, 256, "MT5", 250112),
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
        sizes=sizes_of(
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
    return Part(build=build, sizes=sizes_of("input_ids"))


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
            sizes=sizes_of(
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
            sizes=sizes_of("input_ids"),
            batch=GUIDED,
        ),
        Part(
            build=_qwen_denoiser,
            sizes=sizes_of(
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
}
