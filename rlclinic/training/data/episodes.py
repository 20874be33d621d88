"""Episode returns out of rollouts: sums carried across iterations, and the last hundred episodes of every member."""

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.maths import normalize

WINDOW: Final = 100
CLIPPED: Final = "train/roll/ep_rew_clipped_mean"
_FIELDS: Final = ("return", "length", "success")
Floats = NDArray[np.float64]


class Ended(NamedTuple):
    """Episodes that ended in a stretch of steps, as tensors of fixed shapes: they can be asked for without waiting for them."""

    recent: Tensor
    """[M, window, (return, length, success)], float64: the last ones of each member, the oldest first; 2M rows with clipped rewards."""
    total: Tensor
    """[M]: how many ended, also if that is more than the window."""
    best: Tensor
    """[M]: the highest return of them."""
    running_return: Tensor
    """[M, N]: of the episodes that go on."""
    running_length: Tensor


class Episodes:
    """Counts and statistics of finished episodes per member; host-side, in double precision.

    With `clip` (env.clip_raw_reward) every member is counted twice, in rows m and M + m of all arrays: with the rewards as they came,
    and as learning saw them.
    """

    def __init__(self, members: int, n_envs: int, clip: float | None = None) -> None:
        self.members, self._clip = members, clip
        lanes = members if clip is None else 2 * members
        self.running_return: Floats = np.zeros((lanes, n_envs))
        self.running_length: Floats = np.zeros((lanes, n_envs))
        self.best: Floats = np.full(lanes, -np.inf)
        self.count = np.zeros(lanes, dtype=np.int64)
        self._ring: Floats = np.zeros((lanes, WINDOW, len(_FIELDS)))
        """A member's n-th episode lies at n modulo the window."""
        self._held = np.zeros(lanes, dtype=np.int64)
        self._kept: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self._carried: tuple[Tensor, ...] | None = None
        """Returns and lengths of the episodes that go on, where `settle` has left them; the host may be a row behind."""

    def add(self, rollout: Rollout, first_env: int = 0) -> Tensor:
        """Take in a rollout of the envs from `first_env` on; returns the steps elapsed in each row's episode before it, [M, T, N]."""
        success = None if rollout.success is None else self._twice(rollout.success).cpu().numpy()
        counted = None if rollout.valid is None else self._twice(rollout.valid).cpu().numpy().astype(float)
        reward, over = self._rewards(rollout.reward), self._twice(rollout.over)
        lanes = slice(first_env, first_env + reward.shape[2])
        running = self.running_return[:, lanes], self.running_length[:, lanes]
        elapsed = self._take(running, reward.double().cpu().numpy(), over.cpu().numpy(), success, counted)
        return torch.from_numpy(elapsed[: self.members]).to(rollout.reward.device)

    def _rewards(self, reward: Tensor) -> Tensor:
        return reward if self._clip is None else torch.cat([reward, normalize.clipped(reward, self._clip)])

    def _twice(self, tensor: Tensor) -> Tensor:
        return tensor if self._clip is None else torch.cat([tensor, tensor])

    def keep(self, rollout: Rollout) -> None:
        """Take in a rollout later, at `settle`: reading it now would make the host wait for the GPU."""
        success = None if rollout.success is None else self._twice(rollout.success).clone()
        self._kept.append((self._rewards(rollout.reward).clone(), self._twice(rollout.over), success))

    def settle(self) -> tuple[Tensor, Ended]:
        """The steps elapsed in the rows of the last rollout, as `add` gives them, and what ended in all that were kept, for `take_in`.

        Worked out where the rollouts lie, without waiting for any of it.
        """
        reward = torch.cat([each[0] for each in self._kept], 1).double()  # [M, T, N], T over all of them
        end = torch.cat([each[1] for each in self._kept], 1)
        last = self._kept[-1][0].shape[1]
        success = None if self._kept[-1][2] is None else torch.cat([each[2] for each in self._kept], 1)  # type: ignore[misc]
        self._kept.clear()
        if self._carried is None:
            self._carried = tuple(torch.from_numpy(each).to(reward.device) for each in (self.running_return, self.running_length))
        carried, aged = self._carried
        number = torch.arange(1, reward.shape[1] + 1, device=reward.device).view(1, -1, 1)
        total = reward.cumsum(1) + carried.unsqueeze(1)
        # How many steps lay before the episode that a step belongs to, and before the one that begins after it: 0 where it came along.
        after = torch.cummax(torch.where(end, number, 0), 1).values
        before = torch.cat([torch.zeros_like(after[:, :1]), after[:, :-1]], 1)
        sums = torch.cat([torch.zeros_like(total[:, :1]), total], 1)
        length = number - before + (before == 0) * aged.unsqueeze(1)
        returns = total - sums.gather(1, before)
        rest, since = sums.gather(1, after[:, -1:]).squeeze(1), after[:, -1]
        self._carried = total[:, -1] - rest, reward.shape[1] - since + (since == 0) * aged
        outcome = torch.full_like(returns, torch.nan) if success is None else success.double()
        recent, count = _last(end.flatten(1), torch.stack([returns, length, outcome], -1).flatten(1, 2))
        best = returns.masked_fill(~end | returns.isnan(), -torch.inf).flatten(1).amax(1)
        return length[: self.members, -last:] - 1.0, Ended(recent, count, best, *self._carried)

    def take_in(self, ended: Ended) -> None:
        """Count what `settle` has summed up, once it is on the host."""
        recent, count, best, running_return, running_length = (each.numpy() for each in ended)
        there = np.arange(WINDOW) < np.minimum(count, WINDOW)[:, None]
        self.count += count - there.sum(1)  # more than a window at once: only the last ones came along
        self._insert(np.nonzero(there)[0], *recent[there].T)
        self.best = np.maximum(self.best, best)
        self.running_return, self.running_length = running_return, running_length

    def _take(
        self,
        running: tuple[Floats, Floats],
        reward: Floats,
        end: NDArray[np.bool_],
        success: NDArray[np.float32] | None,
        counted: Floats | None,
    ) -> Floats:
        """`running`: returns and lengths of the episodes that go on, [M, N] of these envs, edited."""
        elapsed, (returns, lengths) = np.empty_like(reward), running
        for t in range(reward.shape[1]):
            elapsed[:, t] = lengths
            returns += reward[:, t] if counted is None else reward[:, t] * counted[:, t]
            lengths += 1.0 if counted is None else counted[:, t]
            if end[:, t].any():
                self._finish(running, end[:, t], None if success is None else success[:, t])
        return elapsed

    def _finish(self, running: tuple[Floats, Floats], ended: NDArray[np.bool_], success: NDArray[np.float32] | None) -> None:
        returns, lengths = running
        member, env = np.nonzero(ended)
        outcome = np.full(len(member), np.nan) if success is None else success[member, env]
        self._insert(member, returns[member, env], lengths[member, env], outcome)
        returns[ended] = 0.0
        lengths[ended] = 0.0

    def _insert(self, member: NDArray[np.int64], total: Floats, length: Floats, outcome: Any) -> None:
        """Episodes in the order of their members, and of their ends within a member."""
        # Which of the member's own this is.
        place = np.arange(len(member)) - np.searchsorted(member, member)
        # More than a window at once: the last ones stay, as later entries overwrite earlier ones.
        self._ring[member, (self.count[member] + place) % WINDOW] = np.stack([total, length, outcome], 1)
        np.fmax.at(self.best, member, total)  # a return that is no number is no record
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
            **({} if self._clip is None else {CLIPPED: self._clipped(member)}),
        }

    def _clipped(self, member: int) -> float | None:
        found = self.recent(self.members + member)[:, 0]
        return float(np.ascontiguousarray(found).mean()) if found.size else None

    def columns(self) -> dict[str, list[Any]]:
        """Every member's roll columns at once: for cohorts so large that one after the other would take longer than training."""
        held = self._held
        inside = np.arange(WINDOW) < held[:, None]  # the ring fills from its beginning
        count = np.maximum(held, 1)
        returns, lengths, outcomes = np.where(inside, np.moveaxis(self._ring, 2, 0), 0.0)
        mean = returns.sum(1) / count
        spread = np.sqrt((np.where(inside, returns - mean[:, None], 0.0) ** 2).sum(1) / count)
        known = inside & ~np.isnan(outcomes)
        success = np.where(known, outcomes, 0.0).sum(1) / np.maximum(known.sum(1), 1)
        found = {"ep_rew_mean": mean, "ep_rew_std": spread, "ep_rew_best": self.best, "ep_len_mean": lengths.sum(1) / count}
        blank = dict.fromkeys(found, held == 0) | {"success_rate": ~known.any(1)}
        cells = {
            f"train/roll/{name}": [None if empty else value for empty, value in zip(blank[name].tolist(), values.tolist(), strict=True)]
            for name, values in (found | {"success_rate": success}).items()
        }
        members = self.members
        clipped = {} if self._clip is None else {CLIPPED: cells["train/roll/ep_rew_mean"][members:]}
        cells = {name: values[:members] for name, values in cells.items()}
        return {"total_episodes": self.count[:members].tolist(), **cells, **clipped}

    def state(self, member: int) -> dict[str, Any]:
        """Everything that a resume needs, as tensors."""
        found = self._state(member)
        if self._clip is not None:
            found |= {f"clipped_{name}": tensor for name, tensor in self._state(self.members + member).items()}
        return found

    def _state(self, member: int) -> dict[str, Any]:
        return {
            "running_return": torch.from_numpy(self.running_return[member].copy()),
            "running_length": torch.from_numpy(self.running_length[member].copy()),
            "recent": torch.from_numpy(self.recent(member)).view(-1, len(_FIELDS)),
            "best": torch.tensor([self.best[member]], dtype=torch.float64),
            "count": torch.tensor([self.count[member]], dtype=torch.int64),
        }

    def load(self, member: int, state: dict[str, Tensor]) -> None:
        """Continue from `state`. One without clipped rewards leaves their statistics empty."""
        self._carried = None
        self._load(member, state)
        clipped = {name.removeprefix("clipped_"): tensor for name, tensor in state.items() if name.startswith("clipped_")}
        if self._clip is not None and clipped:
            self._load(self.members + member, clipped)

    def _load(self, member: int, state: dict[str, Tensor]) -> None:
        self.running_return[member] = state["running_return"].numpy()
        self.running_length[member] = state["running_length"].numpy()
        self.best[member] = state["best"].item()
        self.count[member] = state["count"].item()
        self._held[member] = len(state["recent"])
        last = np.arange(self.count[member] - self._held[member], self.count[member])
        self._ring[member, last % WINDOW] = state["recent"].numpy()  # fewer than a window only if it has not been full yet

    def restart(self, member: int) -> None:
        """Forget unfinished episodes: the envs were reset."""
        self._carried = None
        self.running_return[member :: self.members] = 0.0
        self.running_length[member :: self.members] = 0.0


def _last(end: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Of values [M, L, K], the last WINDOW where `end` [M, L] holds, from the first place on; and how often it holds, [M]."""
    place = end.long().cumsum(1)
    count = place[:, -1]
    place = place - 1 - (count - WINDOW).clamp(min=0).unsqueeze(1)
    place = torch.where(end & (place >= 0), place, WINDOW)  # all others into one place, which is left out
    index = place.unsqueeze(-1).expand_as(values)
    return values.new_zeros(len(end), WINDOW + 1, values.shape[2]).scatter_(1, index, values)[:, :WINDOW], count
