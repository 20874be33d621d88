"""A reward that is learned from demonstrations: GAIL (Ho & Ermon 2016, arXiv:1606.03476) and AIRL (Fu et al. 2018, arXiv:1710.11248).

A discriminator learns to tell recorded steps from the policy's own. Steps that it takes for recorded ones are paid, in place of the
environment's reward, and PPO learns from that. x(s, a) is its logit, D = sigmoid(x) the chance that a step was recorded:

    loss = 1/2 E_recorded[-log D] + 1/2 E_policy[-log(1 - D)] + gradient_penalty E[(|grad x| - 1)^2]

between the two kinds of steps (arXiv:1704.00028). GAIL pays -log(1 - D). AIRL's logit is f(s, a, s') - log pi(a|s) with
f = g(s, a) + gamma h(s') - h(s): the shaping h takes up what depends on the dynamics, and the rest is a reward that can be used
elsewhere. It pays log D - log(1 - D), which is that logit.

**Horizons.** A reward that is always positive teaches to survive and one that is always negative teaches to end, whatever was shown. So a
terminal state leads to an absorbing one, which the discriminator sees too (arXiv:1809.02925): all that staying there for ever would pay is
paid at the terminal step.

What is known is a dict of tensors [M, ...] by name, a part of the learner and of checkpoints; it changes once per iteration.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.actions import Action
from rlclinic.config import Config, NetConfig
from rlclinic.errors import ConfigError
from rlclinic.training import optim, rng
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.bonuses import curiosity
from rlclinic.training.data import recorded
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.maths import normalize
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net
from rlclinic.training.optim import Optimizer, OptimizerState

CLIP: Final = 10.0
"""Observations that the discriminator sees are cut to plus and minus this, in deviations."""
LONGEST: Final = 1_000.0
"""Steps that an absorbing state is counted for at most: with a discount of 1 it would be for ever."""
HELD_OUT: Final = 512
"""Recorded steps that it never learns from and is tried on."""
EXPERT, POLICY, BETWEEN = 0, 1, 2
"""Streams of random numbers."""

COLUMNS: Final = tuple(
    f"train/adversary/{name}"
    for name in (
        "loss",
        "expert_accuracy",
        "policy_accuracy",
        "held_out_accuracy",
        "reward_mean",
        "reward_std",
        "absorbing_share",
        "absorbing_shown",
    )
)

State = Mapping[str, Tensor]
LogProb = Callable[[Tensor, Tensor], Tensor]
"""Of observations [M, B, D] and actions as the environment takes them, log pi(a|s) [M, B] of the policy that acted."""


class Steps(NamedTuple):
    """Rows of steps as the discriminator sees them, [M, B, ...]."""

    obs: Tensor
    action: Tensor
    """As numbers: choices one-hot, vectors between -1 and 1."""
    next_obs: Tensor
    absorbed: Tensor
    """1 where the step is one of staying in the absorbing state, else 0, [M, B, 1]."""
    ends: Tensor
    """1 where it leads there, [M, B, 1]."""


@dataclass(frozen=True)
class Adversary:
    """What stays the same all run: the settings, the demonstrations, the networks' shapes."""

    config: Any
    nets: Mapping[str, Net]
    data: Recorded
    action: ActionSpec
    terminations: int
    """Of the demonstrations that are learned from."""

    @property
    def absorbs(self) -> bool:
        """Whether a terminal state leads to an absorbing one."""
        return bool(self.config.horizon == "absorbing")

    @property
    def shapes(self) -> bool:
        """Whether its logit is a reward and a shaping, less the policy's log-probability (AIRL)."""
        return "shaping" in self.nets


def plan(config: Config, env: VecEnv, device: torch.device) -> Adversary:
    """The discriminator of a config in an environment; ConfigError where there are no demonstrations, or of images."""
    if env.picture is not None or len(env.obs_shape) != 1:
        raise ConfigError(
            f"{config.algo.name} tells vectors apart, but observations have the shape {tuple(env.obs_shape)}.\n"
            "  A discriminator would tell images by their pixels, not by what is done.\n  Try imitation of actions: ",
            Action("train", f"{config.env.id}:bc", data=config.data.path if config.data else "DATA"),
        )
    data, algo = recorded.load(config, env, device), config.algo
    size, actions = env.obs_shape[0] + 1, sum(env.action.sizes) if env.action.kind != "box" else env.action.sizes[0]
    hidden: tuple[int, ...] = algo.reward_hidden  # type: ignore[union-attr]
    net = NetConfig(hidden=hidden, activation="tanh")
    state_only = getattr(algo, "state_only", False)
    nets = {"reward": q_nets.build(net, size if state_only else size + actions, hidden, 1)}
    if algo.name == "airl":
        nets["shaping"] = q_nets.build(net, size, hidden, 1)
    rows = torch.arange(len(data.rewards), device=data.rewards.device) if data.chosen is None else data.chosen.to(data.rewards.device)
    return Adversary(algo, nets, data, env.action, int(data.terminated[rows].sum()))


def fresh(adversary: Adversary, seeds: list[int], device: torch.device) -> dict[str, Tensor]:
    """Nothing learned; observations are scaled as the demonstrations are."""
    stats = adversary.data.moments(len(seeds))
    return curiosity.fresh(adversary.nets, seeds, device) | {f"obs_stats.{name}": each for name, each in stats._asdict().items()}


@torch.no_grad()
def judge(
    adversary: Adversary,
    state: State,
    rollout: Rollout,
    hp: Hyperparameters,
    log_prob: LogProb,
    seed: Tensor,
    iteration: int | Tensor,
    active: Tensor | None,
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """Let the discriminator learn from a rollout; then what every step of it is paid [M, T, N], what is known after, and readings [M]."""
    state, config = dict(state), adversary.config
    valid = torch.ones_like(rollout.reward, dtype=torch.bool) if rollout.valid is None else rollout.valid
    everyone = torch.ones_like(hp.gamma, dtype=torch.bool) if active is None else active
    stats = normalize.include(_moments(state), rollout.obs.flatten(1, 2), everyone, valid.flatten(1))
    state |= {f"obs_stats.{name}": each for name, each in stats._asdict().items()}
    own = _own_steps(adversary, rollout, stats)
    own_log_prob = rollout.log_prob.flatten(1)
    beyond = _beyond(hp.gamma)
    ended = (rollout.terminated & valid).flatten(1).sum(1, keepdim=True)
    wait, recorded_wait = ((beyond * each).round().long() for each in (ended, adversary.terminations))
    waits, recorded_waits = (each * adversary.absorbs for each in (wait, recorded_wait))
    found: dict[str, Tensor] = {}
    place = torch.arange(config.reward_batch_size, device=seed.device)
    for step in range(config.reward_steps):
        picks = [rng.bits(seed.view(-1, 1), rng.UPDATE, iteration, 10 + stream, step, place) for stream in (EXPERT, POLICY, BETWEEN)]
        expert, expert_log_prob = _demonstrations(adversary, stats, picks[EXPERT] % (adversary.data.size + recorded_waits), log_prob)
        index = picks[POLICY] % (own.obs.shape[1] + waits)
        policy, waiting = _take(own, index)
        counts = valid.flatten(1).gather(1, index.clamp(max=own.obs.shape[1] - 1)) | waiting
        policy_log_prob = own_log_prob.gather(1, index.clamp(max=own.obs.shape[1] - 1)).masked_fill(waiting, 0.0)
        mix = (picks[BETWEEN] % (1 << 20)).float().unsqueeze(-1) / (1 << 20)
        state, found = _learn(adversary, state, expert, policy, expert_log_prob, policy_log_prob, counts.float(), mix, hp, active)
    logit = logits(adversary, state, own, hp.gamma)
    if adversary.shapes:
        logit = logit - own_log_prob
    paid = to_reward(config, logit).view_as(rollout.reward)
    if adversary.absorbs:
        staying = to_reward(config, logits(adversary, state, _absorbed(own, 1), hp.gamma))  # [M, 1]
        paid = paid + rollout.terminated * (beyond * staying).unsqueeze(-1)
    paid = paid * valid
    flat = paid.flatten(1)
    readings = {
        **found,
        "held_out_accuracy": _held_out(adversary, state, stats, hp, log_prob),
        "reward_mean": flat.mean(1),
        "reward_std": flat.std(1),
        "absorbing_share": (wait / (wait + own.obs.shape[1])).squeeze(1),
        "absorbing_shown": (recorded_wait / (recorded_wait + adversary.data.size)).squeeze(1),
    }
    return paid, state, {f"train/adversary/{name}": each for name, each in readings.items()}


def logits(adversary: Adversary, weights: State, steps: Steps, gamma: Tensor) -> Tensor:
    """GAIL: x(s, a). AIRL: f = g(s, a) + gamma h(s') - h(s), to which -log pi(a|s) is still to be added. [M, B]"""
    here = torch.cat([steps.obs, steps.absorbed], -1)
    state_only = getattr(adversary.config, "state_only", False)
    shown = here if state_only else torch.cat([here, steps.action], -1)
    found = curiosity.outputs(adversary.nets, weights, "reward", shown).squeeze(-1)
    if not adversary.shapes:
        return found
    then = torch.cat([steps.next_obs, steps.ends], -1)
    value, next_value = (curiosity.outputs(adversary.nets, weights, "shaping", each).squeeze(-1) for each in (here, then))
    return found + gamma * next_value - value


def to_reward(config: Any, logit: Tensor) -> Tensor:
    """What a step is paid: -log(1 - D), log D, or log D - log(1 - D)."""
    kind = getattr(config, "reward_form", "logit")
    return functional.softplus(logit) if kind == "positive" else -functional.softplus(-logit) if kind == "negative" else logit


def discriminator_loss(expert: Tensor, policy: Tensor, counts: Tensor) -> Tensor:
    """1/2 E[-log D(recorded)] + 1/2 E[-log(1 - D(own))] of logits [M, B], [M, 1]; counts are the own rows' weights.

    It is log 2 where it cannot tell.
    """
    own = (functional.softplus(policy) * counts).sum(-1, keepdim=True) / counts.sum(-1, keepdim=True).clamp(min=1.0)
    return 0.5 * (functional.softplus(-expert).mean(-1, keepdim=True) + own)


def gradient_penalty(adversary: Adversary, weights: State, expert: Steps, policy: Steps, mix: Tensor, gamma: Tensor) -> Tensor:
    """E[(|grad x| - 1)^2] at points between recorded and own steps (arXiv:1704.00028, eq. 3), [M, 1]; mix [M, B, 1] says where."""
    between = Steps(*(torch.lerp(a, b, mix).requires_grad_() for a, b in zip(policy, expert, strict=True)))
    grads = torch.autograd.grad(logits(adversary, weights, between, gamma).sum(), between, create_graph=True, allow_unused=True)
    size = torch.cat([grad for grad in grads if grad is not None], -1).square().sum(-1).add(1e-12).sqrt()
    return (size - 1.0).square().mean(-1, keepdim=True)


def _learn(
    adversary: Adversary,
    state: dict[str, Tensor],
    expert: Steps,
    policy: Steps,
    expert_log_prob: Tensor,
    policy_log_prob: Tensor,
    counts: Tensor,
    mix: Tensor,
    hp: Hyperparameters,
    active: Tensor | None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """One Adam step of every network, and readings [M]."""
    names = tuple(adversary.nets)
    with torch.enable_grad():
        leaves = {name: state[name].detach().requires_grad_() for name in names}
        weights = {**state, **leaves}
        shown = [logits(adversary, weights, each, hp.gamma) for each in (expert, policy)]
        if adversary.shapes:
            shown = [shown[0] - expert_log_prob, shown[1] - policy_log_prob]
        loss = discriminator_loss(shown[0], shown[1], counts)
        # A coefficient of 0 must cost nothing, and a penalty that is not finite must not become one through it.
        penalty = gradient_penalty(adversary, weights, expert, policy, mix, hp.gamma) if any_above_zero(hp) else torch.zeros_like(loss)
        grads = torch.autograd.grad((loss + hp.gradient_penalty * penalty).sum(), list(leaves.values()), allow_unused=True)
    for name, grad in zip(names, grads, strict=True):
        rule = Optimizer("adam", 1e-8, 0.0, 0.0, 0.99, adversary.nets[name].layout)
        moments = OptimizerState(*(state[f"{name}.{part}"] for part in OptimizerState._fields))
        slope = torch.zeros_like(state[name]) if grad is None else grad
        flat, moments = optim.step(rule, leaves[name].detach(), slope, moments, hp.reward_lr, active)
        state |= {name: flat} | {f"{name}.{part}": each for part, each in moments._asdict().items()}
    right, weight = (shown[1].detach() < 0).float() * counts, counts.sum(-1).clamp(min=1.0)
    return state, {
        "loss": loss.detach().squeeze(1),
        "expert_accuracy": (shown[0].detach() > 0).float().mean(-1),
        "policy_accuracy": right.sum(-1) / weight,
    }


def any_above_zero(hp: Hyperparameters) -> bool:
    """Whether anybody pays a penalty on gradients."""
    return any(each["gradient_penalty"] for each in hp.per_member)


def _beyond(gamma: Tensor) -> Tensor:
    """What a step of the absorbing state counts from the terminal step on: gamma + gamma^2 + ... , [M, 1]."""
    return (gamma / (1.0 - gamma).clamp(min=1.0 / LONGEST)).clamp(max=LONGEST)


def _moments(state: State) -> Moments:
    return Moments(*(state[f"obs_stats.{name}"] for name in Moments._fields))


def _own_steps(adversary: Adversary, rollout: Rollout, stats: Moments) -> Steps:
    """All steps of a rollout, [M, T*N, ...]."""
    ends = rollout.terminated.flatten(1).unsqueeze(-1).float() * adversary.absorbs
    obs, next_obs = (normalize.observations(stats, each.flatten(1, 2), CLIP) for each in (rollout.obs, rollout.next_obs))
    action = _as_numbers(adversary, rollout.action.flatten(1, 2))
    return Steps(obs, action, next_obs * (1.0 - ends), torch.zeros_like(ends), ends)


def _as_numbers(adversary: Adversary, action: Tensor) -> Tensor:
    """Actions of the environment as the discriminator sees them: vectors cut to the bounds, as the environment cuts them."""
    spec = adversary.action
    if spec.low is None or spec.high is None:
        return curiosity.as_numbers(action, spec)
    low, high = (torch.as_tensor(bound, dtype=torch.float32, device=action.device) for bound in (spec.low, spec.high))
    return ((action - low) / (high - low) * 2.0 - 1.0).clamp(-1.0, 1.0)


def _to_env(adversary: Adversary, action: Tensor) -> Tensor:
    """Recorded actions as the environment takes them: what `scale_actions` did, undone."""
    spec = adversary.action
    if spec.low is None or spec.high is None:
        return action
    low, high = (torch.as_tensor(bound, dtype=torch.float32, device=action.device) for bound in (spec.low, spec.high))
    return low + (action + 1.0) * 0.5 * (high - low)


def _demonstrations(adversary: Adversary, stats: Moments, index: Tensor, log_prob: LogProb) -> tuple[Steps, Tensor]:
    """Recorded steps at places [M, B] among those that are learned from; places behind the last are steps of the absorbing state."""
    data = adversary.data
    rows = index.clamp(max=data.size - 1)
    return _recorded(adversary, stats, rows if data.chosen is None else data.chosen[rows], index >= data.size, log_prob)


def _recorded(adversary: Adversary, stats: Moments, rows: Tensor, waiting: Tensor, log_prob: LogProb) -> tuple[Steps, Tensor]:
    """Recorded steps at rows [M, B], or steps of the absorbing state where `waiting`; and log pi(a|s) there, where that is needed."""
    data = adversary.data
    flat = rows.flatten().to(data.rewards.device)
    at = flat + data.shift[flat]

    def take(table: Tensor, places: Tensor) -> Tensor:
        return table.index_select(0, places).to(data.device).view(*rows.shape, *table.shape[1:])

    raw = take(data.observations, at).float()
    obs, next_obs = (normalize.observations(stats, each, CLIP) for each in (raw, take(data.observations, at + 1).float()))
    action, ends = take(data.actions, flat), take(data.terminated, flat).unsqueeze(-1).float() * adversary.absorbs
    shown = action if action.dim() == 3 else curiosity.as_numbers(action, adversary.action)
    steps = _wait(Steps(obs, shown, next_obs * (1.0 - ends), torch.zeros_like(ends), ends), waiting)
    if not adversary.shapes:
        return steps, torch.zeros_like(ends).squeeze(-1)
    return steps, log_prob(raw, _to_env(adversary, action)).masked_fill(waiting, 0.0)


def _take(own: Steps, index: Tensor) -> tuple[Steps, Tensor]:
    """Own steps at places [M, B]; places behind the last are steps of the absorbing state. And where those are."""
    waiting = index >= own.obs.shape[1]
    rows = index.clamp(max=own.obs.shape[1] - 1)
    return _wait(Steps(*(curiosity.take(each, rows) for each in own)), waiting), waiting


def _wait(steps: Steps, waiting: Tensor) -> Steps:
    """The same rows, where `waiting` [M, B] as steps of the absorbing state."""
    there = waiting.unsqueeze(-1)
    obs, action, next_obs = (each.masked_fill(there, 0.0) for each in (steps.obs, steps.action, steps.next_obs))
    return Steps(obs, action, next_obs, steps.absorbed.masked_fill(there, 1.0), steps.ends.masked_fill(there, 1.0))


def _absorbed(like: Steps, rows: int) -> Steps:
    """Steps of the absorbing state."""
    zeros = Steps(*(torch.zeros_like(each[:, :rows]) for each in like))
    return _wait(zeros, torch.ones(like.obs.shape[0], rows, dtype=torch.bool, device=like.obs.device))


def _held_out(adversary: Adversary, state: State, stats: Moments, hp: Hyperparameters, log_prob: LogProb) -> Tensor:
    """The share of recorded steps that it never saw which it takes for recorded, [M]; nan without such steps."""
    held, members = adversary.data.held_out, hp.gamma.shape[0]
    if not len(held):
        return torch.full((members,), torch.nan, device=hp.gamma.device)
    places = torch.linspace(0, len(held) - 1, min(len(held), HELD_OUT), dtype=torch.float64).long().to(held.device)
    rows = held[places].expand(members, -1)
    steps, likely = _recorded(adversary, stats, rows, torch.zeros_like(rows, dtype=torch.bool), log_prob)
    return (logits(adversary, state, steps, hp.gamma) - likely > 0).float().mean(-1)
