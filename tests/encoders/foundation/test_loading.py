"""All twelve at full size, on the meta device: shapes, parameters, and the paper's columns."""

import pytest
import timm
import torch

from polyptrace.core.errors import UserError
from polyptrace.encoders import Preprocess
from polyptrace.encoders.cost import foundation_cost, published_cost
from polyptrace.encoders.foundation import FOUNDATION_MODELS, load_foundation
from polyptrace.encoders.foundation.loading import fit

#: Table 1 of the paper: millions of parameters, and billions of operations for 8 frames.
PAPER = {
    "dinov2-small": ("22.1", "44.2"),
    "dinov2-base": ("86.6", "175.7"),
    "dinov2-large": ("304.4", "622.5"),
    "dinov2-giant": ("1136", "2331"),
    "dinov3-small": ("21.6", "34.7"),
    "dinov3-base": ("85.7", "137.7"),
    "dinov3-large": ("303.1", "487.2"),
    "vjepa2": ("326.0", "272.1"),
    "endofm": ("121.3", "190.1"),
    "endofm-lv": ("121.3", "190.1"),
    "endovit": ("86.6", "134.9"),
    "surgenet": ("24.3", "31.0"),
}

#: The same architectures in timm.
MIRRORS = {f"dinov2-{size}": f"vit_{size}_patch14_dinov2" for size in ("small", "base", "large", "giant")}
MIRRORS |= {f"dinov3-{size}": f"vit_{size}_patch16_dinov3" for size in ("small", "base", "large")}
MIRRORS |= {"endovit": "vit_base_patch16_224"}

#: Where the last digit differs: 137.62 is counted, and the sizes around it agree.
COUNTED = {"dinov3-base": "137.6"}

#: Billions of true operations, of the published models, counted with eager attention by torch's counter elsewhere.
TRUE = {"dinov2-small": 98.0, "dinov2-giant": 4790.2, "dinov3-base": 286.9, "vjepa2": 649.5, "endofm-lv": 391.7}
TRUE |= {"endovit": 281.0, "surgenet": 65.7, "dinov2-base": 370.6, "dinov2-large": 1296.2, "dinov3-small": 75.2}
TRUE |= {"dinov3-large": 1005.4, "endofm": 391.7}


@pytest.mark.parametrize("name", list(PAPER))
def test_the_built_model_has_the_papers_parameters_and_flops(name: str) -> None:
    counted = published_cost(name)
    params, operations = PAPER[name]
    digits = len(params.partition(".")[2])
    assert f"{counted.params / 1e6:.{digits}f}" == params
    assert f"{counted.paper_macs / 1e9:.{digits}f}" == COUNTED.get(name, operations)
    assert round(counted.flops / 1e9, 1) == TRUE[name]


@pytest.mark.parametrize(("name", "mirror"), MIRRORS.items())
def test_timms_model_of_full_size_has_the_same_weights_under_other_names(name: str, mirror: str) -> None:
    architecture = FOUNDATION_MODELS[name].architecture
    with torch.device("meta"):
        theirs = timm.create_model(mirror, num_classes=0).state_dict()
        ours = architecture.build(224).state_dict()
    fitted, mismatch = fit(theirs, ours, architecture)
    assert not mismatch
    assert fitted.keys() == ours.keys()


@pytest.mark.parametrize(("name", "keys"), [("endofm", 247), ("endofm-lv", 247), ("vjepa2", 388), ("surgenet", 152)])
def test_the_backbone_of_full_size_has_the_published_number_of_weights(name: str, keys: int) -> None:
    with torch.device("meta"):
        assert len(FOUNDATION_MODELS[name].architecture.build(224).state_dict()) == keys


def test_the_table_has_twelve_rows_and_each_is_checked() -> None:
    assert list(FOUNDATION_MODELS) == list(PAPER)


@pytest.mark.parametrize(("name", "params", "flops"), [("endovit", 85.799, 281.0), ("surgenet", 23.238, 65.7)])
def test_parts_that_give_no_vector_are_not_part_of_the_encoder(name: str, params: float, flops: float) -> None:
    counted, published = foundation_cost(name), published_cost(name)
    assert published.params > counted.params
    assert round(counted.params / 1e6, 3) == params
    assert round(counted.flops / 1e9, 1) == flops


def test_the_predictor_of_vjepa2_is_not_part_of_the_encoder() -> None:
    counted = foundation_cost("vjepa2")
    assert round(counted.params / 1e6, 3) == 303.885
    assert round(counted.flops / 1e9, 1) == 536.4


def test_a_name_that_is_not_known_gets_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean dinov2-small"):
        load_foundation("dino2-small", None)


def test_a_preprocess_that_is_not_known_is_refused_and_a_users_own_is_taken(small: dict[str, object]) -> None:
    assert "surgenet" in small
    with pytest.raises(UserError, match="give own, imagenet or release"):
        load_foundation("surgenet", None, preprocess="theirs")
    own = Preprocess(64, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert load_foundation("surgenet", None, preprocess=own).preprocess == own


def test_imagenet_normalisation_keeps_the_models_size() -> None:
    with torch.device("meta"):
        own, imagenet = (load_foundation("endofm", None, preprocess=p).preprocess for p in ("own", "imagenet"))
    assert own == Preprocess(224, (0.45, 0.45, 0.45), (0.225, 0.225, 0.225))
    assert imagenet == Preprocess(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
