"""Dispatching for two lathes in front of one queue (weighted waiting time), after our production planning lecture."""

from typing import Any, Final

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, MultiDiscrete

SLOTS: Final = 5
IDLE: Final = SLOTS
SHIFT: Final = 150
ARRIVALS: Final = 0.45
LONGEST: Final = 6
HEAVIEST: Final = 3
ENERGY: Final = 0.02  # kEUR per lathe and step


class TwoLathes(Env[Any, Any]):
    """Each action entry names the queue slot that a lathe works on; 5 is a pause. Both on one job: the second one waits."""

    def __init__(self) -> None:
        self.observation_space = Box(0.0, 1.0, (2 * SLOTS,), np.float32)
        self.action_space = MultiDiscrete([SLOTS + 1, SLOTS + 1])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.work = np.zeros(SLOTS, int)
        self.weight = np.zeros(SLOTS, int)
        self.clock = 0
        self.set_up = [IDLE, IDLE]
        for _ in range(3):
            self._arrive()
        self._post()
        return self.board.copy(), {}

    def _arrive(self) -> bool:
        empty = np.flatnonzero(self.work == 0)
        if not len(empty):
            return False
        slot = self.np_random.choice(empty)
        self.work[slot] = self.np_random.integers(1, LONGEST + 1)
        self.weight[slot] = self.np_random.integers(1, HEAVIEST + 1)
        return True

    def _post(self) -> None:
        """What hangs on the planning board."""
        self.board = np.concatenate([self.work / LONGEST, self.weight / HEAVIEST]).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        taken: list[int] = []
        for lathe, slot in enumerate((int(action[0]), int(action[1]))):
            if slot != IDLE and slot not in taken and self.work[slot] > 0:
                taken.append(slot)
                self.work[slot] -= 1
            self.set_up[lathe] = slot
        self.weight[self.work == 0] = 0
        turned_away = self.np_random.random() < ARRIVALS and not self._arrive()
        self.clock += 1
        waiting = self.weight.sum() / 10.0
        reward = -float(waiting + 1.0 * turned_away + ENERGY * len(taken))
        self._post()
        return self.board.copy(), reward, False, self.clock >= SHIFT, {"busy": len(taken)}


def make() -> TwoLathes:
    return TwoLathes()


def expert(obs: Any) -> Any:
    """Weighted shortest work first."""
    work, weight = np.asarray(obs[:SLOTS], float), np.asarray(obs[SLOTS:], float)
    order = [int(slot) for slot in np.argsort(-weight / np.maximum(work, 1e-6)) if work[slot] > 0]
    order += [IDLE, IDLE]
    return np.array(order[:2])
