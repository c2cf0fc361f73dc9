"""The twelve foundation models of the comparison: architecture, input, default pooling, licence, source of weights."""

from dataclasses import dataclass

from polyptrace.encoders.foundation.architecture import Architecture
from polyptrace.encoders.foundation.endoscopy import Endofm, Endovit, Surgenet
from polyptrace.encoders.foundation.natural import Dinov2, Dinov3, Vjepa2
from polyptrace.encoders.preprocess import IMAGENET_MEAN, IMAGENET_STD, RELEASE, Preprocess


@dataclass(frozen=True)
class FoundationModel:
    """One row of the comparison.

    `hub` is the repository of the weights on the Hugging Face hub, if there is one, `mirror` another one, `file` the
    published file, and `page` the web page of the weights. `seen` lists test datasets that the pretraining used.
    """

    title: str
    architecture: Architecture
    preprocess: Preprocess
    pooling: str
    licence: str
    page: str
    file: str = "model.safetensors"
    hub: str | None = None
    gated: bool = False
    mirror: str | None = None
    seen: tuple[str, ...] = ()


IMAGENET_224 = Preprocess(224, IMAGENET_MEAN, IMAGENET_STD)
IMAGENET_256 = Preprocess(256, IMAGENET_MEAN, IMAGENET_STD)
#: What the authors of EndoFM use for fine-tuning and testing. They pretrained with ImageNet normalisation, which is
#: available as `--embed.preprocess imagenet`.
ENDOFM_224 = Preprocess(224, RELEASE.mean, RELEASE.std)
ENDOVIT_224 = Preprocess(224, (0.3464, 0.2280, 0.2228), (0.2520, 0.2128, 0.2093))


def _dinov2(title: str, size: str, architecture: Dinov2) -> FoundationModel:
    """Pooled as in the published comparison: the mean over all tokens."""
    hub = f"facebook/dinov2-{size}"
    return FoundationModel(
        title, architecture, IMAGENET_224, "mean", "Apache-2.0", f"https://huggingface.co/{hub}", hub=hub
    )


def _dinov3(title: str, size: str, architecture: Dinov3) -> FoundationModel:
    """Pooled as in the published comparison: the cls token."""
    hub = f"facebook/dinov3-vit{size[0]}16-pretrain-lvd1689m"
    return FoundationModel(
        title,
        architecture,
        IMAGENET_224,
        "cls",
        "DINOv3 licence",
        f"https://huggingface.co/{hub}",
        hub=hub,
        gated=True,
        mirror=f"timm/vit_{size}_patch16_dinov3.lvd1689m",
    )


#: By name, as on the command line.
FOUNDATION_MODELS = {
    "dinov2-small": _dinov2("DinoV2-S/14", "small", Dinov2(384, 12, 6)),
    "dinov2-base": _dinov2("DinoV2-B/14", "base", Dinov2(768, 12, 12)),
    "dinov2-large": _dinov2("DinoV2-L/14", "large", Dinov2(1024, 24, 16)),
    "dinov2-giant": _dinov2("DinoV2-g/14", "giant", Dinov2(1536, 40, 24, swiglu=True)),
    "dinov3-small": _dinov3("DinoV3-S/16", "small", Dinov3(384, 12, 6)),
    "dinov3-base": _dinov3("DinoV3-B/16", "base", Dinov3(768, 12, 12)),
    "dinov3-large": _dinov3("DinoV3-L/16", "large", Dinov3(1024, 24, 16)),
    "vjepa2": FoundationModel(
        "V-JEPA2",
        Vjepa2(),
        IMAGENET_256,
        "mean",
        "open (code MIT)",
        "https://huggingface.co/facebook/vjepa2-vitl-fpc64-256",
        hub="facebook/vjepa2-vitl-fpc64-256",
    ),
    "endofm": FoundationModel(
        "EndoFM",
        Endofm(clip_length=8),
        ENDOFM_224,
        "cls",
        "Apache-2.0",
        "https://github.com/med-air/Endo-FM",
        file="endo_fm.pth",
        seen=("SUN",),
    ),
    "endofm-lv": FoundationModel(
        "EndoFM-LV",
        Endofm(clip_length=32),
        ENDOFM_224,
        "cls",
        "Apache-2.0",
        "https://github.com/med-air/EndoFM-LV",
        file="endofm_lv.pth",
    ),
    "endovit": FoundationModel(
        "EndoViT",
        Endovit(),
        ENDOVIT_224,
        "patch-mean",
        "Apache-2.0",
        "https://huggingface.co/egeozsoy/EndoViT",
        file="pytorch_model.bin",
        hub="egeozsoy/EndoViT",
    ),
    "surgenet": FoundationModel(
        "SurgeNet",
        Surgenet(),
        IMAGENET_224,
        "mean",
        "CC-BY-NC-SA-4.0",
        "https://huggingface.co/TimJaspersTue/SurgeNetModels",
        file="SurgeNetXL_checkpoint_epoch0050_teacher.pth",
        hub="TimJaspersTue/SurgeNetModels",
    ),
}
