"""Recording episodes: who acts, where, and into which folder. Imports torch when it is asked to."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.config import load
from rlclinic.datasets import folder
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.data.requests import CollectRequest
from rlclinic.ops.runs.policy import load_policy, pick_checkpoint
from rlclinic.report.models import DataWritten
from rlclinic.runs.record import Checkpoint
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.config import Config
    from rlclinic.training.envs import VecEnv
    from rlclinic.training.evaluation import Actor


def collect(request: CollectRequest, progress: Callable[[int], None] | None = None) -> DataWritten:
    """Let somebody act for some episodes, and keep all of it; or keep what a run met while it learned."""
    if request.replay:
        return _collect_replay(request)
    with _actor(request) as (env, act, config, who):
        from rlclinic.training.data import collection

        out = request.out or Path(f"{who.replace('/', '-').replace(':', '-').replace('.', '-')}-data")
        spaces = collection.observation_space(env), collection.action_space(env)
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
            for episode in collection.record(env, act, request.episodes, request.noise, request.seed):
                writer.add(episode)
                if progress is not None:
                    progress(writer.episodes)
    return _describe(out)


def _describe(out: Path) -> DataWritten:
    data = folder.read(out)
    return DataWritten(
        data=str(out), episodes=data.n_episodes, transitions=len(data), return_mean=float(data.returns.mean()), env=data.env_id
    )


def _collect_replay(request: CollectRequest) -> DataWritten:
    """The replay of a run's newest checkpoint, or of the one that is named."""
    if request.policy is not None or request.noise:
        raise UsageError("a replay holds what was done: nobody acts, and no noise is added.\n  Leave the policy and the noise out")
    store = Store(request.runs_dir)
    chosen = pick_checkpoint(store, request.selector)
    checkpoint = chosen if isinstance(store.resolve(request.selector), Checkpoint) else chosen.run.checkpoints[-1]
    policy = load_policy(checkpoint)
    from rlclinic.training import envs
    from rlclinic.training.checkpoints import replay_episodes, replay_files
    from rlclinic.training.data import collection
    from rlclinic.training.loops import off_policy

    plan, config = policy._plan, policy.config
    saved = replay_files.read(checkpoint.path) if isinstance(plan, off_policy.Plan) else None
    if saved is None or not isinstance(plan, off_policy.Plan) or not saved.stored:
        raise NotFound(
            f"{checkpoint.run.id}@{checkpoint.step} holds no replay: only the newest checkpoint of an algorithm with one has it "
            "(dqn, sac, td3, …), unless run.save_replay=false.\n  Let its policy act instead: ",
            Action("data collect", checkpoint.run.id, episodes=100, noise=0.3),
        )
    if config.bonus is not None:
        raise UsageError(
            f"the rewards in the replay of {checkpoint.run.id} hold its bonus ({config.bonus.kind}), which is not the environment's.\n"
            "  Let its policy act instead: ",
            Action("data collect", checkpoint.run.id, episodes=100, noise=0.3),
        )
    env = envs.make(config.env, [request.seed], 1)
    try:
        spaces = collection.observation_space(env), collection.action_space(env)
    finally:
        env.close()
    who = f"{checkpoint.run.id}@{checkpoint.step}"
    out = request.out or Path(f"{who}-replay")
    facts = {"replay": who, "env": config.env.model_dump(mode="json")}
    discrete = spaces[1].kind == "discrete"
    with folder.Writer(out, *spaces, env_id=config.env.id, source=f"the replay of {who}", facts=facts) as writer:
        for episode in replay_episodes.split(
            saved, plan.memory, lambda action: action[..., 0].long() if discrete else off_policy.to_env(plan, action)
        ):
            writer.add(episode)
    return _describe(out)


@contextlib.contextmanager
def _actor(request: CollectRequest) -> "Iterator[tuple[VecEnv, Actor, Config, str]]":
    """The environment, who acts in it, its config, and the actor's name."""
    from rlclinic.training import envs
    from rlclinic.training.data import collection

    copies = min(request.episodes, collection.MOST_COPIES)
    if request.policy is None and request.changes:
        raise UsageError(
            "a run's policy acts in the environment as it was trained in: settings are for one in which another one acts.\n"
            "  Leave the settings out, or name who acts: ",
            Action("data collect", "Pendulum-v1", policy="random", set=request.changes),
        )
    if request.policy is None:
        checkpoint = pick_checkpoint(Store(request.runs_dir), request.selector)
        policy = load_policy(checkpoint)
        env = policy.make_envs(request.seed, copies)
        act: Actor = policy.actor(copies, deterministic=request.deterministic, seed=request.seed)
        config, who = policy.config, f"{checkpoint.run.id}@{checkpoint.step}"
    else:
        if request.selector == "@last":
            raise UsageError(
                "whoever acts needs an environment to act in.\n  Name it first: ", Action("data collect", "Pendulum-v1", policy="random")
            )
        config = load(request.selector, request.changes).config
        # Whoever types a command names the code that it runs.
        trust.approve(*trust.names_in(config.env), *([] if request.policy == "random" else [request.policy]))
        env = envs.make(config.env, [request.seed], copies)
        random = request.policy == "random"
        act = collection.play_at_random(env, request.seed) if random else collection.play_with(request.policy, env)
        who = request.policy
    try:
        yield env, act, config, who
    finally:
        env.close()
