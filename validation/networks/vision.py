"""Vision networks of the catalog."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from validation.networks.parts import BATCH, Part, Row, module, torchvision, values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from validation.networks.parts import Built, Module, Tensor

SQUARE: Final = {0: BATCH, 2: "image_size", 3: "image_size"}
# Classifiers of torchvision, by the name of the catalog: their constructor and their paper.
ANY_SIZE: Final = {
    "resnet-18": ("resnet18", "ResNet (arXiv 1512.03385)"),
    "resnet-34": ("resnet34", "ResNet (arXiv 1512.03385)"),
    "resnet-50": ("resnet50", "ResNet v1.5 (arXiv 1512.03385)"),
    "resnet-101": ("resnet101", "ResNet v1.5 (arXiv 1512.03385)"),
    "resnet-152": ("resnet152", "ResNet v1.5 (arXiv 1512.03385)"),
    "resnext-50": ("resnext50_32x4d", "ResNeXt (arXiv 1611.05431)"),
    "wide-resnet-50": ("wide_resnet50_2", "Wide ResNet (arXiv 1605.07146)"),
    "vgg-16": ("vgg16", "VGG (arXiv 1409.1556)"),
    "densenet-121": ("densenet121", "DenseNet (arXiv 1608.06993)"),
    "efficientnet-b0": ("efficientnet_b0", "EfficientNet (arXiv 1905.11946)"),
    "efficientnet-b4": ("efficientnet_b4", "EfficientNet (arXiv 1905.11946)"),
    "efficientnetv2-s": ("efficientnet_v2_s", "EfficientNetV2 (arXiv 2104.00298)"),
    "mobilenet-v2": ("mobilenet_v2", "MobileNetV2 (arXiv 1801.04381)"),
    "mobilenet-v3-large": ("mobilenet_v3_large", "MobileNetV3 (arXiv 1905.02244)"),
    "regnety-3.2gf": ("regnet_y_3_2gf", "RegNet (arXiv 2003.13678)"),
    "regnety-16gf": ("regnet_y_16gf", "RegNet (arXiv 2003.13678)"),
    "convnext-tiny": ("convnext_tiny", "ConvNeXt (arXiv 2201.03545)"),
    "convnext-small": ("convnext_small", "ConvNeXt (arXiv 2201.03545)"),
    "convnext-base": ("convnext_base", "ConvNeXt (arXiv 2201.03545)"),
    "convnext-large": ("convnext_large", "ConvNeXt (arXiv 2201.03545)"),
}
FIXED_SIZE: Final = {
    "vit-base-16": ("vit_b_16", "ViT (arXiv 2010.11929)"),
    "vit-base-32": ("vit_b_32", "ViT (arXiv 2010.11929)"),
    "vit-large-16": ("vit_l_16", "ViT (arXiv 2010.11929)"),
    "swin-tiny": ("swin_t", "Swin (arXiv 2103.14030)"),
    "swin-base": ("swin_b", "Swin (arXiv 2103.14030)"),
}


def _classifier(name: str, title: str, sizes: Mapping[int, str]) -> Row:
    return Row(
        item="image",
        source=f"{title}; torchvision.models.{name}",
        parts=(Part(build=torchvision(name), sizes={"x": sizes}),),
        sizes={"image_size": 224} if len(sizes) > 1 else {},
    )


def _retinanet() -> Built:
    """Return body and head of MLPerf's RetinaNet; anchors and suppression are left out."""
    from torchvision.models import detection, resnext50_32x4d
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    body = _resnet_fpn_extractor(
        resnext50_32x4d(),
        5,
        returned_layers=[2, 3, 4],
        extra_blocks=LastLevelP6P7(256, 256),
    )
    whole = detection.RetinaNet(body, 264)

    def forward(backbone: Module, head: Module, x: Tensor) -> object:
        return head(list(backbone(x).values()))

    return module(forward, whole.backbone, whole.head), (values(2, 3, 800, 800),)


def _retinanet_r50() -> Built:
    from torchvision.models import detection

    whole = detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None)

    def forward(backbone: Module, head: Module, x: Tensor) -> object:
        return head(list(backbone(x).values()))

    return module(forward, whole.backbone, whole.head), (values(2, 3, 800, 800),)


def _unet_3d() -> Built:
    """Return the 3D U-Net of MLPerf: instance norms, five levels, transposed convolutions."""
    import torch
    from torch import nn

    def block(first: int, second: int, stride: int = 1) -> Module:
        return nn.Sequential(
            *(
                nn.Conv3d(first, second, 3, stride, 1, bias=False),
                nn.InstanceNorm3d(second, affine=True),
            ),
            *(nn.ReLU(), nn.Conv3d(second, second, 3, 1, 1, bias=False)),
            *(nn.InstanceNorm3d(second, affine=True), nn.ReLU()),
        )

    widths = (32, 64, 128, 256, 320, 320)
    downs = [block(1, 32), *(block(a, b, 2) for a, b in itertools.pairwise(widths))]
    raised = widths[::-1]
    ups = [nn.ConvTranspose3d(a, b, 2, 2) for a, b in itertools.pairwise(raised)]
    merged = [block(2 * width, width) for width in raised[1:]]
    groups = (*downs, *ups, *merged, nn.Conv3d(32, 3, 1))

    def forward(*given: Module) -> Tensor:
        *layers, x = given
        kept = []
        for layer in layers[:6]:
            x = layer(x)
            kept.append(x)
        for up, merge, skip in zip(layers[6:11], layers[11:16], kept[-2::-1], strict=True):
            x = merge(torch.cat((up(x), skip), 1))
        return layers[16](x)

    return module(forward, *groups), (values(1, 1, 128, 128, 128),)


ROWS: Final[Mapping[str, Row]] = {
    **{name: _classifier(*given, SQUARE) for name, given in ANY_SIZE.items()},
    **{name: _classifier(*given, {0: BATCH}) for name, given in FIXED_SIZE.items()},
    "retinanet-resnext-50": Row(
        item="image of 800 x 800",
        source="RetinaNet (arXiv 1708.02002) with ResNeXt-50 and 264 classes, as MLPerf Inference",
        parts=(Part(build=_retinanet, sizes={"x": {0: BATCH}}),),
        sizes={},
        notes=("anchors and non-maximum suppression are left out",),
    ),
    "retinanet-resnet-50": Row(
        item="image of 800 x 800",
        source="RetinaNet (arXiv 1708.02002) with ResNet-50; torchvision.models.detection",
        parts=(Part(build=_retinanet_r50, sizes={"x": {0: BATCH}}),),
        sizes={},
        notes=("anchors and non-maximum suppression are left out",),
    ),
    "3d-unet": Row(
        item="window of 128 x 128 x 128",
        source="3D U-Net of MLPerf Inference on KiTS19 (mlcommons/inference medical_imaging)",
        parts=(Part(build=_unet_3d, sizes={}),),
        sizes={},
        notes=("sliding windows of a volume are items; their weighting is left out",),
    ),
}
