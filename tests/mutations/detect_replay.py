"""Detectors for learners with a replay: what is stored, drawn, aimed at and done, each against its definition written out."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlclinic.training.algos import dqn, sac
from rlclinic.training.data import replay
from rlclinic.training.fast import twins
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration, losses, squashed
from rlclinic.training.nets import q_nets
from rlclinic.training.sentinels import invariants
from tests.mutations.replays import Learner


def near(found: Tensor, expected: Tensor, what: str, tolerance: float = 1e-4) -> None:
    worst = float((found - expected).abs().max())
    assert worst <= tolerance * max(1.0, float(expected.abs().max())), f"{what}: off by {worst:.3g}"


def what_is_stored_is_what_was_lived() -> None:
    """Final observations at ends, rewards and both flags, row by row."""
    at = Learner("dqn", turns=75)
    for name in ("obs", "next_obs", "action", "reward", "terminated", "truncated"):
        transitions = torch.cat([getattr(each, name).flatten(1, 2) for each in at.transitions], 1).float()
        stored = at.rows(name)
        near(stored, transitions.view_as(stored), f"stored {name}", 0.0)


def rows_are_followed_to_where_they_lead() -> None:
    """Summed rewards, discount and next observation of every row, walked step by step; with one step and with three."""
    for name in ("dqn", "dqn-steps"):
        at = Learner(name, turns=75, gamma=0.9)
        count, n_envs = at.memory.size, 2
        drawn = at.drawn(torch.arange(count).expand(2, -1))
        fields = {key: at.rows(key)[1].tolist() for key in ("reward", "terminated", "truncated", "next_obs")}
        for row in range(count):
            total, discount, here = 0.0, 1.0, row
            for step in range(at.plan.config.n_step):
                here = row + step * n_envs
                total += discount * fields["reward"][here][0]
                discount *= 0.9
                ended = fields["terminated"][here][0] or fields["truncated"][here][0]
                if ended or here + n_envs >= count:
                    break
            discount *= not fields["terminated"][here][0]
            found = (float(drawn.reward[1, row]), float(drawn.discount[1, row]))
            assert abs(found[0] - total) < 1e-4, f"row {row}: rewards add up to {found[0]:.4g}, not {total:.4g}"
            assert abs(found[1] - discount) < 1e-5, f"row {row}: what follows counts {found[1]:.4g}, not {discount:.4g}"
            near(drawn.next_obs[1, row], torch.tensor(fields["next_obs"][here]), f"what lies behind row {row}", 1e-6)


def a_time_limit_has_a_future_and_a_terminal_state_none() -> None:
    at = Learner("sac", turns=75)
    drawn = at.drawn(torch.arange(at.memory.size).expand(2, -1))
    cut = at.rows("truncated").squeeze(-1) > 0
    assert cut.any()
    assert bool((drawn.discount[cut] > 0.9).all()), "a time limit ends the bootstrap"


def rare_rows_weigh_more() -> None:
    """(p_min / p) ** beta, from the tree's own leaves."""
    at = Learner("dqn-prioritized", turns=150)
    index, weight = replay.by_priority(at.memory, at.seed, 7, 32, torch.full((2, 1), 0.5))
    tree = at.memory.tree
    assert tree is not None
    held = tree.nodes.gather(1, index + tree.leaves)
    near(weight, (held.amin(1, keepdim=True) / held).sqrt().float(), "importance weights")
    assert float(weight.min()) < 0.9, "all rows weigh the same"


def the_target_moves_when_it_should() -> None:
    """A copy every 130 env steps; in between it stays, and it is never the network's own tensor."""
    at = Learner("dqn", turns=75)
    moved = 0
    for _ in range(4):
        before, steps = at.state.targets["q"].clone(), at.env_steps
        at.iterate()
        due = at.env_steps // 130 - steps // 130
        moved += due
        changed = not torch.equal(before, at.state.targets["q"])
        assert changed == bool(due), f"the target {'moved' if changed else 'stood still'} between {steps} and {at.env_steps} env steps"
        assert not torch.equal(at.state.targets["q"], at.state.nets["q"]), "the target is the network"
    assert 0 < moved < 4 * at.plan.cycles


def a_soft_target_takes_over_its_share() -> None:
    at = Learner("sac", turns=25)
    apart = at.state.nets["critic"] + 1.0
    state = type(at.state)(**{**vars(at.state), "targets": {"critic": apart.clone()}})
    off_policy.follow(state, ("critic",), torch.full((2, 1), 0.25), None)
    near(state.targets["critic"], 0.75 * apart + 0.25 * at.state.nets["critic"], "a quarter of the way", 1e-6)


def _targets(algorithm: Any, at: Learner, state: Any, batch: replay.Batch, noise: Tensor | None = None) -> Any:
    params, target_params = off_policy.networks(at.plan, state), off_policy.target_networks(at.plan, state)
    return algorithm.targets(at.plan.config, params, target_params, batch, at.numbers(), noise)


def _q(at: Learner, flat: Tensor, obs: Tensor) -> Tensor:
    """A Q-network by hand."""
    net = at.plan.nets["q"]
    params = net.params(flat)
    hidden = obs
    for layer in range(len(net.hidden)):
        hidden = torch.relu(hidden @ params[f"trunk.{layer}.weight"] + params[f"trunk.{layer}.bias"])
    return hidden @ params["head.weight"].transpose(1, 2) + params["head.bias"]


def double_targets_are_judged_by_the_other_network() -> None:
    at = Learner("dqn", turns=150)
    # Networks that disagree, or there would be nothing to see.
    shaken = {"q": at.state.nets["q"] + 0.3 * torch.randn(at.state.nets["q"].shape, generator=torch.Generator().manual_seed(0))}
    state = type(at.state)(**{**vars(at.state), "targets": shaken})
    batch = at.drawn(torch.arange(100).expand(2, -1))
    chosen = _q(at, state.nets["q"], batch.next_obs).argmax(-1, keepdim=True)
    judged = _q(at, state.targets["q"], batch.next_obs).gather(-1, chosen).squeeze(-1)
    near(
        _targets(dqn, at, state, off_policy.prepare_batch(at.plan, state, batch)),
        batch.reward + batch.discount * judged,
        "double targets",
    )


def soft_targets_are_cautious_and_count_the_entropy() -> None:
    at = Learner("sac", turns=75, ent_coef=0.7)
    batch = at.drawn(torch.arange(32).expand(2, -1))
    noise = torch.randn(2, 2, 32, 1, generator=torch.Generator().manual_seed(1))
    actor, critic = at.plan.nets["actor"], at.plan.nets["critic"]
    dist = q_nets.outputs(actor, actor.params(at.state.nets["actor"]), batch.next_obs)
    action, log_prob = squashed.sample(dist, noise[:, 1], actor.net.log_std_min, actor.net.log_std_max)
    said = q_nets.outputs(critic, critic.params(at.state.targets["critic"]), torch.cat([batch.next_obs, action], -1)).view(2, 2, 32)
    expected = batch.reward + batch.discount * (torch.minimum(said[:, 0], said[:, 1]) - 0.7 * log_prob)
    near(_targets(sac, at, at.state, batch, noise), expected, "soft targets")
    learned = Learner("sac", turns=75)
    drawn = learned.drawn(torch.arange(32).expand(2, -1))
    cold = _targets(sac, learned, learned.state, drawn, noise)
    warm = {**learned.state.nets, "log_alpha": learned.state.nets["log_alpha"] + 1.0}
    heated = type(learned.state)(**{**vars(learned.state), "nets": warm})
    assert not torch.equal(cold, _targets(sac, learned, heated, drawn, noise)), "the temperature does not matter"


def actions_fill_the_box_of_the_environment() -> None:
    at = Learner("sac", turns=25)
    ends = torch.tensor([-1.0, 0.0, 1.0]).view(1, 3, 1)
    near(off_policy.to_env(at.plan, ends).flatten(), torch.tensor([-2.0, 0.0, 2.0]), "Pendulum's torque", 1e-6)


def epsilon_is_the_share_of_random_actions() -> None:
    q = torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(1, 4000, 4)
    noise = exploration.uniform_noise(torch.zeros(1, 1, dtype=torch.int64), 0, torch.arange(4000), 2)
    best = float((exploration.epsilon_greedy(q, torch.tensor([[0.2]]), noise) == 1).float().mean())
    assert abs(best - 0.85) < 0.03, f"the best action is taken {best:.0%} of the time, with epsilon 0.2 and four actions"


def too_much_entropy_lowers_the_temperature() -> None:
    for log_prob, sign in ((-5.0, -1), (5.0, 1)):  # entropy 5 and -5, target -1
        at = Learner("sac", turns=25)
        before = at.state.nets["log_alpha"].clone()
        twins.find_off_policy("sac").update_temperature(at.plan, at.state, torch.full((2, 32), log_prob), at.numbers(), None)
        moved = at.state.nets["log_alpha"] - before
        assert bool((moved.sign() == sign).all()), f"at an entropy of {-log_prob} the temperature moves by {float(moved[0]):.2g}"


def the_huber_slope_is_the_derivative_of_the_loss() -> None:
    error = torch.tensor([[-3.0, -0.5, 0.0, 0.5, 3.0]], requires_grad=True)
    (slope,) = torch.autograd.grad(losses.huber(error).sum(), error)
    near(twins.find_off_policy("dqn").huber_slope(error.detach()), slope, "the Huber loss's slope", 1e-6)
    expected = torch.tensor([[2.5, 0.125, 0.0, 0.125, 2.5]])
    near(losses.huber(error.detach()), expected, "the Huber loss", 1e-6)


def training_says_that_its_targets_are_right() -> None:
    """The sentinels themselves: nothing to report on training as it is."""
    for name in ("dqn", "dqn-steps", "sac"):
        at = Learner(name, turns=100)
        for what, error in invariants.targets(at.plan, at.state, at.memory, at.numbers()).items():
            known = error[~error.isnan()]
            assert bool((known < 1e-5).all()), f"{name}: {what} is {known.tolist()}"


DETECTORS: tuple[Callable[[], Any], ...] = (
    the_huber_slope_is_the_derivative_of_the_loss,
    epsilon_is_the_share_of_random_actions,
    actions_fill_the_box_of_the_environment,
    too_much_entropy_lowers_the_temperature,
    a_soft_target_takes_over_its_share,
    what_is_stored_is_what_was_lived,
    a_time_limit_has_a_future_and_a_terminal_state_none,
    rows_are_followed_to_where_they_lead,
    the_target_moves_when_it_should,
    double_targets_are_judged_by_the_other_network,
    soft_targets_are_cautious_and_count_the_entropy,
    rare_rows_weigh_more,
    training_says_that_its_targets_are_right,
)
