"""Recording episodes: who acts, where, and into which folder. Imports torch when it is asked to."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlclinic import trust
from rlclinic.config import load
from rlclinic.datasets import folder
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.data.requests import CollectRequest
from rlclinic.ops.runs.policy import load_policy, pick_checkpoint
from rlclinic.report.models import DataWritten
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from torch import Tensor

    from rlclinic.config import Config
    from rlclinic.training.envs import VecEnv

    Act = Callable[[Tensor, Tensor | None, int], Tensor]


def collect(request: CollectRequest, progress: Callable[[int], None] | None = None) -> DataWritten:
    """Let somebody act for some episodes, and keep all of it."""
    with _actor(request) as (env, act, config, who):
        from rlclinic.training import recording

        out = request.out or Path(f"{who.replace('/', '-').replace(':', '-').replace('.', '-')}-data")
        spaces = recording.observation_space(env), recording.action_space(env)
        facts = {
            "policy": who,
            "noise": request.noise,
            "sampled": not request.deterministic,
            "seed": request.seed,
            "env": config.env.model_dump(mode="json"),
        }
        noise = f", {request.noise:.0%} of the actions at random" if request.noise else ""
        with folder.Writer(
            out, *spaces, env_id=config.env.id, source=f"{request.episodes} episodes of {who}{noise}", facts=facts
        ) as writer:
            for episode in recording.record(env, act, request.episodes, request.noise, request.seed):
                writer.add(episode)
                if progress is not None:
                    progress(writer.episodes)
    data = folder.read(out)
    return DataWritten(
        data=str(out), episodes=data.n_episodes, transitions=len(data), return_mean=float(data.returns.mean()), env=data.env_id
    )


@contextlib.contextmanager
def _actor(request: CollectRequest) -> "Iterator[tuple[VecEnv, Act, Config, str]]":
    """The environment, who acts in it, its config, and the actor's name."""
    from rlclinic.training import envs
    from rlclinic.training.recording import MOST_COPIES

    copies = min(request.episodes, MOST_COPIES)
    if request.policy is None:
        checkpoint = pick_checkpoint(Store(request.runs_dir), request.selector)
        policy = load_policy(checkpoint)
        env = policy.make_envs(request.seed, copies)
        act: Act = policy.actor(copies, deterministic=request.deterministic, seed=request.seed)
        config, who = policy.config, f"{checkpoint.run.id}@{checkpoint.step}"
    else:
        if request.selector == "@last":
            raise UsageError("--policy needs an environment to act in.\n  Name it first: data collect Pendulum-v1 --policy random")
        config = load(request.selector).config
        # Whoever types a command names the code that it runs.
        trust.approve(*trust.names_in(config.env), *([] if request.policy == "random" else [request.policy]))
        env = envs.make(config.env, [request.seed], copies)
        act, who = (
            (_random(env, request.seed), "random") if request.policy == "random" else (_function(request.policy, env), request.policy)
        )
    try:
        yield env, act, config, who
    finally:
        env.close()


def _random(env: "VecEnv", seed: int) -> "Act":
    import numpy as np

    from rlclinic.training.recording import act_at_random

    draw = np.random.default_rng([seed, 1])
    return lambda obs, mask, t: act_at_random(env, mask, draw)


def _function(place: str, env: "VecEnv") -> "Act":
    """A user's function: one observation in, one action out."""
    import numpy as np
    import torch

    from rlclinic.training.envs import modules

    home, _, name = place.rpartition(":")
    function: Callable[[Any], Any] | None = getattr(modules.import_home(home, place), name, None) if home else None
    if not callable(function):
        raise NotFound(f"{place}: there is no function {name!r}.\n  Write file.py:function; it takes an observation and returns an action")
    discrete = env.action.kind == "discrete"

    def act(obs: "Tensor", mask: "Tensor | None", t: int) -> "Tensor":
        chosen = [np.asarray(function(row), np.int64 if discrete else np.float32) for row in obs[0].numpy()]
        wanted = () if discrete else (len(env.action.low if env.action.low is not None else ()),)
        wrong = next((action.shape for action in chosen if action.shape != wanted), None)
        if wrong is not None:
            raise ConfigError(f"{place} returned an action of shape {wrong}, and the environment takes {wanted or 'one number'}")
        return torch.from_numpy(np.stack(chosen))[None]

    return act
