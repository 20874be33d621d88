"""What an action was worth: advantages and returns, with both kinds of episode end kept apart.

Tensors are [M, T, N]; gamma, gae_lambda and the clips are [M, 1]. `next_value[:, t]` is V of the observation the action led to:
at an episode's end the final observation, not the next episode's first one, which auto-reset puts in its place.
"""

import torch
from torch import Tensor


def gae(
    reward: Tensor, value: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, gamma: Tensor, gae_lambda: Tensor
) -> tuple[Tensor, Tensor]:
    """Advantages and TD(lambda) returns (arXiv:1506.02438, eq. 16)."""
    # Only a terminal state has no future. A time limit stops the clock, not the task: bootstrap.
    delta = reward + gamma.unsqueeze(-1) * next_value * ~terminated - value
    # Both kinds of end cut the trace: step t + 1 belongs to another episode.
    decay = (gamma * gae_lambda).unsqueeze(-1) * ~(terminated | truncated)
    advantage = _discounted_sum(delta, decay)
    return advantage, advantage + value


def gae_without_ends(reward: Tensor, value: Tensor, next_value: Tensor, gamma: Tensor, gae_lambda: Tensor) -> tuple[Tensor, Tensor]:
    """`gae` where no end of an episode cuts anything, to rounding: sums of 1, 2, 4, … steps ahead, so that no step waits for the next."""
    advantage = reward + gamma.unsqueeze(-1) * next_value - value
    decay, ahead = (gamma * gae_lambda).unsqueeze(-1), 1
    while ahead < reward.shape[1]:
        advantage = torch.cat([advantage[:, :-ahead] + decay * advantage[:, ahead:], advantage[:, -ahead:]], 1)
        decay, ahead = decay * decay, 2 * ahead
    return advantage, advantage + value


def rewards_to_go(reward: Tensor, next_value: Tensor | None, terminated: Tensor, truncated: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    """Discounted sums of what followed each step, and which rows saw their episode's end.

    With next_value, unfinished episodes (a time limit, or the rollout's end) are completed by the critic and every row
    counts. Without one the sum stops where the data stops; rows whose episode runs past the rollout are marked
    incomplete, because their sum would depend on where the rollout happened to be cut.
    """
    end = terminated | truncated
    decay = gamma.unsqueeze(-1) * ~end
    if next_value is None:
        complete = end.flip(1).cumsum(1).flip(1) > 0
        return _discounted_sum(reward, decay), complete
    last = torch.zeros_like(end)
    last[:, -1] = True
    bootstrap = gamma.unsqueeze(-1) * next_value * (~terminated & (truncated | last))
    return _discounted_sum(reward + bootstrap, decay), torch.ones_like(end)


def vtrace(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    log_ratio: Tensor,
    gamma: Tensor,
    gae_lambda: Tensor,
    rho_clip: Tensor,
    c_clip: Tensor,
) -> tuple[Tensor, Tensor]:
    """Advantages and value targets from actions that an older policy took (IMPALA, arXiv:1802.01561, eq. 1 and section 4.2).

    log_ratio [M, T, N] is log pi(a) - log mu(a): the policy that learns against the one that acted. rho_clip [M, 1] bounds
    how much a step counts and with it which policy is evaluated; c_clip [M, 1], times gae_lambda, bounds how far its
    consequences reach back, which only costs speed. Where both policies are one and the clips at least 1, targets are
    TD(lambda) returns, and with lambda 1 advantages are n-step returns less the value.
    """
    ratio = log_ratio.exp()
    rho = torch.minimum(ratio, rho_clip.unsqueeze(-1))
    c = gae_lambda.unsqueeze(-1) * torch.minimum(ratio, c_clip.unsqueeze(-1))
    discount = gamma.unsqueeze(-1)
    inside = ~(terminated | truncated)
    delta = rho * (reward + discount * next_value * ~terminated - value)
    correction = _discounted_sum(delta, discount * c * inside)  # v - V of each step's own state
    # What follows a step is corrected too, as far as it is known: after an end of either kind, and after the last row, V stands.
    following = torch.cat([correction[:, 1:], torch.zeros_like(correction[:, :1])], 1) * inside
    advantage = rho * (reward + discount * (next_value * ~terminated + following) - value)
    return advantage, value + correction


def n_step(
    reward: Tensor, terminated: Tensor, truncated: Tensor, gamma: Tensor, available: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The first n rewards after each drawn row, the discount of what follows them, and where that is: [M, B] each.

    All are windows [M, B, n]: a row and the n - 1 that one env made after it. `available` marks what has been collected
    (None: all of it). The target is total + discount * Q(next_obs of the row at `last`): an episode's end of either kind
    closes the window, the first row of the next episode never enters, and discount is 0 only after a terminal state.
    """
    going = torch.ones_like(terminated[..., 0])
    total, discount = torch.zeros_like(reward[..., 0]), torch.ones_like(reward[..., 0])
    last = torch.zeros_like(going, dtype=torch.int64)
    for k in range(reward.shape[-1]):
        if k and available is not None:
            going = going & available[..., k]
        total = torch.where(going, total + discount * reward[..., k], total)
        discount = torch.where(going, discount * gamma * ~terminated[..., k], discount)
        last = torch.where(going, k, last)
        going = going & ~(terminated[..., k] | truncated[..., k])
    return total, discount, last


def _discounted_sum(term: Tensor, decay: Tensor) -> Tensor:
    """sum[t] = term[t] + decay[t] * sum[t + 1], backwards along axis 1."""
    total, trace = torch.empty_like(term), torch.zeros_like(term[:, 0])
    for t in range(term.shape[1] - 1, -1, -1):
        trace = torch.addcmul(term[:, t], decay[:, t], trace)
        total[:, t] = trace
    return total
