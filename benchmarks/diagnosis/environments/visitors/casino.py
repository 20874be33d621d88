"""An evening of blackjack: a handful of hands, drawn from an endless shoe; how many, the table says at the start. Hit or stand."""

from typing import Any

import gymnasium as gym
import numpy as np

STAND, HIT = 0, 1
FEWEST, MOST = 5, 15
STAKE = 1.0


def value(cards: list[int]) -> tuple[int, bool]:
    """The total, and whether an ace counts eleven in it."""
    total = sum(cards)
    usable = 1 in cards and total + 10 <= 21
    return total + 10 * usable, usable


class BlackjackEvening(gym.Env[Any, Any]):
    observation_space = gym.spaces.MultiDiscrete([32, 11, 2, MOST + 1])  # total, dealer shows, usable ace, hands left
    action_space = gym.spaces.Discrete(2)

    def card(self) -> int:
        return min(int(self.shoe.integers(1, 14)), 10)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.shoe = self.np_random
        self.left = int(self.shoe.integers(FEWEST, MOST + 1))
        self.deal()
        return self.table(), {}

    def deal(self) -> None:
        self.mine = [self.card(), self.card()]
        self.dealer = [self.card(), self.card()]

    def table(self) -> Any:
        total, usable = value(self.mine)
        return np.array([total, self.dealer[0], usable, self.left])

    def settle(self) -> float:
        """The dealer draws to seventeen."""
        while value(self.dealer)[0] < 17:
            self.dealer.append(self.card())
        theirs, ours = value(self.dealer)[0], value(self.mine)[0]
        theirs = 0 if theirs > 21 else theirs
        return float(ours > theirs) - float(ours < theirs)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        outcome, over = 0.0, True
        if action == HIT:
            self.mine.append(self.card())
            over = value(self.mine)[0] > 21
            outcome = -1.0 if over else 0.0
        else:
            outcome = self.settle()
        closing = False
        if over:
            self.left -= 1
            closing = self.left == 0
            self.deal()
        return self.table(), STAKE * outcome, closing, False, {}


def make() -> BlackjackEvening:
    return BlackjackEvening()


def expert(obs: Any) -> int:
    """Basic strategy without doubling and splitting."""
    total, shows, usable, _ = (int(number) for number in obs)
    if usable:
        return HIT if total < 18 or (total == 18 and shows in (1, 9, 10)) else STAND
    if total >= 17:
        return STAND
    if total <= 11:
        return HIT
    return STAND if 2 <= shows <= 6 else HIT
