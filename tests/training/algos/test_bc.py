"""Behaviour cloning by hand, and what it learns."""

import math

import pytest
import torch

from rlclinic.training.algos.offline import bc
from rlclinic.training.loops import off_policy, offline
from rlclinic.training.nets import fitted_actor
from tests.training.recordings import bench, make_config


def test_the_squared_loss_is_the_mean_distance_of_the_squashed_mean() -> None:
    at = bench(make_config("bc"))
    batch, params = at.batch(4), at.networks()
    loss, readings = bc.actor_loss(at.plan.config, params, batch, at.numbers())
    by_hand = [(math.tanh(float(params("actor", batch.obs)[0, row, 0])) - float(batch.action[0, row, 0])) ** 2 for row in range(4)]
    assert readings["actor"][0].tolist() == pytest.approx(by_hand, rel=1e-4)
    assert float(loss) == pytest.approx(sum(by_hand) / 4, rel=1e-4)


def test_the_likelihood_of_choices_is_the_softmax_with_its_entropy() -> None:
    at = bench(make_config("bc of choices"))
    batch, params = at.batch(4), at.networks()
    loss, _ = bc.actor_loss(at.plan.config, params, batch, at.numbers())
    total = 0.0
    for row in range(4):
        logits = params("actor", batch.obs)[0, row].tolist()
        chances = [math.exp(each) / sum(map(math.exp, logits)) for each in logits]
        total -= math.log(chances[int(batch.action[0, row, 0])])
        total += 1e-3 * sum(chance * math.log(chance) for chance in chances)
    assert float(loss) == pytest.approx(total / 4, rel=1e-5)


def test_the_likelihood_of_vectors_is_the_normals_and_its_deviation_becomes_that_of_the_errors() -> None:
    at = bench(make_config("bc by likelihood"))
    batch, params = at.batch(4), at.networks()
    log_prob, entropy = fitted_actor.log_prob_entropy(params, batch.obs, batch.action)
    normal = torch.distributions.Normal(fitted_actor.mean(params, batch.obs), 1.0)
    assert torch.allclose(log_prob, normal.log_prob(batch.action).sum(-1))
    assert torch.allclose(entropy, normal.entropy().sum(-1))
    learner = at.learner
    for _ in range(12):
        learner, _ = offline.learn(at.plan, learner, at.data, at.numbers(), None, at.seed)
    params = off_policy.networks(at.plan, learner)
    whole = offline.batch_of(at.plan, learner, at.data, at.data.chosen.unsqueeze(0), at.numbers())
    spread = (whole.action - fitted_actor.mean(params, whole.obs)).square().mean().sqrt()
    assert float(fitted_actor.deviations(params).exp()) == pytest.approx(float(spread), rel=0.15)


def test_recorded_actions_are_learned_between_minus_one_and_one() -> None:
    at = bench(make_config("bc"))
    assert float(at.data.actions.abs().max()) <= 1.0
    assert torch.allclose(off_policy.to_env(at.plan, at.data.actions[:5]), torch.from_numpy(at.data.data.actions[:5].copy()), atol=1e-6)
