"""The gradient that is written out, held against autograd's of the loss itself."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.training.data.rollouts import Batch
from rlclinic.training.fast import gradients
from rlclinic.training.loops import on_policy
from tests.training import tasks
from tests.training.cohorts import TASKS, Workshop, make_config, workshop

CASES: dict[str, dict[str, Any]] = {
    "ppo": {},
    "ppo with an entropy bonus": {"algo": {"ent_coef": 0.3, "vf_coef": 0.7}},
    "ppo with a clipped value": {"algo": {"clip_range_vf": 0.05}},
    "ppo with one trunk": {"net": {"shared": True}, "algo": {"ent_coef": 0.1}},
    "a2c": {"kind": "a2c", "algo": {"n_steps": 16, "ent_coef": 0.2}},
    "reinforce": {"kind": "reinforce"},
    "continuous ppo": {"task": "box", "algo": {"ent_coef": 0.1}},
    "continuous a2c": {"task": "box", "kind": "a2c", "algo": {"n_steps": 16}},
    "continuous with a deviation per state": {"task": "box", "net": {"state_dependent_std": True}, "algo": {"ent_coef": 0.1}},
    "continuous with a deviation at its bound": {
        "task": "box",
        "net": {"log_std_init": 0.5, "log_std_max": 0.5},
        "algo": {"ent_coef": 0.1},
    },
    "continuous and rectified": {"task": "box", "net": {"activation": "relu"}, "algo": {"ent_coef": 0.1}},
    "several choices": {"task": "multi_discrete", "algo": {"ent_coef": 0.1}},
    "yes or no": {"task": "multi_binary", "algo": {"ent_coef": 0.1}},
    "masked": {"env": {"id": "Slippery", "action_mask": True}, "algo": {"ent_coef": 0.1}},
}


def shop(name: str) -> Workshop:
    settings = dict(CASES[name])
    env, factory = TASKS[settings.pop("task", "discrete")]
    if "env" in settings:
        env, factory = settings.pop("env"), tasks.Slippery
    kind = settings.pop("kind", "ppo")
    configs = [make_config(kind, {**env, "n_envs": 4}, seed, run={"max_env_steps": 400}, **settings) for seed in range(3)]
    return workshop(configs, factory)


def in_double(at: Workshop, hp: SimpleNamespace, batch: Batch) -> tuple[Tensor, Batch, SimpleNamespace]:
    """Weights that have moved from the policy that acted, so that ratios leave their clip; rows and numbers; all in double precision."""
    noise = torch.randn(at.learner.flat.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = Batch(*(field.double() if field is not None and field.is_floating_point() else field for field in batch))
    numbers = {name: value.double() if isinstance(value, Tensor) else value for name, value in vars(hp).items()}
    return at.learner.flat.double() + 0.3 * noise, whole, SimpleNamespace(**numbers)


@pytest.mark.parametrize("name", CASES)
def test_the_written_gradient_and_its_readings_are_those_of_autograd(name: str) -> None:
    at = shop(name)
    whole, hp = at.whole(), at.numbers()
    assert gradients.is_written(at.plan, whole), "otherwise nobody uses it"
    inputs = in_double(at, hp, whole)
    ours, theirs = gradients.written_out(at.plan, *inputs), gradients.by_autograd(at.plan, *inputs)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-9, atol=1e-11)
    assert set(ours[1]) == set(theirs[1])
    for reading, value in ours[1].items():
        torch.testing.assert_close(value, theirs[1][reading], rtol=1e-9, atol=1e-11)


def test_the_clip_bites_in_the_comparison_above() -> None:
    at = shop("ppo with a clipped value")
    flat, batch, hp = in_double(at, at.numbers(), at.whole())
    _, readings = gradients.written_out(at.plan, flat, batch, hp)
    ratio = readings["log_ratio"].exp()
    beyond = ((ratio - 1) * batch.advantage.sign()) > hp.clip_range
    assert 0.05 < beyond.double().mean().item() < 0.95


@pytest.mark.parametrize("field", ["advantage", "returns"])
def test_what_is_not_a_number_reaches_the_gradient_of_its_member_and_of_no_other(field: str) -> None:
    at = shop("ppo")
    whole, hp = at.whole(), at.numbers()
    bad = getattr(whole, field).clone()
    bad[1, 3] = torch.nan
    grad, _ = gradients.gradient(at.plan, at.learner.flat, whole._replace(**{field: bad}), hp)
    assert torch.isfinite(grad).all(1).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("kind", "net"), [("reinforce without baseline", {}), ("ppo", {"activation": "elu"}), ("ppo", {"layer_norm": True})]
)
def test_what_nobody_has_written_out_is_left_to_autograd(kind: str, net: dict[str, Any]) -> None:
    env, factory = TASKS["discrete"]
    at = workshop([make_config(kind, {**env, "n_envs": 4}, net=net)], factory)
    assert not gradients.is_written(at.plan, at.whole())


def test_which_side_a_run_is_on_does_not_depend_on_its_numbers_or_neighbours() -> None:
    plain, clipped = make_config(env={"n_envs": 4}), make_config(seed=1, env={"n_envs": 4}, algo={"clip_range_vf": 0.1, "ent_coef": 0.5})
    together = workshop([plain, clipped])
    alone = workshop([plain])
    grads = [gradients.gradient(at.plan, at.learner.flat, at.whole(), at.numbers())[0] for at in (together, alone)]
    assert torch.equal(grads[0][:1], grads[1])


@pytest.mark.parametrize("task", ["discrete", "box"])
def test_both_engines_agree_after_one_iteration(task: str) -> None:
    learned = []
    for engine in ("eager", "autograd"):
        env, _ = TASKS[task]
        at = workshop([make_config(env={**env, "n_envs": 4}, run={"max_env_steps": 400, "engine": engine})])
        whole = at.whole()
        assert gradients.is_written(at.plan, whole) == (engine == "eager")
        learned.append(on_policy.learn(at.plan, at.learner, whole, at.numbers(), None, at.seed, 0)[0].flat)
    torch.testing.assert_close(*learned, rtol=1e-4, atol=1e-5)
