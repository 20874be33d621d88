"""Episode returns out of rollouts: sums carried across iterations, and the last hundred episodes of every member."""

from collections import deque
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.training.data.rollout import Rollout

WINDOW: Final = 100
_FIELDS: Final = ("return", "length", "success")
Floats = NDArray[np.float64]


class Episodes:
    """Counts and statistics of finished episodes per member; host-side, in double precision."""

    def __init__(self, members: int, n_envs: int) -> None:
        self.running_return: Floats = np.zeros((members, n_envs))
        self.running_length: Floats = np.zeros((members, n_envs))
        self.recent: list[deque[tuple[float, float, float]]] = [deque(maxlen=WINDOW) for _ in range(members)]
        self.best: Floats = np.full(members, -np.inf)
        self.count = np.zeros(members, dtype=np.int64)

    def add(self, rollout: Rollout) -> Tensor:
        """Take in a rollout; returns the steps elapsed in each row's episode before it, [M, T, N]."""
        reward = rollout.reward.double().cpu().numpy()
        end = rollout.end.cpu().numpy()
        success = None if rollout.success is None else rollout.success.cpu().numpy()
        counted = np.ones_like(reward) if rollout.valid is None else rollout.valid.cpu().numpy().astype(float)
        elapsed = np.empty_like(reward)
        for t in range(reward.shape[1]):
            elapsed[:, t] = self.running_length
            self.running_return += reward[:, t] * counted[:, t]
            self.running_length += counted[:, t]
            if end[:, t].any():
                self._finish(end[:, t], None if success is None else success[:, t])
        return torch.from_numpy(elapsed).to(rollout.reward.device)

    def _finish(self, ended: NDArray[np.bool_], success: NDArray[np.float32] | None) -> None:
        for member, env in np.argwhere(ended):
            total, length = float(self.running_return[member, env]), float(self.running_length[member, env])
            outcome = float("nan") if success is None else float(success[member, env])
            self.recent[member].append((total, length, outcome))
            self.best[member] = max(self.best[member], total)
            self.count[member] += 1
        self.running_return[ended] = 0.0
        self.running_length[ended] = 0.0

    def row(self, member: int) -> dict[str, float | int | None]:
        """The member's roll columns; blank before its first episode ends."""
        if not self.recent[member]:
            return {"total_episodes": int(self.count[member])}
        returns, lengths, outcomes = (np.array(column) for column in zip(*self.recent[member], strict=True))
        known = outcomes[~np.isnan(outcomes)]
        return {
            "total_episodes": int(self.count[member]),
            "train/roll/ep_rew_mean": float(returns.mean()),
            "train/roll/ep_rew_std": float(returns.std()),
            "train/roll/ep_rew_best": float(self.best[member]),
            "train/roll/ep_len_mean": float(lengths.mean()),
            "train/roll/success_rate": float(known.mean()) if known.size else None,
        }

    def state(self, member: int) -> dict[str, Any]:
        """Everything that a resume needs, as tensors."""
        return {
            "running_return": torch.from_numpy(self.running_return[member].copy()),
            "running_length": torch.from_numpy(self.running_length[member].copy()),
            "recent": torch.tensor(list(self.recent[member]), dtype=torch.float64).view(-1, len(_FIELDS)),
            "best": torch.tensor([self.best[member]], dtype=torch.float64),
            "count": torch.tensor([self.count[member]], dtype=torch.int64),
        }

    def load(self, member: int, state: dict[str, Tensor]) -> None:
        """Continue from `state`."""
        self.running_return[member] = state["running_return"].numpy()
        self.running_length[member] = state["running_length"].numpy()
        self.recent[member] = deque((tuple(row) for row in state["recent"].tolist()), maxlen=WINDOW)
        self.best[member] = state["best"].item()
        self.count[member] = state["count"].item()

    def restart(self, member: int) -> None:
        """Forget unfinished episodes: the envs were reset."""
        self.running_return[member] = 0.0
        self.running_length[member] = 0.0
