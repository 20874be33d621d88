"""Terms that sum to the reward whatever lies around the environment that tells them. Free of torch.

A wrapper that takes several steps in one passes on what the last one told, and one that clips or rescales pays something else than the
terms say. So what is told inside is added up, and what wrappers add or take away is a term of its own, `wrappers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import gymnasium as gym

from rlclinic.training.data.info_columns import TERMS, read_term

WRAPPERS: Final = "wrappers"
ROUNDING: Final = 1e-6


class TermsInside(gym.Wrapper[Any, Any, Any, Any]):
    """Inside of all wrappers: what the environment was paid and told in one step of the outermost."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.forget()

    def forget(self) -> None:
        """A step of the outermost begins."""
        self.paid, self.steps, self.sums, self.last = 0.0, 0, dict[str, float](), dict[str, Any]()

    def step(self, action: Any) -> Any:
        """The environment's own step."""
        outcome = self.env.step(action)
        terms = outcome[4].get(TERMS) if isinstance(outcome[4], dict) else None
        self.last = dict(terms) if isinstance(terms, Mapping) else {}
        self.paid, self.steps = self.paid + read_term(outcome[1]), self.steps + 1
        for name, value in self.last.items():
            self.sums[name] = self.sums.get(name, 0.0) + read_term(value)
        return outcome


class WholeTerms(gym.Wrapper[Any, Any, Any, Any]):
    """Outside of all wrappers: what was told is completed, so that it sums to the reward."""

    def __init__(self, env: gym.Env[Any, Any], inside: TermsInside) -> None:
        super().__init__(env)
        self._inside = inside
        self._differs = any(isinstance(layer, gym.RewardWrapper) for layer in _list_layers(env, inside))

    def step(self, action: Any) -> Any:
        """The step of what lies inside, told as a whole."""
        self._inside.forget()
        obs, reward, terminated, truncated, info = self.env.step(action)
        if self._inside.sums and isinstance(info, dict):
            info = {**info, TERMS: self._complete(info.get(TERMS), read_term(reward))}
        return obs, reward, terminated, truncated, info

    def _complete(self, told: Any, reward: float) -> dict[str, Any]:
        inside = self._inside
        terms = dict(told) if isinstance(told, Mapping) else dict(inside.last)
        if inside.steps > 1:
            earlier = {name: total - read_term(inside.last.get(name, 0.0)) for name, total in inside.sums.items()}
            terms |= {name: read_term(terms.get(name, 0.0)) + before for name, before in earlier.items()}
        # What the environment itself leaves out is not the wrappers': its terms need not be all of its reward.
        added = sum(map(read_term, terms.values())) - sum(inside.sums.values())
        by_wrappers = reward - inside.paid - added
        self._differs = self._differs or abs(by_wrappers) > ROUNDING * max(1.0, abs(reward), abs(inside.paid))
        return {**terms, WRAPPERS: by_wrappers} if self._differs else terms  # last: the first term is the task's


def _list_layers(env: Any, inside: Any) -> list[Any]:
    layers = []
    while env is not inside and isinstance(env, gym.Wrapper):
        layers.append(env)
        env = env.env
    return layers


def tell_all(env: gym.Env[Any, Any], around: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]) -> gym.Env[Any, Any]:
    """The env with what `around` puts around it, and with terms that sum to the reward, where it tells any."""
    inside = TermsInside(env)
    return WholeTerms(around(inside), inside)
