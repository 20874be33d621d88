"""All environments of a cohort as one, on rank 0: they are with the ranks, and nobody steps them but their own."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from rlclinic.config import Config, to_record
from rlclinic.errors import EnvironmentFailed, UsageError
from rlclinic.training.envs.base import Step, Stepping
from rlclinic.training.parallel import ranks
from rlclinic.training.parallel.calibration import Speed
from rlclinic.training.parallel.part import RankPart


class SpreadEnv:
    """A VecEnv whose environments are spread over ranks: rollouts are played by the engine, steps cannot be taken."""

    def __init__(self, config: Config, seeds: list[int], device: Any, weights: list[dict[str, float]] | None = None) -> None:
        self._ranks = ranks.begin(config.run.data_parallel, device)
        try:
            self._ranks.announce("make", config=to_record(config), seeds=seeds, weights=weights or [])
            self.part = RankPart(self._ranks, config, seeds, weights or [])
        except BaseException:
            self._end()
            raise
        own = self.part.env
        self.members, self.n_envs = own.members, config.env.n_envs
        self.obs_shape, self.obs_low, self.obs_high, self.picture = own.obs_shape, own.obs_low, own.obs_high, own.picture
        self.action, self.max_episode_steps, self.skips, self.exact = own.action, own.max_episode_steps, own.skips, own.exact
        self.failures: dict[int, Exception] = own.failures
        self.action_mask: Tensor | None = None
        self.speed: Speed | None = None
        """What was measured before the run began; None: it goes on from a checkpoint."""
        self.info, self.step_info = getattr(own, "info", None), getattr(own, "step_info", ())

    @property
    def stepping(self) -> Stepping:
        return self.part.env.stepping

    def announce(self, kind: str, tensors: dict[str, Tensor] | None = None, **content: Any) -> None:
        """Tell the other ranks what comes next."""
        self._ranks.announce(kind, tensors, **content)

    def listen(self, say: Callable[[str], None]) -> None:
        """Have somebody told which rank is waited for, whenever that takes long."""
        self._ranks.heart.say = say

    def reset(self) -> Tensor:
        self.announce("reset")
        return self._take(*self.part.reset())

    def step(self, *args: Any, **kwargs: Any) -> Step:
        raise UsageError("Ranks play by themselves.\n  Nobody else steps their environments.\n  Let the engine play a rollout instead")

    def state(self) -> dict[str, Tensor]:
        self.announce("state")
        return self.part.state()

    def load_state(self, state: dict[str, Tensor]) -> Tensor:
        self.announce("load_state", state)
        return self._take(*self.part.load_state(state))

    def take_failures(self) -> None:
        """Members whose environment broke on another rank, and how."""
        for member, text in self.part.failures.items():
            self.failures.setdefault(member, EnvironmentFailed(text))

    def _take(self, obs: Tensor, mask: Tensor | None) -> Tensor:
        self.action_mask = mask
        return obs

    def retire(self, members: Iterable[int]) -> None:
        self.part.env.retire(members)  # the other ranks learn of it with the next iteration

    def close(self) -> None:
        self.part.close()
        self._end()

    def _end(self) -> None:
        if self._ranks in ranks.joined and not self._ranks.broken:
            self._ranks.announce("close")  # somebody else has started them, and another cohort may come
        else:
            self._ranks.close()
