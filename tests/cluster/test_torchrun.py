"""Training by torchrun and by the Slurm job script: real processes, a real run, an encoder at the end."""

import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.encoders import load_encoder

SCRIPT = Path(__file__).parents[2] / "docs/slurm.sbatch"
TORCHRUN = Path(sys.executable).with_name("torchrun")
#: One step of four bags of two tracklets.
SMALL = shlex.split(
    "--encoder.backbone test_resnet --encoder.weights none --encoder.width 16 --encoder.heads 2 --encoder.layers 1"
    " --supervision.bags_per_batch 4 --supervision.bag_size 1 --train.frames 64 --train.threads 1 --train.loggers ''"
)


@pytest.fixture(scope="module")
def data(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("data") / "small", [[4, 3], [4, 3]], frames=8)


def run(command: list[object], **environment: str) -> None:
    words = [str(word) for word in command]
    path = f"{TORCHRUN.parent}:{os.environ['PATH']}"
    given = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, **environment}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=given)
    assert done.returncode == 0, done.stderr[-3000:]


def check_run(out: Path, processes: int) -> None:
    """One step was taken by this number of processes, and its encoder was written."""
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [(step["step"], step["frames"]) for step in steps] == [(1, 64)]
    (start,) = json.loads((out / "environment.json").read_text())["starts"]
    assert f"processes: {processes} (torchrun)" in start["notes"]
    assert load_encoder(out).width == 16


@pytest.mark.parametrize("processes", [2, 4])
def test_torchrun_trains_an_encoder_with_several_processes(data: Path, tmp_path: Path, processes: int) -> None:
    port = random.randint(20_000, 50_000)
    command = [TORCHRUN, "--nproc-per-node", processes, "--master-port", port, "-m", "polyptrace", "train", "ours"]
    run([*command, "--data", data, "--out", tmp_path / "run", *SMALL])
    check_run(tmp_path / "run", processes)


def test_the_slurm_job_script_trains_on_two_machines_with_two_processes_each(data: Path, tmp_path: Path) -> None:
    """Slurm's commands are stood in for; everything that they would start is real."""
    stand_ins = {
        "scontrol": 'test "$*" = "show hostnames node[1-2]"; echo localhost; echo localhost',
        "srun": 'for machine in 1 2; do "$@" & started="$started $!"; done; for one in $started; do wait $one; done',
    }
    for name, line in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/bash\nset -e\n{line}\n")
        (tmp_path / name).chmod(0o755)
    subprocess.run(["bash", "-n", SCRIPT], check=True)
    run(
        ["bash", SCRIPT, *SMALL],
        PATH=f"{tmp_path}:{TORCHRUN.parent}:{os.environ['PATH']}",
        DATA=str(data),
        OUT=str(tmp_path / "run"),
        SLURM_JOB_NODELIST="node[1-2]",
        SLURM_NNODES="2",
        PROCESSES="2",
        SLURM_JOB_ID=str(random.randint(0, 9_999)),
    )
    check_run(tmp_path / "run", 4)
