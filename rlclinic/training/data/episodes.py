"""Episode returns out of rollouts: sums carried across iterations, and the last hundred episodes of every member."""

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
        self.best: Floats = np.full(members, -np.inf)
        self.count = np.zeros(members, dtype=np.int64)
        self._ring: Floats = np.zeros((members, WINDOW, len(_FIELDS)))
        """A member's n-th episode lies at n modulo the window."""
        self._held = np.zeros(members, dtype=np.int64)
        self._kept: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def add(self, rollout: Rollout) -> Tensor:
        """Take in a rollout; returns the steps elapsed in each row's episode before it, [M, T, N]."""
        success = None if rollout.success is None else rollout.success.cpu().numpy()
        counted = None if rollout.valid is None else rollout.valid.cpu().numpy().astype(float)
        elapsed = self._take(rollout.reward.double().cpu().numpy(), rollout.over.cpu().numpy(), success, counted)
        return torch.from_numpy(elapsed).to(rollout.reward.device)

    def keep(self, rollout: Rollout) -> None:
        """Take in a rollout later, at `settle`: reading it now would make the host wait for the GPU."""
        self._kept.append((rollout.reward.clone(), rollout.over, None if rollout.success is None else rollout.success.clone()))

    def settle(self) -> Tensor:
        """Take in what was kept, all at once and where it lies; returns the steps elapsed in the last one's rows, as `add` does."""
        reward = torch.cat([each[0] for each in self._kept], 1).double()  # [M, T, N], T over all of them
        end = torch.cat([each[1] for each in self._kept], 1)
        last = self._kept[-1][0].shape[1]
        success = None if self._kept[-1][2] is None else torch.cat([each[2] for each in self._kept], 1)  # type: ignore[misc]
        self._kept.clear()
        carried, aged = (torch.from_numpy(each).to(reward.device) for each in (self.running_return, self.running_length))
        number = torch.arange(1, reward.shape[1] + 1, device=reward.device).view(1, -1, 1)
        total = reward.cumsum(1) + carried.unsqueeze(1)
        # How many steps lay before the episode that a step belongs to, and before the one that begins after it: 0 where it came along.
        after = torch.cummax(torch.where(end, number, 0), 1).values
        before = torch.cat([torch.zeros_like(after[:, :1]), after[:, :-1]], 1)
        sums = torch.cat([torch.zeros_like(total[:, :1]), total], 1)
        length = number - before + (before == 0) * aged.unsqueeze(1)
        member = end.nonzero()[:, 0].cpu().numpy()
        ended = (
            (total - sums.gather(1, before))[end],
            length[end],
            torch.full_like(length[end], torch.nan) if success is None else success[end],
        )
        self._insert(member, *(each.double().cpu().numpy() for each in ended))
        rest, since = sums.gather(1, after[:, -1:]).squeeze(1), after[:, -1]
        self.running_return = (total[:, -1] - rest).cpu().numpy()
        self.running_length = (reward.shape[1] - since + (since == 0) * aged).cpu().numpy()
        return length[:, -last:] - 1.0

    def _take(self, reward: Floats, end: NDArray[np.bool_], success: NDArray[np.float32] | None, counted: Floats | None) -> Floats:
        elapsed = np.empty_like(reward)
        for t in range(reward.shape[1]):
            elapsed[:, t] = self.running_length
            self.running_return += reward[:, t] if counted is None else reward[:, t] * counted[:, t]
            self.running_length += 1.0 if counted is None else counted[:, t]
            if end[:, t].any():
                self._finish(end[:, t], None if success is None else success[:, t])
        return elapsed

    def _finish(self, ended: NDArray[np.bool_], success: NDArray[np.float32] | None) -> None:
        member, env = np.nonzero(ended)
        outcome = np.full(len(member), np.nan) if success is None else success[member, env]
        self._insert(member, self.running_return[member, env], self.running_length[member, env], outcome)
        self.running_return[ended] = 0.0
        self.running_length[ended] = 0.0

    def _insert(self, member: NDArray[np.int64], total: Floats, length: Floats, outcome: Any) -> None:
        """Episodes in the order of their members, and of their ends within a member."""
        # Which of the member's own this is.
        place = np.arange(len(member)) - np.searchsorted(member, member)
        # More than a window at once: the last ones stay, as later entries overwrite earlier ones.
        self._ring[member, (self.count[member] + place) % WINDOW] = np.stack([total, length, outcome], 1)
        np.maximum.at(self.best, member, total)
        new = np.bincount(member, minlength=len(self.count))
        self.count += new
        self._held = np.minimum(self._held + new, WINDOW)

    def recent(self, member: int) -> Floats:
        """The member's last episodes, the oldest first: [episodes, (return, length, success)]."""
        last = np.arange(self.count[member] - self._held[member], self.count[member])
        return self._ring[member, last % WINDOW]

    def row(self, member: int) -> dict[str, float | int | None]:
        """The member's roll columns; blank before its first episode ends."""
        if not self._held[member]:
            return {"total_episodes": int(self.count[member])}
        returns, lengths, outcomes = np.ascontiguousarray(self.recent(member).T)
        known = outcomes[~np.isnan(outcomes)]
        return {
            "total_episodes": int(self.count[member]),
            "train/roll/ep_rew_mean": float(returns.mean()),
            "train/roll/ep_rew_std": float(returns.std()),
            "train/roll/ep_rew_best": float(self.best[member]),
            "train/roll/ep_len_mean": float(lengths.mean()),
            "train/roll/success_rate": float(known.mean()) if known.size else None,
        }

    def rows(self) -> list[dict[str, float | int | None]]:
        """Every member's roll columns at once: for cohorts so large that one after the other would take longer than training."""
        held = self._held
        inside = np.arange(WINDOW) < held[:, None]  # the ring fills from its beginning
        count = np.maximum(held, 1)
        returns, lengths, outcomes = np.where(inside, np.moveaxis(self._ring, 2, 0), 0.0)
        mean = returns.sum(1) / count
        spread = np.sqrt((np.where(inside, returns - mean[:, None], 0.0) ** 2).sum(1) / count)
        known = inside & ~np.isnan(outcomes)
        success = np.where(known, outcomes, 0.0).sum(1) / np.maximum(known.sum(1), 1)
        table = np.stack([mean, spread, self.best, lengths.sum(1) / count], 1).tolist()
        names = ("ep_rew_mean", "ep_rew_std", "ep_rew_best", "ep_len_mean")
        found: list[dict[str, float | int | None]] = []
        for member, total in enumerate(self.count.tolist()):
            row: dict[str, float | int | None] = {"total_episodes": total}
            if held[member]:
                row |= {f"train/roll/{name}": value for name, value in zip(names, table[member], strict=True)}
                row["train/roll/success_rate"] = float(success[member]) if known[member].any() else None
            found.append(row)
        return found

    def state(self, member: int) -> dict[str, Any]:
        """Everything that a resume needs, as tensors."""
        return {
            "running_return": torch.from_numpy(self.running_return[member].copy()),
            "running_length": torch.from_numpy(self.running_length[member].copy()),
            "recent": torch.from_numpy(self.recent(member)).view(-1, len(_FIELDS)),
            "best": torch.tensor([self.best[member]], dtype=torch.float64),
            "count": torch.tensor([self.count[member]], dtype=torch.int64),
        }

    def load(self, member: int, state: dict[str, Tensor]) -> None:
        """Continue from `state`."""
        self.running_return[member] = state["running_return"].numpy()
        self.running_length[member] = state["running_length"].numpy()
        self.best[member] = state["best"].item()
        self.count[member] = state["count"].item()
        self._held[member] = len(state["recent"])
        last = np.arange(self.count[member] - self._held[member], self.count[member])
        self._ring[member, last % WINDOW] = state["recent"].numpy()  # fewer than a window only if it has not been full yet

    def restart(self, member: int) -> None:
        """Forget unfinished episodes: the envs were reset."""
        self.running_return[member] = 0.0
        self.running_length[member] = 0.0
