"""Atari games through ALE's own vector environment, which skips, scales and stacks frames by itself: bytes [84, 84, stack] come out."""

from __future__ import annotations

import importlib
import importlib.util
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rlclinic.errors import ConfigError, NotFound, nearest
from rlclinic.training.envs import reports

if TYPE_CHECKING:
    from rlclinic.config import EnvConfig
    from rlclinic.training.envs.adapter import GymnasiumEnv
    from rlclinic.training.envs.stepping import Rows

STICKY: Final = 0.25
"""What the v5 environments say (Machado et al. 2018, arXiv:1709.06009)."""
MOST_FRAMES: Final = 108_000
"""Half an hour of play at 60 frames a second, the usual limit of a game."""
OWN: Final = ("full_action_space", "grayscale", "img_height", "img_width", "maxpool")
"""What env.kwargs may say to ALE's vector environment; everything else there is for Gymnasium's single one."""
FIRE: Final = 1


def steps(config: EnvConfig) -> bool:
    """Whether ALE's vector environment steps this config: an Atari game without wrappers, and without settings that it lacks."""
    if not config.atari:
        return False
    foreign = sorted(set(config.kwargs) - {*OWN, "render_mode"})
    if not config.wrappers and not foreign:
        return True
    asked = [name for name in ("frame_skip", "sticky_actions", "episodic_life") if getattr(config, name)]
    if asked:
        what = f"env.kwargs.{foreign[0]}" if foreign else "env.wrappers"
        raise ConfigError(
            f"env.{asked[0]} is set, and so is {what}: Gymnasium's single environment must then be stepped, which has no env.{asked[0]}.\n"
            "  It would be ignored.\n"
            f"  Try: leave {what} out, or env.{asked[0]} and let a wrapper do it (gymnasium.wrappers.AtariPreprocessing)"
        )
    return False


def make(config: EnvConfig, seeds: list[int], n_envs: int, device: str, evaluation: bool, first_env: int = 0) -> GymnasiumEnv:
    """One vector environment per member. Evaluations play whole games, lives and all."""
    from rlclinic.training.envs import spaces
    from rlclinic.training.envs.adapter import GymnasiumEnv, Local

    vectors = [_vector(config, n_envs) for _ in seeds]
    shape = _lay_out(np.zeros((1, *vectors[0].single_observation_space.shape), np.uint8)).shape[1:]
    lives = config.episodic_life and not evaluation
    lanes = [Games(vector, config, once=evaluation, lives=lives) for vector in vectors]
    limit = config.max_episode_steps or MOST_FRAMES // (config.frames_per_step or 1)
    return GymnasiumEnv(
        Local(lanes, skips=evaluation),
        spaces.images_of(shape),
        spaces.actions(vectors[0].single_action_space, config.id),
        seeds,
        n_envs,
        max_episode_steps=limit,
        device=device,
        evaluation=evaluation,
        lives=lives,
        first_env=first_env,
    )


def _vector(config: EnvConfig, n_envs: int) -> Any:
    from gymnasium.vector import AutoresetMode

    ale = _module("ale_py")
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)  # or every game announces the emulator's version
    skip = config.frames_per_step or 1
    limit = MOST_FRAMES if config.max_episode_steps is None else config.max_episode_steps * skip
    return _module("ale_py.vector_env").AtariVectorEnv(
        _game(config.id),
        n_envs,
        num_threads=max(config.workers, 1),
        max_num_frames_per_episode=limit,
        repeat_action_probability=STICKY if config.sticky_actions is None else config.sticky_actions,
        # Of its three ways this one keeps the final observation. Its own episodic_life starts a new game at every lost life, and its
        # own reward_clipping would hide the score: `Games` and training do both.
        autoreset_mode=AutoresetMode.SAME_STEP,
        episodic_life=False,
        reward_clipping=False,
        frameskip=skip,
        stack_num=config.frame_stack,
        noop_max=config.noop_max,
        use_fire_reset=config.fire_reset,
        **{name: value for name, value in config.kwargs.items() if name in OWN},
    )


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as reason:
        raise ConfigError(
            f"Atari games need ale-py, which is not installed ({reason}).\n"
            "  The environment cannot be made without it.\n"
            "  Try: pip install ale-py"
        ) from reason


def _game(env_id: str) -> str:
    """ALE's own name of a game: ALE/MsPacman-v5 is ms_pacman."""
    name = re.sub(r"-v\d+$", "", env_id.removeprefix("ALE/"))
    game = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    known = _module("ale_py.roms").get_all_rom_ids()
    if game not in known:
        offered = nearest(game, known)
        names = " or ".join("ALE/" + "".join(part.capitalize() for part in each.split("_")) + "-v5" for each in offered)
        raise NotFound(f"There is no Atari game {env_id}.\n  There is nothing to train on.\n  Try: {names or 'ALE/Pong-v5'}")
    return game


def _lay_out(obs: np.ndarray) -> np.ndarray:
    """Stacked frames [N, K, H, W] or [N, K, H, W, 3] as channels, the newest last: [N, H, W, C]."""
    if obs.ndim == 4:
        return obs.transpose(0, 2, 3, 1)
    return obs.transpose(0, 2, 3, 1, 4).reshape(obs.shape[0], *obs.shape[2:4], -1)


class Games:
    """A Stepper: one member's games. With `lives`, a lost life is terminal for learning, and the game goes on. After a lost life the
    first action is FIRE, if the config says so and the game knows it."""

    def __init__(self, vector: Any, config: EnvConfig, *, once: bool, lives: bool) -> None:
        self._vector, self._once, self._by_life = vector, once, lives
        self.report = reports.Reports(config.id)
        self._resting = np.zeros(vector.num_envs, np.bool_)
        self._lives = np.zeros(vector.num_envs, np.int32)
        meanings = [str(action).rpartition(".")[2] for action in vector.ale.get_action_set()]
        # In evaluations too: a policy that never learned to serve would look at a waiting ball for half an hour.
        self._serves = config.fire_reset and meanings[FIRE : FIRE + 1] == ["FIRE"]
        self._fallen = np.zeros(vector.num_envs, np.bool_)
        self._seen = np.zeros(0)

    def reset(self, seeds: list[int], rows: Rows) -> None:
        self._resting[:] = self._fallen[:] = False
        self.report.steps = 0
        with self.report.during("reset"):
            obs, info = self._vector.reset(seed=np.array(seeds))
        self._lives, self._seen = info["lives"].copy(), obs
        rows.obs[...] = _lay_out(obs)

    def step(self, action: np.ndarray, rows: Rows) -> bool:
        self.report.steps += 1
        if self._serves and self._fallen.any():
            action = np.where(self._fallen, FIRE, action)
        with self.report.during("step"):
            obs, reward, terminated, truncated, info = self._vector.step(action)
        rows.reward[:], rows.terminated[:], rows.truncated[:] = reward, terminated, truncated
        rows.next_obs[...] = _lay_out(obs)
        ended = terminated | truncated
        if ended.any():
            rows.obs[ended] = rows.next_obs[ended]
            rows.next_obs[ended] = _lay_out(info["final_obs"][ended])
        self._fallen = (info["lives"] < self._lives) & ~ended
        if self._by_life and self._fallen.any():
            self._lose(rows)
        self._lives, self._seen = info["lives"].copy(), obs
        return self._rest(ended, rows)

    def _lose(self, rows: Rows) -> None:
        assert rows.goes_on is not None
        rows.terminated[self._fallen] = rows.goes_on[self._fallen] = True
        rows.obs[self._fallen] = rows.next_obs[self._fallen]

    def _rest(self, ended: np.ndarray, rows: Rows) -> bool:
        """Evaluation counts one game per env: what comes after it is no transition."""
        if not self._once:
            return bool(ended.any())
        idle = self._resting.copy()
        rows.valid[idle], rows.reward[idle] = False, 0.0
        for flags in (rows.terminated, rows.truncated):
            flags[idle] = False
        rows.obs[idle] = rows.next_obs[idle]
        self._resting |= ended
        return bool(ended.any() or idle.any())

    def set_taken(self, steps: int) -> None:
        """Scores are made of no terms."""

    def render(self, n: int) -> Any:
        """The newest frame that the agent was shown, four times as large."""
        frame = _lay_out(self._seen[n : n + 1])[0][..., -1:]
        return np.repeat(np.repeat(frame, 4, 0), 4, 1).repeat(3, -1)

    def close(self) -> None:
        with suppress(Exception):  # as in stepping.Lanes
            self._vector.close()
