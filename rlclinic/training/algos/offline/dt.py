"""Decision Transformer (Chen et al. 2021, arXiv:2106.01345): which action came next, given the return that came in the end.

A supervised problem: of the last K steps, the return to go, the observation and the action of each, predict the action. To act, ask for a
return: the highest of the data, unless the settings say another, less what has been earned since.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rlclinic.config import Config, DTConfig
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.maths import exploration
from rlclinic.training.nets import mlp, transformer
from rlclinic.training.nets.q_nets import Net, Networks
from rlclinic.training.nets.transformer import Windows

if TYPE_CHECKING:
    from rlclinic.training.loops.off_policy import Learner, Plan

ACTIONS = "any"
ACTOR = "actor"
TARGETS = ()
COLUMNS = ("loss/actor",)
CONDITION: Final = "condition"
"""Beside the network, [M, 2]: the return that is asked for, and what returns are divided by. It travels with the policy."""


def build_networks(config: Config, obs_size: int, env: VecEnv) -> dict[str, Net]:
    """The transformer."""
    algo, size = config.algo, env.action.sizes[0]
    assert isinstance(algo, DTConfig)
    return {"actor": transformer.build(config.net, obs_size, size, size, algo.width, algo.layers)}


def vectors(config: Config, action: ActionSpec, members: int, device: torch.device) -> dict[str, Tensor]:
    """What is asked for, until the data has been seen."""
    return {CONDITION: torch.ones(members, 2, device=device)}


def prepare(plan: "Plan", learner: "Learner", data: Recorded) -> dict[str, Tensor]:
    """What is asked for: the highest return of the episodes that are learned from, in units of the largest by size."""
    returns = data.episode_returns
    target = float(returns.max()) if plan.config.target_return is None else plan.config.target_return
    found = torch.tensor([[target, max(float(abs(returns).max()), 1e-6)]], dtype=torch.float32, device=data.device)
    return {CONDITION: found.repeat(len(learner.nets[CONDITION]), 1)}


def gather(plan: "Plan", learner: "Learner", data: Recorded, rows: Tensor) -> Windows:
    """The K steps that end at rows [M, B], as the network sees them."""
    window = data.window(rows, plan.config.context)
    obs = off_policy.normalize_obs(plan, learner, window.obs.flatten(1, 2)).unflatten(1, window.obs.shape[1:3])
    return Windows(
        return_to_go=window.return_to_go / learner.nets[CONDITION][:, 1, None, None],
        obs=obs,
        action=embed(plan, window.action),
        step=window.step,
        there=window.there,
        chosen=window.action,
    )


def embed(plan: "Plan", action: Tensor) -> Tensor:
    """Actions as the network takes them: choices [...] one-hot, vectors as they are."""
    return functional.one_hot(action, plan.action.sizes[0]).float() if plan.action.kind == "discrete" else action


def predict(plan: "Plan", params: Networks, windows: Windows) -> Tensor:
    """Logits of choices or actions between -1 and 1 at every step, [M, B, K, A]."""
    out = transformer.predict(params.nets["actor"], params.of("actor"), windows, plan.config.layers, plan.config.heads)
    return out if plan.action.kind == "discrete" else mlp.tanh(out)


def step_errors(plan: "Plan", params: Networks, windows: Windows) -> Tensor:
    """-log p(a) of choices, or the squared distance of vectors, [M, B, K]; 0 where there was no step."""
    out = predict(plan, params, windows)
    if plan.action.kind == "discrete":
        rows = -out.log_softmax(-1).gather(-1, windows.chosen.unsqueeze(-1)).squeeze(-1)
    else:
        rows = (out - windows.chosen).square().mean(-1)
    return rows * windows.there


def actor_loss(plan: "Plan", params: Networks, windows: Windows) -> tuple[Tensor, dict[str, Tensor]]:
    """The mean over the steps that there were, [M, 1]: those that were filled up count neither above nor below."""
    rows = step_errors(plan, params, windows).flatten(1).sum(1, keepdim=True)
    loss = rows / windows.there.flatten(1).sum(1, keepdim=True)
    return loss, {"actor": loss}


def act(plan: "Plan", params: Networks, windows: Windows, action_mask: Tensor | None, noise: Tensor | None) -> Tensor:
    """What to do at the newest step of each stretch: the most likely choice [M, N], or the action [M, N, K]."""
    out = predict(plan, params, windows)[:, :, -1]
    if plan.action.kind == "box":
        return out
    if noise is None:
        return exploration.greedy(out, action_mask)
    return exploration.boltzmann(out, noise.new_ones(noise.shape[0], 1), noise, action_mask)


class Past(NamedTuple):
    """The last steps of an episode in each copy, [M, N, K, ...], and what is still asked for, in units of the data's scale, [M, N]."""

    windows: Windows
    wanted: Tensor
    scale: Tensor


def begin(plan: "Plan", learner: "Learner", obs: Tensor) -> Past:
    """Nothing has happened yet in copies with observations [M, N, D]."""
    members, copies, size = obs.shape
    steps = (members, copies, plan.config.context)
    nothing = torch.zeros(steps, device=obs.device)
    discrete = plan.action.kind == "discrete"
    chosen = nothing.long() if discrete else nothing.unsqueeze(-1).expand(*steps, plan.action.sizes[0])
    empty = Windows(nothing, nothing.unsqueeze(-1).expand(*steps, size), embed(plan, chosen), nothing.long(), nothing.bool(), chosen)
    target, scale = learner.nets[CONDITION][:, :1], learner.nets[CONDITION][:, 1:]
    return Past(empty, (target / scale).expand(members, copies), scale)


def meet(plan: "Plan", past: Past, obs: Tensor, step: int) -> Past:
    """A step more, whose action is still unknown: normalized observations [M, N, D] at a step with this number."""
    old, wanted = past.windows, past.wanted
    newest = Windows(
        return_to_go=wanted.unsqueeze(2),
        obs=obs.unsqueeze(2),
        action=torch.zeros_like(old.action[:, :, :1]),
        step=torch.full_like(old.step[:, :, :1], step),
        there=torch.ones_like(old.there[:, :, :1]),
        chosen=torch.zeros_like(old.chosen[:, :, :1]),
    )
    parts = (torch.cat([before[:, :, 1:], now], 2) for before, now in zip(old, newest, strict=True))
    return past._replace(windows=Windows(*parts))


def remember(plan: "Plan", past: Past, action: Tensor) -> Past:
    """With what was done at the newest step, [M, N] or [M, N, K]."""
    done = embed(plan, action).unsqueeze(2)
    return past._replace(windows=past.windows._replace(action=torch.cat([past.windows.action[:, :, :-1], done], 2)))


def earn(past: Past, reward: Tensor) -> Past:
    """With what that was paid, [M, N]: so much less is asked for from here on."""
    return past._replace(wanted=past.wanted - reward / past.scale)


def acting_noise(plan: "Plan", seed: Tensor, step: int, env: Tensor) -> Tensor:
    """Noise for a sample of choices; vectors have none."""
    return exploration.uniform_noise(seed, step, env, plan.action.sizes[0])


def update(
    plan: "Plan", learner: "Learner", batch: Windows, hp: Hyperparameters, active: Tensor | None, noise: Tensor | None
) -> dict[str, Tensor]:
    """One step of the network."""
    norm, readings = off_policy.minimize(plan, learner, "actor", lambda params: actor_loss(plan, params, batch), hp, active)
    return readings | {"norm": norm}


def summarize(readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Columns from readings over gradient steps, [U, M, ...] -> [U, M]."""
    return {"loss/actor": readings["actor"].squeeze(-1)}
