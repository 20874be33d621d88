"""Training on a GPU keeps the promises that do not depend on the device."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.ops.train import profile
from rlclinic.training import rng
from rlclinic.training.__main__ import train_runs
from tests.training.cohorts import ALGOS, NATIVE, TASKS, Interrupted, assert_same_run, interrupt_at, make_config, table, train

pytestmark = pytest.mark.cuda


def test_random_bits_are_the_same_on_both_devices() -> None:
    seeds, index = torch.arange(5).view(-1, 1), torch.arange(1_000).view(1, -1)
    host = rng.bits(seeds, rng.ACTION, index)
    assert torch.equal(rng.bits(seeds.cuda(), rng.ACTION, index.cuda()).cpu(), host)
    order = rng.permutation(seeds.view(-1, 1, 1), rng.PERMUTATION, 3, 2, 100)
    assert torch.equal(rng.permutation(seeds.view(-1, 1, 1).cuda(), rng.PERMUTATION, 3, 2, 100).cpu(), order)


@pytest.mark.parametrize("kind", ALGOS)
@pytest.mark.parametrize("task", NATIVE)
def test_a_run_on_a_gpu_repeats_itself_and_resumes_as_if_never_stopped(tmp_path: Path, kind: str, task: str) -> None:
    settings: dict[str, Any] = {
        "env": TASKS[task][0],
        "run": {"max_env_steps": 192, "checkpoint_every_env_steps": 48, "device": "cuda", "engine": "eager"},
    }
    config = make_config(kind, **settings)
    straight, twin = train(tmp_path, [config])[0], train(tmp_path, [config])[0]
    assert_same_run(twin, straight)
    broken = []
    stop = interrupt_at(int(table(straight)[-2]["total_timesteps"]))

    def callback(row: dict[str, Any]) -> None:
        broken[:] = [row["run"]]
        stop(row)

    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=callback)
    assert train_runs(broken, resume=True)
    assert_same_run(broken[0], straight)


@pytest.mark.parametrize("task", NATIVE)
def test_the_first_iteration_is_close_to_that_of_a_cpu(tmp_path: Path, task: str) -> None:
    rows = []
    for device in ("cpu", "cuda"):
        run = train(tmp_path, [make_config(env=TASKS[task][0], run={"max_env_steps": 32, "device": device, "engine": "eager"})])[0]
        rows.append(table(run)[0])
    for name in ("train/loss/policy", "train/loss/value", "train/loss/entropy", "train/metrics/grad_norm/all", "train/roll/ep_rew_mean"):
        assert float(rows[1][name]) == pytest.approx(float(rows[0][name]), rel=1e-2, abs=1e-3), name


def test_on_a_gpu_every_engine_and_precision_is_measured_and_the_card_is_watched() -> None:
    small = ("algo.n_steps=8", "algo.batch_size=16", "env.n_envs=4", "algo.n_epochs=2", "net.hidden=[8]")
    found = profile.profile("CartPole-v1:ppo", small, device="cuda", seconds=0.05, compiling=True)
    assert (found.device, found.engine) == ("cuda", "captured")
    assert found.gpu_busy is not None
    assert 0 < found.gpu_busy <= 1
    assert sum(phase.share for phase in found.phases) == pytest.approx(1.0)
    assert {("run.precision=tf32",)} <= {variant.changes for variant in found.variants}
    assert not [variant.refused for variant in found.variants if variant.refused]
