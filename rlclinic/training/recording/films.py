"""Episodes as films and numbers while a run trains (`run.film_every_env_steps`): one of every member, played side by side.

The policies act as they stand after the iteration, from the first evaluation start, in environments of their own: nothing that training
reads is touched, and rows and checkpoints are the same with films as without them.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError, RlclinicError
from rlclinic.runs import disk
from rlclinic.runs.recording import films
from rlclinic.runs.recording.films import Trace
from rlclinic.training import envs, evaluation
from rlclinic.training.envs import atari, making, native
from rlclinic.training.evaluation import Actor

if TYPE_CHECKING:
    from rlclinic.training.trainer import Session

MOST_MEMBERS: Final = 8
"""Of a cohort that are filmed at once: more would take longer than they teach."""
PICTURES: Final = "rgb_array"
Factory = Callable[..., Any]


@dataclass
class Episode:
    """What was seen of one episode."""

    frames: list[Any] = field(default_factory=list)
    """RGB, [height, width, 3]; none where the environment has no pictures."""
    trace: Trace = field(default_factory=Trace)
    fps: float = 30.0


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Notes every step of an environment: its picture, and its numbers as the environment itself gives them."""

    def __init__(self, env: gym.Env[Any, Any], episode: Episode, *, pictures: bool) -> None:
        super().__init__(env)
        self.episode, self.pictures = episode, pictures
        self._numbers: list[float] = []

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begins the recording anew."""
        self.episode.frames, self.episode.trace = [], Trace()
        obs, info = super().reset(**kwargs)
        self._look(obs)
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps, and notes it."""
        acted_on = self._numbers
        obs, reward, terminated, truncated, info = super().step(action)
        self.episode.trace.add(acted_on, _numbers_of(self.env.action_space, action), float(reward), _terms_of(info))
        success = info.get("is_success", info.get("success")) if terminated or truncated else None
        if success is not None:
            self.episode.trace.success = bool(success)
        self._look(obs)
        return obs, reward, terminated, truncated, info

    def _look(self, obs: Any) -> None:
        self._numbers = _numbers_of(self.env.observation_space, obs)
        if self.pictures:
            frame = self.env.render()
            if isinstance(frame, np.ndarray) and frame.ndim == 3:
                self.episode.frames.append(frame.astype(np.uint8, copy=False))


def _numbers_of(space: gym.Space[Any], value: Any) -> list[float]:
    """A value of a space in numbers; nothing where it is a picture, or a thing that has none."""
    if isinstance(space, gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        numbers = np.asarray(value, dtype=np.float64).ravel()
        return [] if len(numbers) > 1024 else [float(number) for number in numbers]
    try:
        flat = np.asarray(gym.spaces.flatten(space, value), dtype=np.float64).ravel()
    except (RuntimeError, TypeError, ValueError):  # RuntimeError: a space that Gymnasium cannot flatten
        return []
    return [] if len(flat) > 1024 else [float(number) for number in flat]


def _terms_of(info: Mapping[str, Any]) -> dict[str, float]:
    terms = info.get("reward_terms")
    if not isinstance(terms, Mapping):
        return {}
    numbers: dict[str, float] = {}
    for name, value in terms.items():
        with suppress(TypeError, ValueError):
            numbers[str(name)] = float(value)
    return numbers


@torch.no_grad()
def play(
    config: EnvConfig,
    seeds: list[int],
    act: Actor,
    device: str,
    factory: Factory | None = None,
    observe: Callable[[Tensor], None] | None = None,
) -> list[Episode]:
    """One episode for each seed, from the first evaluation start, all acted on together.

    Where the environment has no pictures, or cannot draw them here, its numbers are recorded all the same.
    """
    episodes = [Episode() for _ in seeds]
    if factory is None and config.id in native.PROBES:
        env: Any = envs.make(config, seeds, 1, device=device, evaluation=True)
    elif factory is None and atari.steps(config):
        env = envs.make(config.model_copy(update={"workers": 0}), seeds, 1, device=device, evaluation=True)
    else:
        env = _make_recorded(config, seeds, episodes, device, factory)

    def look(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        if factory is None and atari.steps(config):
            for member, episode in enumerate(episodes):
                episode.frames.append(env.render(member, 0))
        return act(obs, mask, t)

    try:
        evaluation.play(env, look, [True] * len(seeds), films.MOST_STEPS, observe or getattr(act, "observe", None))
        if len(env.failures) == len(seeds):
            raise next(iter(env.failures.values()))
        return episodes
    finally:
        env.close()


def _make_recorded(config: EnvConfig, seeds: list[int], episodes: list[Episode], device: str, factory: Factory | None) -> Any:
    films.draw_in_memory()
    waiting = iter(episodes)
    drawn = config.model_copy(update={"kwargs": {**config.kwargs, "render_mode": PICTURES}})
    first = making.make_single(config, factory)
    making.close(first)
    pictures = PICTURES in (first.metadata.get("render_modes") or [])
    if pictures:
        try:
            making.close(making.make_single(drawn, factory))
        except ConfigError:
            pictures = False  # it has some, but not here: no OpenGL, or a factory that takes no render_mode

    def make() -> gym.Env[Any, Any]:
        made, episode = making.make_single(drawn if pictures else config, factory), next(waiting)
        episode.fps = float(made.metadata.get("render_fps") or 30)
        return Recorder(made, episode, pictures=pictures)

    # Kwargs, time limit and wrappers are inside of what `make` makes.
    plain = config.model_copy(update={"kwargs": {}, "wrappers": (), "max_episode_steps": None, "native": "never", "workers": 0})
    return envs.make(plain, seeds, 1, device=device, evaluation=True, factory=make)


def write(folder: Path, step: int, episode: Episode, kind: str = "gif") -> list[Path]:
    """A film and a trace as the page shows them, or the trace alone."""
    with disk.guarded(folder):
        folder.mkdir(exist_ok=True)
    written = []
    if episode.frames:
        frames, fps = films.shrink(episode.frames, episode.fps)
        # Under another name first: whoever lists the films must not find half of one.
        half = films.write(folder / f"half-{step}.{kind}", frames, fps)
        written.append(half.replace(folder / f"{step}.{kind}"))
    if episode.trace.rewards:
        written.append(films.write_trace(folder / f"{step}.json", episode.trace))
    return written


def record(session: "Session") -> None:
    """An episode of every active member with its present policy, beside its run. What goes wrong is said in its log, and nothing else."""
    cohort, started = session.cohort, time.perf_counter()
    filmed = [index for index, member in enumerate(cohort.members) if member.active][:MOST_MEMBERS]
    deterministic, seed = cohort.config.run.eval_deterministic, cohort.seed.squeeze(-1)
    act_all = evaluation.actor(cohort.plan, cohort.learner, 1, deterministic=deterministic, seed=seed)

    def act(obs: Tensor, mask: Tensor | None, t: int) -> Tensor:
        """The policies act for all members at once; only the filmed ones have something to look at."""
        masks = None if mask is None else _spread(mask, filmed, len(cohort.members))
        return act_all(_spread(obs, filmed, len(cohort.members)), masks, t)[filmed]

    def observe(reward: Tensor) -> None:
        if isinstance(act_all, evaluation.EpisodeActor):
            act_all.observe(_spread(reward, filmed, len(cohort.members)))

    try:
        seeds = [cohort.members[index].run.seed for index in filmed]
        episodes = play(cohort.config.env, seeds, act, str(cohort.device), cohort.factory, observe)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with a film, the training that is filmed goes on
        session.films_refused = True
        reason = f"{'' if isinstance(error, RlclinicError) else f'{type(error).__name__}: '}{error}".partition("\n")[0]
        for index in filmed:
            with cohort.members[index].writing(cohort.env_steps):
                cohort.members[index].writer.log(f"no film from here on: {reason}")
    else:
        for index, episode in zip(filmed, episodes, strict=True):
            with cohort.members[index].writing(cohort.env_steps):
                write(cohort.members[index].path / films.FOLDER, cohort.env_steps, episode)
    session.clock["write"] += time.perf_counter() - started


def _spread(rows: Tensor, members: list[int], count: int) -> Tensor:
    """Rows of some members among those of all, [M, ...]: the others' are as the first's, and nobody reads what comes of them."""
    whole = rows[:1].expand(count, *rows.shape[1:]).clone()
    whole[members] = rows
    return whole
