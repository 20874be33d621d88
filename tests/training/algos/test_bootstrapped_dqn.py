"""Bootstrapped DQN: every head learns alone from its own rows, on top of a prior that never moves, and acts for whole episodes."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import Config
from rlclinic.training.algos import bootstrapped_dqn
from rlclinic.training.loops import off_policy
from rlclinic.training.nets.q_nets import HEAD
from tests.training.cohorts import make_config
from tests.training.replays import Bench, of_kind

SGD = {"optimizer": "sgd", "learning_rate": 1.0, "max_grad_norm": None}
"""A step of such an optimizer is the gradient itself."""
TRUNKS = pytest.mark.parametrize("shared", [False, True])


def ready(**algo: Any) -> Bench:
    at = of_kind("bootstrapped_dqn", algo=algo)
    while at.env_steps < 150:
        at.iterate(learn=False)
    return at


def split(at: Bench, flat: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What learns and what does not, [M, copies / 2, ...] by name."""
    net = at.plan.nets["q"]
    named = {name: tensor.unflatten(0, (-1, net.copies)) for name, tensor in net.params(flat).items()}
    half = net.copies // 2
    return {name: tensor[:, :half] for name, tensor in named.items()}, {name: tensor[:, half:] for name, tensor in named.items()}


def slow_values(at: Bench, flat: Tensor, obs: Tensor) -> Tensor:
    """Q_k(s, a) [M, K, B, A], one member, one network and one layer at a time."""
    config, (learned, prior), rows = at.plan.config, split(at, flat), []
    for member in range(len(flat)):
        said = []
        for part in (learned, prior):
            for copy in range(part[f"{HEAD}.bias"].shape[1]):
                x = obs[member]
                for layer in range(len(at.plan.nets["q"].hidden)):
                    weight, bias = (part[f"trunk.{layer}.{kind}"][member, copy] for kind in ("weight", "bias"))
                    x = functional.relu(x @ weight + bias)
                said.append(x @ part[f"{HEAD}.weight"][member, copy].T + part[f"{HEAD}.bias"][member, copy])
        half = len(said) // 2
        heads = [one + other.detach() for one, other in zip(said[:half], said[half:], strict=True)]
        if config.shared_trunk:
            heads = list(heads[0].chunk(config.n_heads, -1))
        rows.append(torch.stack(heads))
    return torch.stack(rows)


@TRUNKS
@pytest.mark.parametrize("double", [False, True])
def test_a_step_descends_the_masked_huber_loss_of_every_head(shared: bool, double: bool) -> None:
    at = ready(**SGD, shared_trunk=shared, double=double, n_heads=3)
    at.learner.targets["q"].mul_(0.7)  # a target that is not the network itself
    batch, noise = at.batch(), at.noise(16)
    before, after = at.learner, off_policy.copy_learner(at.learner)
    found = bootstrapped_dqn.update(at.plan, after, batch, at.numbers(), None, noise)

    leaf = before.nets["q"].clone().requires_grad_()
    with torch.no_grad():
        judged = slow_values(at, before.targets["q"], batch.next_obs)
        chosen = slow_values(at, leaf, batch.next_obs) if double else judged
        target = batch.reward.unsqueeze(1) + batch.discount.unsqueeze(1) * judged.gather(-1, chosen.argmax(-1, keepdim=True)).squeeze(-1)
    q = slow_values(at, leaf, batch.obs).gather(-1, batch.action.unsqueeze(1).expand(-1, 3, -1, -1)).squeeze(-1)
    assert noise is not None
    assert batch.places is not None
    mask = bootstrapped_dqn.bootstrap_mask(at.plan.config, noise, batch.places)
    assert 0 < mask.mean() < 1
    by_head = (functional.huber_loss(q, target, reduction="none") * mask).mean(-1)
    loss = by_head.mean(1) if shared else by_head.sum(1)
    grad = torch.autograd.grad(loss.sum(), leaf)[0]
    torch.testing.assert_close(before.nets["q"] - after.nets["q"], grad, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found["q"], q.detach().mean(1), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found["disagreement"], q.detach().std(1), atol=1e-5, rtol=1e-4)


@TRUNKS
def test_priors_never_move_and_everything_else_does(shared: bool) -> None:
    at = ready(shared_trunk=shared)
    before = at.learner.nets["q"].clone()
    at.iterate()
    (learned, prior), (was, prior_was) = split(at, at.learner.nets["q"]), split(at, before)
    for name in prior:
        assert torch.equal(prior[name], prior_was[name])
        assert not torch.equal(learned[name], was[name])
    for name, tensor in split(at, at.learner.targets["q"])[1].items():
        assert torch.equal(tensor, prior_was[name])


def test_the_priors_scale_is_what_heads_disagree_by_at_first() -> None:
    def spread(scale: float) -> Tensor:
        at = of_kind("bootstrapped_dqn", algo={"prior_scale": scale, "n_heads": 20})
        obs = torch.linspace(-1, 1, 8 * 4).view(1, 8, 4).expand(2, -1, -1)
        return bootstrapped_dqn.values(at.plan.config, off_policy.networks(at.plan, at.learner), obs).std(1).mean()

    assert spread(30.0) > 5 * spread(3.0) > 5 * spread(0.0)


def test_a_head_that_may_not_learn_from_any_row_stays_as_it_is() -> None:
    at = ready(**SGD, mask_probability=1e-9)
    after = off_policy.copy_learner(at.learner)
    found = bootstrapped_dqn.update(at.plan, after, at.batch(), at.numbers(), None, at.noise(16))
    assert torch.equal(after.nets["q"], at.learner.nets["q"])
    assert float(found["norm"].max()) == 0.0


def test_a_row_belongs_to_the_same_heads_whenever_it_is_drawn() -> None:
    config = make_config("bootstrapped_dqn", algo={"mask_probability": 0.3, "n_heads": 8}).algo
    seed = torch.tensor([3, 4]).view(-1, 1, 1)
    rows = torch.arange(2_000).expand(2, -1)
    mask = bootstrapped_dqn.bootstrap_mask(config, seed, rows)  # type: ignore[arg-type]
    assert torch.equal(mask[:, :, 5:9], bootstrapped_dqn.bootstrap_mask(config, seed, rows[:, 5:9]))  # type: ignore[arg-type]
    assert (mask.mean(-1) - 0.3).abs().max() < 0.04
    assert not torch.equal(mask[0], mask[1])  # members draw their own
    assert mask.flatten(0, 1).corrcoef().triu(1).abs().max() < 0.1  # and so do heads


def test_one_head_acts_for_a_whole_episode_and_each_has_its_turn() -> None:
    at = of_kind("bootstrapped_dqn", algo={"n_heads": 4, "learning_starts": 0, "train_freq": 1}, env={"max_episode_steps": 6})
    heads: list[Tensor] = []
    ends: list[Tensor] = []
    collector = off_policy.Collector(at.plan, at.env, at.seed, 0, {"env": 0.0, "act": 0.0})
    hp = at.numbers()
    for step in range(at.plan.cycles):
        at.learner = collector.collect(at.learner, at.position, at.memory, hp)
        assert at.learner.drift is not None
        heads.append(at.learner.drift.clone())
        ends.append(collector._lived[-1].end[:, 0])
        if step:
            before, over = heads[-2].squeeze(-1), ends[-1]
            kept = (before > 0) & ~over
            assert torch.equal(heads[-1].squeeze(-1)[kept], before[kept])
            assert (heads[-1].squeeze(-1)[over] == 0).all()
    assert torch.stack(ends).any()
    assert {int(head) for head in torch.stack(heads).flatten()} == {0, 1, 2, 3, 4}


def test_most_heads_decide_and_of_equals_what_they_value_more() -> None:
    one, other = [1.0, 0.0, 0.0], [0.0, 0.2, 0.1]
    most = torch.tensor([[[one], [other], [other]]])  # [M, K, B, A]
    assert bootstrapped_dqn.vote(most, None).item() == 1
    equal = torch.tensor([[[one], [other]]])
    assert bootstrapped_dqn.vote(equal, None).item() == 0
    assert bootstrapped_dqn.vote(equal, torch.tensor([[[False, True, True]]])).item() == 1


def test_a_cohort_has_heads_of_its_own_for_every_member() -> None:
    at = ready()
    weights = at.learner.nets["q"].unflatten(1, (at.plan.nets["q"].copies, -1))
    rows = weights.flatten(0, 1)
    assert len(torch.unique(rows, dim=0)) == len(rows)
    alone = of_kind("bootstrapped_dqn", seeds=(1,))
    assert torch.equal(alone.learner.nets["q"][0], at.learner.nets["q"][1])


def test_masks_of_actions_hold_for_every_head() -> None:
    at = ready()
    batch = at.batch()
    forbidden = torch.ones(*batch.reward.shape, 2, dtype=torch.bool)
    forbidden[..., 1] = False
    params, targets = off_policy.networks(at.plan, at.learner), off_policy.target_networks(at.plan, at.learner)
    made = bootstrapped_dqn.head_targets(at.plan.config, params, targets, batch._replace(next_mask=forbidden))
    first = bootstrapped_dqn.values(at.plan.config, targets, batch.next_obs)[..., 0]
    torch.testing.assert_close(made, batch.reward.unsqueeze(1) + batch.discount.unsqueeze(1) * first)
    action, _, _ = bootstrapped_dqn.explore(
        at.plan, params, batch.obs, forbidden, torch.rand(*batch.reward.shape, 2), at.numbers(), torch.zeros(*batch.reward.shape, 1)
    )
    assert not action.any()


def test_a_prior_does_not_decay() -> None:
    with pytest.raises(ValueError, match="weight_decay"):
        Config.model_validate({"env": {"id": "CartPole-v1"}, "algo": {"name": "bootstrapped_dqn", "weight_decay": 0.1}})


def test_the_passes_with_and_without_a_graph_say_the_same() -> None:
    at = ready()
    params, obs = off_policy.networks(at.plan, at.learner), at.batch(32).obs
    with torch.enable_grad():
        slow = bootstrapped_dqn.values(at.plan.config, params, obs)
    with torch.no_grad():
        quick = bootstrapped_dqn.values(at.plan.config, params, obs)
    torch.testing.assert_close(slow.detach(), quick, atol=1e-6, rtol=1e-5)
