"""How an agent tries what it does not yet believe in: pure functions of values or actions and of noise drawn before.

Values are [M, N, A] (A actions to choose from), box actions [M, N, K]; numbers are [M, 1]. Noise comes from the counters
of rng (`uniform_noise`, `normal_noise`), so that a step explores the same way alone, in a cohort and after a resume.
"""

from typing import Final

import torch
from torch import Tensor

from rlclinic.training import rng

IMPOSSIBLE: Final = float("-inf")
"""The value of an action that the environment forbids: never the largest."""


def uniform_noise(seed: Tensor, step: Tensor | int, env: Tensor, width: int) -> Tensor:
    """[..., width] numbers in (0, 1): seed, step and env broadcast (seed [M, 1], env [N]: [M, N, width])."""
    step = step.unsqueeze(-1) if isinstance(step, Tensor) else step
    return rng.uniform(seed.unsqueeze(-1), rng.EXPLORATION, step, env.unsqueeze(-1), torch.arange(width, device=seed.device))


def normal_noise(seed: Tensor, step: Tensor | int, env: Tensor, width: int) -> Tensor:
    """[..., width] standard normal numbers, as `uniform_noise`."""
    step = step.unsqueeze(-1) if isinstance(step, Tensor) else step
    return rng.normal(seed.unsqueeze(-1), rng.EXPLORATION, step, env.unsqueeze(-1), torch.arange(width, device=seed.device))


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
