"""What an action was worth: advantages and returns, with both kinds of episode end kept apart.

Tensors are [M, T, N]; gamma and gae_lambda are [M, 1]. `next_value[:, t]` is V of the observation the action led to:
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


def _discounted_sum(term: Tensor, decay: Tensor) -> Tensor:
    """sum[t] = term[t] + decay[t] * sum[t + 1], backwards along axis 1."""
    total, trace = torch.empty_like(term), torch.zeros_like(term[:, 0])
    for t in range(term.shape[1] - 1, -1, -1):
        trace = torch.addcmul(term[:, t], decay[:, t], trace)
        total[:, t] = trace
    return total
