import os
import subprocess
import sys

import pytest
import torch

from polyptrace.core.device import choose_precision, usable_cores

ON_ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from polyptrace.core.device import usable_cores
print(usable_cores())
"""


def test_only_the_cores_that_a_process_may_use_are_counted() -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))
    assert subprocess.check_output([sys.executable, "-c", ON_ONE_CORE], text=True).strip() == "1"


def test_a_gpu_uses_bf16_if_it_supports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert choose_precision("auto", gpu)[0] == "bf16"
    assert choose_precision("float32", gpu)[0] == "float32"
    assert choose_precision("auto", torch.device("cpu"))[0] == "float32"
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    assert choose_precision("auto", gpu) == ("float32", "precision: float32 (auto, this GPU has no bf16)")
