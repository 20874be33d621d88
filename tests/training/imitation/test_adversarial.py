"""Rewards that are learned from demonstrations: losses by hand, terminal states, cohorts, resumes."""

import math
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.config import Config
from rlclinic.datasets import Episode, Space, folder
from rlclinic.errors import ConfigError, RunError
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly, envs
from rlclinic.training.__main__ import train_runs
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.imitation import adversarial
from rlclinic.training.imitation.adversarial import Adversary, Steps
from tests.training.cohorts import Interrupted, interrupt_at, table, train

CPU = torch.device("cpu")
TASKS = {"discrete": "CartPole-v1", "box": "Pendulum-v1"}


@cache
def demonstrations(task: str, terminates: bool = False) -> str:
    """Episodes that nobody would mistake for a fresh policy's: one action throughout."""
    size, action = (4, Space("discrete", n=2)) if task == "discrete" else (3, Space("box", (1,), low=(-2.0,), high=(2.0,)))
    made = []
    for index in range(12):
        draw = np.random.default_rng(index)
        observations = draw.normal(0, 0.5, (21, size)).astype(np.float32)
        actions = np.ones(20, np.int64) if task == "discrete" else np.full((20, 1), 1.5, np.float32)
        made.append(Episode(observations, actions, np.zeros(20, np.float32), terminates, not terminates))
    path = Path(mkdtemp(prefix="demonstrations")) / "data"
    folder.write(path, iter(made), Space("box", (size,)), action, source="made up", env_id=TASKS[task])
    return str(path)


def make_config(name: str = "gail", task: str = "discrete", seed: int = 0, **changes: dict[str, Any]) -> Config:
    usual: dict[str, dict[str, Any]] = {
        "env": {"id": TASKS[task], "n_envs": 2},
        "algo": {
            "name": name,
            "n_steps": 16,
            "batch_size": 16,
            "n_epochs": 2,
            "reward_steps": 2,
            "reward_batch_size": 8,
            "reward_hidden": [6],
        },
        "net": {"hidden": [8]},
        "data": {"path": demonstrations(task)},
        "run": {"max_env_steps": 96, "eval_episodes": 2, "checkpoint_every_env_steps": 32},
    }
    return Config(**{part: {**usual[part], **changes.get(part, {})} for part in usual}, seed=seed)


def made(
    name: str = "gail", task: str = "discrete", members: int = 1, **changes: dict[str, Any]
) -> tuple[Adversary, dict[str, torch.Tensor]]:
    config = make_config(name, task, **changes)
    adversary = adversarial.plan(config, envs.make(config.env, [0], 2), CPU)
    return adversary, adversarial.fresh(adversary, list(range(members)), CPU)


def steps_of(adversary: Adversary, rows: int, members: int = 1) -> Steps:
    draw, kinds = torch.Generator().manual_seed(rows), sum(adversary.action.sizes)
    obs, next_obs = (
        torch.randn(members, rows, adversary.nets["shaping" if adversary.shapes else "reward"].n_in, generator=draw) for _ in "ab"
    )
    size = adversary.data.observations.shape[1]
    zeros = torch.zeros(members, rows, 1)
    return Steps(obs[..., :size], torch.randn(members, rows, kinds, generator=draw), next_obs[..., :size], zeros, zeros)


def numbers(gamma: float = 0.9, penalty: float = 0.0, members: int = 1) -> Hyperparameters:
    return Hyperparameters(
        gamma=torch.full((members, 1), gamma),
        reward_lr=torch.full((members, 1), 1e-2),
        gradient_penalty=torch.full((members, 1), penalty),
        per_member=[{"gradient_penalty": penalty}] * members,
    )


def test_the_discriminators_loss_is_the_cross_entropy_of_both_kinds() -> None:
    expert, policy = [2.0, -1.0], [0.5, 3.0, -2.0]
    loss = adversarial.discriminator_loss(torch.tensor([expert]), torch.tensor([policy]), torch.tensor([[1.0, 0.0, 1.0]]))
    right = [-math.log(1 / (1 + math.exp(-each))) for each in expert]
    wrong = [-math.log(1 - 1 / (1 + math.exp(-each))) for each in (policy[0], policy[2])]  # the second does not count
    assert float(loss) == pytest.approx(0.5 * sum(right) / 2 + 0.5 * sum(wrong) / 2, rel=1e-5)
    assert float(adversarial.discriminator_loss(torch.zeros(1, 3), torch.zeros(1, 3), torch.ones(1, 3))) == pytest.approx(math.log(2))


@pytest.mark.parametrize(("form", "signs"), [("positive", (1, 1)), ("negative", (-1, -1)), ("logit", (-1, 1))])
def test_forms_of_the_reward(form: str, signs: tuple[int, int]) -> None:
    paid = adversarial.to_reward(SimpleNamespace(reward_form=form), torch.tensor([-1.5, 1.5])).tolist()
    chance = [1 / (1 + math.exp(1.5)), 1 / (1 + math.exp(-1.5))]
    by_hand = {
        "positive": [-math.log(1 - each) for each in chance],
        "negative": [math.log(each) for each in chance],
        "logit": [math.log(each) - math.log(1 - each) for each in chance],
    }[form]
    assert paid == pytest.approx(by_hand, rel=1e-5)
    assert tuple(int(math.copysign(1, each)) for each in paid) == signs


def test_airls_logit_is_a_reward_and_a_shaping() -> None:
    adversary, state = made("airl", "box", algo={"state_only": True})
    steps, gamma = steps_of(adversary, 5), torch.tensor([[0.9]])

    def net(name: str, obs: torch.Tensor) -> torch.Tensor:
        params = adversary.nets[name].params(state[name])
        hidden = torch.tanh(obs @ params["trunk.0.weight"] + params["trunk.0.bias"])
        return (hidden @ params["head.weight"].transpose(1, 2) + params["head.bias"]).squeeze(-1)

    here, then = (torch.cat([each, torch.zeros(1, 5, 1)], -1) for each in (steps.obs, steps.next_obs))
    by_hand = net("reward", here) + 0.9 * net("shaping", then) - net("shaping", here)
    torch.testing.assert_close(adversarial.logits(adversary, state, steps, gamma), by_hand)
    # Where the next state is the absorbing one, its shaping is that of the flag, and the observation there no longer counts.
    ended = steps._replace(next_obs=torch.zeros_like(steps.next_obs), ends=torch.ones(1, 5, 1))
    assert not torch.allclose(adversarial.logits(adversary, state, ended, gamma), by_hand)


def test_the_penalty_is_that_of_the_slope_between_both_kinds() -> None:
    adversary, state = made("gail", "box")
    expert, policy = steps_of(adversary, 3), steps_of(adversary, 4)
    policy = Steps(*(each[:, :3] for each in policy))
    mix, gamma = torch.tensor([[[0.0], [0.5], [1.0]]]), torch.tensor([[0.9]])
    found = float(adversarial.gradient_penalty(adversary, state, expert, policy, mix, gamma).detach())
    slopes = []
    for row, share in enumerate((0.0, 0.5, 1.0)):
        points = [(share * e + (1 - share) * p)[:, row : row + 1] for e, p in zip(expert, policy, strict=True)]
        squares = 0.0
        for part in range(4):  # obs, action, (next_obs does not count,) the flag
            for place in range(points[part].shape[-1]):
                moved = [each.clone() for each in points]
                moved[part][..., place] += 1e-3
                up, down = (adversarial.logits(adversary, state, Steps(*each), gamma) for each in (moved, points))
                squares += (float(up - down) / 1e-3) ** 2
        slopes.append(math.sqrt(squares))
    assert found == pytest.approx(sum((slope - 1) ** 2 for slope in slopes) / 3, rel=2e-2)


@pytest.mark.parametrize("horizon", ["absorbing", "ignore"])
@pytest.mark.parametrize("name", ["gail", "airl"])
def test_what_lies_behind_a_terminal_state_is_paid_at_once(name: str, horizon: str) -> None:
    adversary, state = made(name, data={"path": demonstrations("discrete", True)}, algo={"horizon": horizon, "reward_steps": 1})
    generator = torch.Generator().manual_seed(0)
    obs, next_obs = (torch.randn(1, 6, 2, 4, generator=generator) for _ in "ab")
    terminated = torch.zeros(1, 6, 2, dtype=torch.bool)
    terminated[0, 3, 1] = True
    rollout = SimpleNamespace(
        obs=obs, next_obs=next_obs, action=torch.randint(2, (1, 6, 2), generator=generator), terminated=terminated, valid=None,
        reward=torch.full((1, 6, 2), 99.0), log_prob=torch.full((1, 6, 2), -0.7),
    )  # fmt: skip
    hp, likely = numbers(gamma=0.9), lambda obs, action: torch.full(obs.shape[:2], -0.7)
    judged = (adversary, state, rollout, hp, likely, torch.zeros(1, 1, 1, dtype=torch.int64), 0, None)
    paid, after, readings = adversarial.judge(*judged)  # type: ignore[arg-type]
    assert not torch.equal(after["reward"], state["reward"])
    own = adversarial._own_steps(adversary, rollout, adversarial._moments(after))  # type: ignore[arg-type]
    logit = adversarial.logits(adversary, after, own, hp.gamma) - (-0.7 if name == "airl" else 0.0)
    expected = adversarial.to_reward(adversary.config, logit).view(1, 6, 2)
    if horizon == "absorbing":
        absorbed = adversarial._absorbed(own, 1)
        assert [float(each.abs().sum()) for each in absorbed] == [0, 0, 0, 1, 1]
        for_ever = adversarial.to_reward(adversary.config, adversarial.logits(adversary, after, absorbed, hp.gamma))
        expected[0, 3, 1] += 9.0 * float(for_ever)  # 0.9 + 0.81 + ...
    torch.testing.assert_close(paid, expected)
    assert float(readings["train/adversary/absorbing_share"]) == pytest.approx(9 / 21)
    behind = 9 * adversary.terminations
    assert behind > 0
    assert float(readings["train/adversary/absorbing_shown"]) == pytest.approx(behind / (behind + adversary.data.size))


def test_an_absorbing_state_that_was_demonstrated_comes_to_pay_and_one_that_was_not_comes_to_cost() -> None:
    paid = {}
    for shown in (True, False):
        adversary, state = made(data={"path": demonstrations("discrete", shown)}, algo={"reward_form": "logit", "reward_batch_size": 64})
        obs = torch.randn(1, 20, 2, 4, generator=torch.Generator().manual_seed(1)) * 0.5
        ends = torch.zeros(1, 20, 2, dtype=torch.bool) if shown else torch.ones(1, 20, 2, dtype=torch.bool)
        rollout = SimpleNamespace(
            obs=obs, next_obs=obs, action=torch.zeros(1, 20, 2, dtype=torch.int64), terminated=ends, valid=None,
            reward=torch.zeros(1, 20, 2), log_prob=torch.zeros(1, 20, 2),
        )  # fmt: skip
        for iteration in range(30):
            judged = (adversary, state, rollout, numbers(), lambda obs, action: obs[..., 0], torch.zeros(1, 1, 1, dtype=torch.int64))
            _, state, _ = adversarial.judge(*judged, iteration, None)  # type: ignore[arg-type]
        own = adversarial._own_steps(adversary, rollout, adversarial._moments(state))  # type: ignore[arg-type]
        paid[shown] = float(adversarial.logits(adversary, state, adversarial._absorbed(own, 1), torch.tensor([[0.9]])))
    assert paid[True] > 0.5
    assert paid[False] < -0.5


@pytest.mark.parametrize(("name", "task"), [("gail", "discrete"), ("airl", "box")])
def test_a_member_learns_as_it_would_alone_and_a_resume_goes_on_to_the_same_bytes(tmp_path: Path, name: str, task: str) -> None:
    configs = [make_config(name, task, seed) for seed in (3, 4)]
    together = train(tmp_path / "together", configs)
    (alone,) = train(tmp_path / "alone", configs[1:])
    assert table(together[1]) == table(alone)
    with pytest.raises(Interrupted):
        train(tmp_path / "killed", configs[1:], callback=interrupt_at(64))
    (killed,) = Store(tmp_path / "killed" / "runs").runs()
    train_runs([killed], resume=True)
    assert table(killed) == table(alone)
    said = (alone.path / "metrics.csv").read_text().splitlines()
    assert "train/adversary/policy_accuracy" in said[0]
    assert Run(alone.path).record["recorded"]["episodes"] == 12


def test_the_environments_reward_is_not_looked_at(tmp_path: Path) -> None:
    plain, scaled = (make_config(env={"reward_scale": scale}) for scale in (1.0, -7.0))
    (one,), (other,) = train(tmp_path / "a", [plain]), train(tmp_path / "b", [scaled])
    names = ("train/adversary/reward_mean", "train/loss/policy", "train/loss/value")
    assert [[row[name] for name in names] for row in table(one)] == [[row[name] for name in names] for row in table(other)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"env": {"normalize_reward": True}}, "env.normalize_reward=true, but gail learns a reward of its own"),
        ({"run": {"engine": "compiled"}}, "run.engine=compiled, but the reward of gail is learned"),
        ({"data": {"then_online": True}}, "data.then_online=true, but gail acts from the start"),
    ],
)
def test_what_a_learned_reward_leaves_no_room_for(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words):
        make_config(**changes)


def test_without_demonstrations_there_is_nothing_to_imitate(tmp_path: Path) -> None:
    config = make_config()
    with pytest.raises((ConfigError, RunError), match="none is named"):
        train(tmp_path, [config.model_copy(update={"data": None})])


def test_a_policy_that_is_loaded_needs_no_demonstrations() -> None:
    config = make_config().model_copy(update={"data": None})
    plan = assembly.plan_for(config, envs.make(config.env, [0], 2))
    assert assembly.fresh_learner(plan, [0], 2).bonus is None
