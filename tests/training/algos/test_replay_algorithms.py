"""One gradient step of DQN, TD3 and SAC against losses written down a second time and differentiated by PyTorch."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from torch.nn import functional

from rlclinic.training.data.replay import Batch
from rlclinic.training.envs.native import PROBES
from rlclinic.training.envs.native.probes import optimal_values
from rlclinic.training.fast import dqn, sac
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import squashed
from rlclinic.training.nets import q_nets
from tests.training.cohorts import REPLAY, task_of
from tests.training.replays import Bench, of_kind

SGD = {"optimizer": "sgd", "learning_rate": 1.0, "max_grad_norm": None}
"""A step of such an optimizer is the gradient itself."""


def ready(kind: str, **algo: Any) -> Bench:
    at = of_kind(kind, algo={**SGD, **algo})
    while at.env_steps < 150:
        at.iterate(learn=False)
    return at


def outputs(at: Bench, name: str, flat: Tensor, x: Tensor) -> Tensor:
    net = at.plan.nets[name]
    with torch.enable_grad():
        return q_nets.outputs(net, net.params(flat), x)


def stepped(at: Bench, batch: Batch, updates: int = 0) -> tuple[off_policy.Learner, off_policy.Learner, dict[str, Tensor]]:
    """The learner before and after one gradient step, and the readings."""
    before = replace(at.learner, updates=updates)
    after = off_policy.copy_learner(before)
    found = at.plan.updates.update(at.plan, after, batch, at.numbers(), None, at.noise(batch.reward.shape[1]))
    return before, after, found


def gradient(loss: Tensor, leaf: Tensor) -> Tensor:
    return torch.autograd.grad(loss.sum(), leaf)[0]


@pytest.mark.parametrize("switches", [{}, {"double": True}, {"dueling": True}, {"double": True, "dueling": True, "n_step": 3}])
def test_dqn_descends_the_huber_loss_of_the_td_error(switches: dict[str, Any]) -> None:
    at = ready("dqn", **switches)
    at.learner.targets["q"].mul_(0.7)  # a target that is not the network itself
    batch = at.batch()
    before, after, found = stepped(at, batch)
    leaf = before.nets["q"].clone().requires_grad_()

    def values(flat: Tensor, obs: Tensor) -> Tensor:
        out = outputs(at, "q", flat, obs)
        return out[..., :1] + out[..., 1:] - out[..., 1:].mean(-1, keepdim=True) if switches.get("dueling") else out

    following = values(before.targets["q"], batch.next_obs)
    if switches.get("double"):
        best = values(before.nets["q"], batch.next_obs).argmax(-1)
        following = following.gather(-1, best.unsqueeze(-1)).squeeze(-1)
    else:
        following = following.max(-1).values
    target = (batch.reward + batch.discount * following).detach()
    q = values(leaf, batch.obs).gather(-1, batch.action).squeeze(-1)
    loss = functional.smooth_l1_loss(q, target, reduction="none").mean(1)
    assert torch.allclose(found["target"], target, atol=1e-5)
    assert torch.allclose(before.nets["q"] - after.nets["q"], gradient(loss, leaf), atol=1e-5)


@pytest.mark.parametrize("switches", [{}, {"double": True}, {"dueling": True, "n_step": 3}])
def test_what_the_target_says_of_a_whole_turn_is_what_it_says_step_by_step(switches: dict[str, Any], monkeypatch: Any) -> None:
    ahead, stepwise = (ready("dqn", gradient_steps=5, **switches) for _ in range(2))
    for at in (ahead, stepwise):
        at.learner.targets["q"].mul_(0.7)
    ahead.iterate()
    monkeypatch.setattr(dqn, "add_target_values", lambda plan, learner, batch: batch)
    stepwise.iterate()
    assert ahead.learner.updates == stepwise.learner.updates > 0
    for name in ("target", "q", "error"):
        for one, other in zip(ahead.readings[name], stepwise.readings[name], strict=True):
            assert torch.allclose(one, other, atol=1e-5), name
    assert torch.allclose(ahead.learner.nets["q"], stepwise.learner.nets["q"], atol=1e-5)


@pytest.mark.parametrize("bound", [None, 1e-3, 10.0])
def test_a_whole_turn_of_dqn_is_its_updates_one_after_the_other_to_the_last_bit(bound: float | None, monkeypatch: Any) -> None:
    algo = {"optimizer": "adam", "learning_rate": 1e-2, "gradient_steps": 7, "n_step": 2, "max_grad_norm": bound}
    whole, stepwise = (ready("dqn", **algo) for _ in range(2))
    taken = []
    monkeypatch.setattr(dqn, "update_all", lambda *given, update=dqn.update_all: taken.append(1) or update(*given))
    for at, active in ((whole, None), (stepwise, torch.ones(2, 1, dtype=torch.bool))):
        at.learner.targets["q"].mul_(0.7)
        at.iterate(learn=False)
        at.learner = off_policy.copy_learner(at.learner)
        at.learner, at.readings = off_policy.learn(at.plan, at.learner, at.memory, at.numbers(), active, at.seed)
        monkeypatch.setattr(dqn, "covers_updates", lambda plan, batch: False)
    assert len(taken) == 1
    assert whole.learner.updates == stepwise.learner.updates > 0
    assert whole.readings.keys() == stepwise.readings.keys()
    for name, readings in stepwise.readings.items():
        assert all(torch.equal(one, other) for one, other in zip(whole.readings[name], readings, strict=True)), name
    states = [(at.learner.nets["q"], *at.learner.optimizers["q"]) for at in (whole, stepwise)]
    for one, other in zip(*states, strict=True):
        assert torch.equal(one, other)
    if bound == 1e-3:
        assert min(float(norm.min()) for norm in whole.readings["norm"]) > bound, "every step was to be clipped"


def test_a_turn_leaves_members_alone_that_are_not_active() -> None:
    at = ready("dqn", optimizer="adam", learning_rate=1e-2, gradient_steps=3)
    before, at.learner = at.learner, off_policy.copy_learner(at.learner)
    active = torch.tensor([[False], [True]])
    after, readings = off_policy.learn(at.plan, at.learner, at.memory, at.numbers(), active, at.seed)
    changed = [not torch.equal(after.nets["q"][member], before.nets["q"][member]) for member in range(2)]
    assert changed == [False, True]
    assert after.optimizers["q"].steps.flatten().tolist() == [0.0, 3.0]
    assert [float(reading[0].abs().sum()) for reading in readings["q"]] == [0.0] * 3


@pytest.mark.parametrize("switches", [{}, {"dueling": True}])
def test_a_prepared_turn_chooses_as_step_by_step(switches: dict[str, Any], monkeypatch: Any) -> None:
    prepared, stepwise = (of_kind("dqn", algo={"learning_starts": 20, "exploration_fraction": 1.0, **switches}) for _ in range(2))
    transitions = []
    for at, shortest in ((prepared, 1), (stepwise, 1000)):
        monkeypatch.setattr(off_policy, "LONG_TURN", shortest)
        transitions.append([at.iterate(learn=False) for _ in range(3)][-1])
    for name in ("action", "explored", "obs", "reward"):
        assert torch.equal(getattr(transitions[0], name), getattr(transitions[1], name)), name
    assert transitions[0].explored is not None
    assert 0 < float(transitions[0].explored.float().mean()) < 1


def test_importance_weights_scale_each_rows_pull() -> None:
    at = ready("dqn")
    batch = at.batch()
    weight = torch.rand_like(batch.reward)
    before, after, found = stepped(at, batch._replace(weight=weight))
    leaf = before.nets["q"].clone().requires_grad_()
    q = outputs(at, "q", leaf, batch.obs).gather(-1, batch.action).squeeze(-1)
    loss = (functional.smooth_l1_loss(q, found["target"], reduction="none") * weight).mean(1)
    assert torch.allclose(before.nets["q"] - after.nets["q"], gradient(loss, leaf), atol=1e-5)


def critic_values(at: Bench, flat: Tensor, obs: Tensor, action: Tensor) -> Tensor:
    copies = at.plan.nets["critic"].copies
    return outputs(at, "critic", flat, torch.cat([obs, action], -1)).view(-1, copies, obs.shape[1])


@pytest.mark.parametrize("kind", ["td3", "ddpg"])
def test_td3_and_ddpg_descend_squared_errors_and_climb_the_first_critic(kind: str) -> None:
    at = ready(kind, n_step=1, target_policy_noise=0.5, target_noise_clip=0.3)
    batch, hp = at.batch(), at.numbers()
    noise = at.noise(16)
    assert noise is not None
    delay = at.plan.config.policy_delay
    before, after, found = stepped(at, batch, updates=delay - 1)
    blur = (noise * 0.5).clamp(-0.3, 0.3)
    action = (outputs(at, "actor", before.targets["actor"], batch.next_obs).tanh() + blur).clamp(-1, 1)
    following = critic_values(at, before.targets["critic"], batch.next_obs, action).min(1).values
    target = (batch.reward + batch.discount * following).detach()
    leaf = before.nets["critic"].clone().requires_grad_()
    loss = (critic_values(at, leaf, batch.obs, batch.action) - target.unsqueeze(1)).square().mean(-1).sum(-1)
    assert torch.allclose(found["target"], target, atol=1e-5)
    assert torch.allclose(before.nets["critic"] - after.nets["critic"], gradient(loss, leaf), atol=1e-4)
    leaf = before.nets["actor"].clone().requires_grad_()
    chosen = outputs(at, "actor", leaf, batch.obs).tanh()
    gain = critic_values(at, after.nets["critic"], batch.obs, chosen)[:, 0].mean(-1)
    assert torch.allclose(before.nets["actor"] - after.nets["actor"], gradient(-gain, leaf), atol=1e-5)
    for name in ("actor", "critic"):
        moved = before.targets[name] + hp.tau * (after.nets[name] - before.targets[name])
        assert torch.allclose(after.targets[name], moved, atol=1e-6)


def test_td3s_actor_and_targets_wait_for_the_policy_delay() -> None:
    at = ready("td3", n_step=1, policy_delay=3)
    for updates, moves in ((0, False), (1, False), (2, True)):
        before, after, found = stepped(at, at.batch(), updates)
        assert torch.equal(before.nets["actor"], after.nets["actor"]) != moves
        assert torch.equal(before.targets["critic"], after.targets["critic"]) != moves
        assert not torch.equal(before.nets["critic"], after.nets["critic"])
        assert ("actor" in found) == moves


@pytest.mark.parametrize("kind", ["sac", "sac with a fixed temperature"])
def test_sac_descends_its_three_losses(kind: str) -> None:
    at = ready(kind, n_step=1, batch_size=16)
    batch, hp, noise = at.batch(), at.numbers(), at.noise(16)
    assert noise is not None
    before, after, found = stepped(at, batch)
    alpha = torch.full((2, 1), 0.1) if "fixed" in kind else before.nets["log_alpha"].exp()

    def policy(flat: Tensor, obs: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = outputs(at, "actor", flat, obs).chunk(2, -1)
        normal = Normal(mean, log_std.clamp(-20, 2).exp())
        dist = Independent(TransformedDistribution(normal, [TanhTransform(cache_size=1)]), 1)
        action = (normal.mean + normal.stddev * drawn).tanh()
        return action, dist.log_prob(action)

    action, log_prob = policy(before.nets["actor"], batch.next_obs, noise[:, 1])
    following = critic_values(at, before.targets["critic"], batch.next_obs, action).min(1).values - alpha * log_prob
    target = (batch.reward + batch.discount * following).detach()
    assert torch.allclose(found["target"], target, atol=1e-3)
    leaf = before.nets["critic"].clone().requires_grad_()
    loss = 0.5 * (critic_values(at, leaf, batch.obs, batch.action) - found["target"].unsqueeze(1)).square().mean(-1).sum(-1)
    assert torch.allclose(before.nets["critic"] - after.nets["critic"], gradient(loss, leaf), atol=1e-4)
    leaf = before.nets["actor"].clone().requires_grad_()
    action, log_prob = policy(leaf, batch.obs, noise[:, 0])
    value = critic_values(at, after.nets["critic"], batch.obs, action).min(1).values
    loss = (alpha * log_prob - value).mean(-1)
    assert torch.allclose(before.nets["actor"] - after.nets["actor"], gradient(loss, leaf), atol=2e-3)
    moved = before.nets["log_alpha"] - after.nets["log_alpha"]
    expected = -(log_prob.detach() + hp.target_entropy).mean(-1, keepdim=True)
    assert torch.allclose(moved, torch.zeros_like(moved) if "fixed" in kind else expected, atol=1e-3)


def test_a_learned_temperature_rises_while_the_entropy_is_too_low() -> None:
    at = ready("sac", n_step=1)
    before = at.learner
    for log_prob, rises in ((50.0, True), (-50.0, False)):
        after = off_policy.copy_learner(before)
        sac.update_temperature(at.plan, after, torch.full((2, 16), log_prob), at.numbers(), None)
        assert ((after.nets["log_alpha"] > before.nets["log_alpha"]) == rises).all()


def test_members_with_a_learned_and_a_fixed_temperature_train_side_by_side() -> None:
    learned = of_kind("sac", seeds=(3,))
    mixed = of_kind("sac", seeds=(3,))
    pair = SimpleNamespace(**vars(mixed))
    assert learned.numbers().ent_coef is None
    both = of_kind("sac", seeds=(3, 4))
    fixed = both.config.model_copy(update={"algo": both.config.algo.model_copy(update={"ent_coef": 0.2})})
    both.members[1].config = fixed
    hp = both.numbers()
    assert hp.ent_coef.isnan().flatten().tolist() == [True, False]
    assert pair.plan.algo.temperature(off_policy.networks(both.plan, both.learner), hp).flatten().tolist() == pytest.approx([1.0, 0.2])
    while both.env_steps < 200:
        both.iterate()
    assert float(both.learner.nets["log_alpha"][0]) != 0.0
    assert float(both.learner.nets["log_alpha"][1]) == 0.0


@pytest.mark.parametrize("kind", REPLAY)
def test_the_loss_falls_on_a_fixed_batch(kind: str) -> None:
    at = of_kind(kind, algo={"learning_rate": 1e-3})
    while at.env_steps < 150:
        at.iterate(learn=False)
    batch, hp = at.batch(64), at.numbers()
    noise = off_policy.update_noise(replace(at.plan, config=at.plan.config.model_copy(update={"batch_size": 64})), at.seed, 0, 1)
    learner = off_policy.copy_learner(at.learner)
    params, target_params = off_policy.networks(at.plan, learner), off_policy.target_networks(at.plan, learner)
    target = at.plan.algo.targets(at.plan.config, params, target_params, batch, hp, None if noise is None else noise[:, 0])
    errors = []
    for _ in range(60):
        errors.append((at.plan.algo.q_values(at.plan.config, params, batch) - target).square().mean(1))
        at.plan.updates.update(at.plan, learner, batch, hp, None, None if noise is None else noise[:, 0])
    assert (errors[-1] < errors[0]).all()
    assert all(torch.isfinite(flat).all() for flat in learner.nets.values())


def test_exploring_acts_at_random_as_often_as_epsilon_says() -> None:
    at = of_kind("dqn", algo={"learning_starts": 0, "exploration_eps": 0.3})
    shares = [at.iterate(learn=False).explored for _ in range(10)]
    assert torch.cat([each.float().flatten() for each in shares if each is not None]).mean() == pytest.approx(
        0.3 / 2, abs=0.04
    )  # of two actions, one is the best


def test_sac_acts_with_its_own_spread_and_evaluates_at_its_mean() -> None:
    at = of_kind("sac")
    params = off_policy.networks(at.plan, at.learner)
    obs = torch.randn(2, 3, 3)
    dist = params("actor", obs).detach()
    assert torch.equal(at.plan.algo.act(at.plan, params, obs, None, None).detach(), squashed.mode(dist))
    noise = torch.randn(2, 3, 1)
    assert torch.equal(at.plan.algo.act(at.plan, params, obs, None, noise).detach(), squashed.draw(dist, noise, -20, 2))
    assert task_of("sac") == "box"


# ── known answers ──

LEARNS: dict[str, dict[str, Any]] = {
    "dqn": {"learning_rate": 1e-2, "gamma": 0.5, "target_update_interval": 50, "exploration_final_eps": 0.3, "batch_size": 32},
    "dqn with everything": {"learning_rate": 1e-2, "gamma": 0.5, "target_update_interval": 50, "n_step": 2, "batch_size": 32},
    "td3": {"learning_rate": 3e-3, "gamma": 0.5, "tau": 0.05, "action_noise_std": 0.5, "batch_size": 32, "gradient_steps": 8},
    "ddpg": {"learning_rate": 3e-3, "gamma": 0.5, "tau": 0.05, "action_noise": "gaussian", "action_noise_std": 0.5, "gradient_steps": 8},
    "sac": {"learning_rate": 1e-2, "gamma": 0.5, "tau": 0.05, "ent_coef": 0.01, "n_step": 1, "batch_size": 32, "gradient_steps": 8},
}


def probes() -> list[Any]:
    """Every algorithm with every probe whose actions it can take; without -m loop DQN with all, the others with the hardest."""
    found = []
    for kind in LEARNS:
        for probe in PROBES:
            continuous = probe == "probe:continuous"
            if continuous == (task_of(kind) == "box"):
                easier = not continuous and kind != "dqn" and probe != "probe:5"
                found.append(pytest.param(kind, probe, marks=[pytest.mark.loop] if easier else []))
    return found


@pytest.mark.parametrize(("kind", "probe"), probes())
def test_it_learns_the_known_values_and_actions_of_a_probe(kind: str, probe: str) -> None:
    settings = {"buffer_size": 2_000, "learning_starts": 100, **LEARNS[kind]}
    at = of_kind(kind, env={"id": probe, "n_envs": 2}, algo=settings, net={"hidden": [32, 32]}, run={"max_env_steps": 6_000})
    while at.env_steps < (3_000 if task_of(kind) == "discrete" else 1_500):
        at.iterate()
    for answer in PROBES[probe].answers:
        obs = torch.full((2, 1, 1), answer.obs)
        chosen = at.plan.algo.act(at.plan, off_policy.networks(at.plan, at.learner), obs, None, None).detach()
        batch = Batch(obs, chosen.view(2, 1, 1), *(torch.zeros(2, 1),) * 2, obs)
        value = at.plan.algo.q_values(at.plan.config, off_policy.networks(at.plan, at.learner), batch).flatten().tolist()
        assert value == pytest.approx([optimal_values(probe, 0.5)[answer.obs]] * 2, abs=0.15)
        if answer.action is not None:
            sent = off_policy.to_env(at.plan, chosen).flatten().tolist()
            assert sent == pytest.approx([answer.action] * 2, abs=0.2)


def test_sacs_action_noise_is_drawn_apart_from_the_policys_own() -> None:
    at = of_kind("sac", algo={"action_noise": "gaussian", "action_noise_std": 0.3})
    steps, env = torch.arange(4000).view(1, -1, 1), torch.arange(1).view(1, 1, -1)
    drawn = off_policy.exploration_noise(at.plan, at.seed, steps, env)
    assert drawn is not None
    own, added = drawn[0, :, 0].unbind(-1)
    assert abs(float((own * added).mean())) < 0.06, "what is added follows the policy's own noise"
    noise = torch.cat([torch.zeros(2, 3, 1), torch.full((2, 3, 1), 0.5)], -1)
    params, obs = off_policy.networks(at.plan, at.learner), torch.randn(2, 3, 3)
    with torch.no_grad():
        action, _, _ = at.plan.algo.explore(at.plan, params, obs, None, noise, at.numbers(), None)
        expected = (squashed.mode(params("actor", obs)) + 0.15).clamp(-1, 1)
    assert torch.allclose(action, expected, atol=1e-6)


def test_without_action_noise_sac_draws_what_it_always_drew() -> None:
    at = of_kind("sac")
    drawn = off_policy.exploration_noise(at.plan, at.seed, torch.arange(5).view(1, -1, 1), torch.arange(2).view(1, 1, -1))
    assert drawn is not None
    assert drawn.shape == (2, 5, 2, 1)
