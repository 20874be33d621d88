"""How an agent tries what it does not yet believe in: pure functions of values or actions and of noise drawn before.

Values are [M, N, A] (A actions to choose from), box actions [M, N, K]; numbers are [M, 1]. Noise comes from the counters
of rng (`uniform_noise`, `normal_noise`), so that a step explores the same way alone, in a cohort and after a resume.
"""

from typing import Final, Protocol

import torch
from torch import Tensor

from rlclinic.config import Schedule
from rlclinic.training import rng

IMPOSSIBLE: Final = float("-inf")
"""The value of an action that the environment forbids: never the largest."""


class NoiseSettings(Protocol):
    """Settings of noise on actions that are vectors."""

    @property
    def action_noise(self) -> str: ...
    @property
    def action_noise_dt(self) -> float: ...


def uniform_noise(seed: Tensor, step: Tensor | int, env: Tensor, width: int) -> Tensor:
    """[..., width] numbers in (0, 1): seed, step and env broadcast (seed [M, 1], env [N]: [M, N, width])."""
    step = step.unsqueeze(-1) if isinstance(step, Tensor) else step
    return rng.uniform(seed.unsqueeze(-1), rng.EXPLORATION, step, env.unsqueeze(-1), torch.arange(width, device=seed.device))


def normal_noise(seed: Tensor, step: Tensor | int, env: Tensor, width: int) -> Tensor:
    """[..., width] standard normal numbers, as `uniform_noise`."""
    step = step.unsqueeze(-1) if isinstance(step, Tensor) else step
    return rng.normal(seed.unsqueeze(-1), rng.EXPLORATION, step, env.unsqueeze(-1), torch.arange(width, device=seed.device))


def update_noise(seed: Tensor, first: int, updates: int, kinds: int, rows: int, width: int) -> Tensor:
    """Standard normal numbers [M, U, kinds, B, K] for gradient steps first, first + 1, …; seed is [M, 1, 1]."""
    sizes = (updates, kinds, rows, width)
    axes = [torch.arange(size, device=seed.device).view(-1, *[1] * (3 - place)) for place, size in enumerate(sizes)]
    return rng.normal(seed.view(-1, 1, 1, 1, 1), rng.UPDATE, axes[0] + first, *axes[1:])


def random_choice(noise: Tensor, count: int, action_mask: Tensor | None) -> Tensor:
    """Any of `count` actions that are allowed, each as likely, [M, N]. noise [M, N, 2 or more] in (0, 1)."""
    none = torch.zeros(*noise.shape[:-1], count, device=noise.device)
    return epsilon_greedy(none, torch.full_like(noise[:, :1, 0], 2.0), noise[..., :2], action_mask)


def final_epsilon(setting: float | Schedule, noise: Tensor) -> Tensor:
    """Epsilon at the end of training, [M, 1]."""
    return torch.full_like(noise[:, :1, 0], setting if isinstance(setting, float) else setting.end)


def epsilon_greedy(q: Tensor, epsilon: Tensor, noise: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """The best action, or with probability epsilon any one: [M, N]. noise [M, N, 2] in (0, 1) decides whether, and which."""
    whether, which = noise.unbind(-1)
    if action_mask is None:
        any_one = (which * q.shape[-1]).long()
    else:
        # The k-th of the allowed ones: the first place where that many have been passed.
        allowed = action_mask.cumsum(-1)
        any_one = (allowed > (which * allowed[..., -1]).floor().unsqueeze(-1)).int().argmax(-1)
    return torch.where(whether < epsilon, any_one, greedy(q, action_mask))


def greedy(q: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """The best action that is allowed; the first of equals."""
    return (q if action_mask is None else q.masked_fill(~action_mask, IMPOSSIBLE)).argmax(-1)


def forbid(q: Tensor, mask: Tensor | None) -> Tensor:
    """Values [..., A] with -inf where the mask forbids an action, for a max or argmax; where it forbids all, they stay as they are."""
    return q if mask is None else q.masked_fill(~mask & mask.any(-1, keepdim=True), IMPOSSIBLE)


def boltzmann(q: Tensor, temperature: Tensor, noise: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """An action with probability softmax(q / temperature): [M, N]. noise [M, N, A] in (0, 1); a high temperature tries everything."""
    gumbel = -torch.log(-torch.log(noise))
    return greedy(q / temperature.unsqueeze(-1) + gumbel, action_mask)


def gaussian(action: Tensor, std: Tensor, noise: Tensor, low: Tensor | float = -1.0, high: Tensor | float = 1.0) -> Tensor:
    """The action plus normal noise of deviation std, kept within the bounds that the actor itself can reach."""
    return torch.clamp(action + std.unsqueeze(-1) * noise, low, high)  # type: ignore[arg-type]


def ornstein_uhlenbeck(state: Tensor, std: Tensor, noise: Tensor, theta: float = 0.15, dt: float = 1e-2) -> Tensor:
    """One step of noise that drifts, state [M, N, K]: pushes in one direction for a while (Uhlenbeck & Ornstein 1930).

    It is pulled back to 0 by theta and kicked by std, over a time dt; added to an action as `gaussian` adds its noise.
    """
    return state - theta * dt * state + std.unsqueeze(-1) * dt**0.5 * noise


def add_noise(config: NoiseSettings, action: Tensor, noise: Tensor, std: Tensor, drift: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """algo.action_noise on actions [M, N, K] between -1 and 1, and where drifting noise stands."""
    if config.action_noise == "gaussian":
        return gaussian(action, std, noise), None
    if drift is not None:
        drift = ornstein_uhlenbeck(drift, std, noise, dt=config.action_noise_dt)
        return (action + drift).clamp(-1.0, 1.0), drift
    return action, None


def restarted(state: Tensor, end: Tensor) -> Tensor:
    """The drift after a step: an episode that has ended [M, N] leaves none to the next one."""
    return state.masked_fill(end.unsqueeze(-1), 0.0)


def ucb(q: Tensor, visits: Tensor, constant: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """The action that may be best: q + constant sqrt(ln n / n_a), [M, N]; what was never tried comes first (Auer et al. 2002).

    visits [M, N, A] counts how often each action was taken in the state at hand.
    """
    total = visits.sum(-1, keepdim=True)
    bonus = constant.unsqueeze(-1) * torch.sqrt(torch.log(total.clamp(min=1)) / visits.clamp(min=1))
    return greedy(torch.where(visits > 0, q + bonus, float("inf")), action_mask)


def hope(q: Tensor, visits: Tensor, constant: Tensor) -> Tensor:
    """What actions may be worth, [M, B, A]: q + constant / (n_a + 1)^2 (Rashid et al. 2020, arXiv:2002.12174).

    It falls faster than sqrt(1 / n): in a certain world a few tries tell the truth, and every cell on the way must be tried.
    """
    return q + constant.unsqueeze(-1) / (visits + 1.0).square()
