"""Between a running cohort and checkpoints on disk: one member out, one member in."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlclinic.actions import Action
from rlclinic.errors import CheckpointCorrupt, ConfigError
from rlclinic.training.checkpoints import files, replay_files, state
from rlclinic.training.checkpoints.files import Checkpoint, Tensors
from rlclinic.training.curriculum import staged
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.data.replay import Replay
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import off_policy, on_policy
from rlclinic.training.loops.kinds import AnyLearner, Static
from rlclinic.training.loops.on_policy import Position
from rlclinic.training.maths.normalize import Moments
from rlclinic.training.members import Member
from rlclinic.training.nets.mlp import ActorCritic


class Whole(NamedTuple):
    """A cohort between two iterations, on the host: tensors [M, ...] by file and name."""

    policy: Tensors
    optimizer: Tensors
    loop: Tensors


def whole(static: Static, learner: AnyLearner, env: VecEnv, position: Position) -> Whole:
    """Everything that checkpoints are cut from, fetched once for all members; `static` is the plan's policy."""
    parts = state.name_tensors(static, learner)
    moments = {
        f"{part}.{name}": tensor
        for part in ("obs_stats", "reward_stats")
        if (stats := getattr(learner, part)) is not None
        for name, tensor in stats._asdict().items()
    }
    loop: Tensors = {f"env.{name}": tensor for name, tensor in env.state().items()} | {"obs": position.obs}
    if position.action_mask is not None:
        loop["action_mask"] = position.action_mask
    files = (parts.policy | moments, parts.optimizer, loop | parts.loop)
    return Whole(*({name: each.detach().cpu() for name, each in file.items()} for file in files))


def take(
    found: Whole, episodes: Episodes, member: Member, index: int, counters: dict[str, Any], memory: Replay | None = None
) -> Checkpoint:
    """One member of the cohort."""
    policy, optimizer, loop = ({name: tensor[index] for name, tensor in part.items()} for part in found)
    loop |= {f"episodes.{name}": tensor for name, tensor in episodes.state(index).items()}
    state = counters | {
        "adapted": member.adapted,
        "best_eval": member.best_eval,
        "eval_mean": member.eval_mean,
        "success_rate": member.success_rate,
        "reached_at": member.reached_at,
        **({"switch": member.switch} if member.switch else {}),
    }
    return Checkpoint(policy, optimizer, loop, state, None if memory is None else replay_files.take(memory, index))


def weights(static: Static, found: list[Checkpoint], learner: AnyLearner, *, optimizer: bool) -> AnyLearner:
    """A learner with the members' saved weights and normalizers, and with their optimizer state if wanted."""
    fresh = state.name_tensors(static, learner)
    policy = {
        name: _together([_weight(each, _there(static, each, name), tuple(like.shape[1:])) for each in found], like)
        for name, like in fresh.policy.items()
    }
    saved = {name: like for name, like in fresh.loop.items() if name in found[0].loop}
    states, loop = None, {name: _together([each.loop[name] for each in found], like) for name, like in saved.items()}
    if optimizer:
        states = {name: _together([each.optimizer[name] for each in found], like) for name, like in fresh.optimizer.items()}
    learner = state.rebuild(static, learner, policy, states, loop)
    obs_stats, reward_stats = _moments(found, "obs_stats", learner.obs_stats), _moments(found, "reward_stats", learner.reward_stats)
    return replace(learner, obs_stats=obs_stats, reward_stats=reward_stats)


def without_bonus(found: Checkpoint) -> Checkpoint:
    """A checkpoint without what a bonus for new states knew."""
    return replace(found, loop={name: tensor for name, tensor in found.loop.items() if not name.startswith(f"{state.BONUS}.")})


def counted_otherwise(found: Checkpoint, learner: AnyLearner) -> bool:
    """Whether what a bonus knew has another shape than this learner's: for more or fewer environments, or of other observations."""
    kept = {name: found.loop.get(f"{state.BONUS}.{name}") for name in learner.bonus or ()}
    return any(each is not None and each.shape != (learner.bonus or {})[name].shape[1:] for name, each in kept.items())


def without_curriculum(found: Checkpoint) -> Checkpoint:
    """A checkpoint without what a curriculum knew of its tasks."""
    return replace(found, loop={name: tensor for name, tensor in found.loop.items() if not name.startswith(f"env.{staged.PREFIX}")})


def _there(static: Static, found: Checkpoint, name: str) -> str:
    return name if name in found.policy or isinstance(static, ActorCritic) else state.stand_in(static, name)


def _together(rows: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(rows).to(like.device)


def _moments(found: list[Checkpoint], part: str, fresh: Moments | None) -> Moments | None:
    """The members' saved statistics, if this config normalizes and theirs did too."""
    if fresh is None or not all(f"{part}.count" in each.policy for each in found):
        return fresh
    return Moments(*(torch.stack([each.policy[f"{part}.{name}"] for each in found]).to(fresh.mean.device) for name in Moments._fields))


def _weight(found: Checkpoint, name: str, shape: tuple[int, ...]) -> Tensor:
    if name not in found.policy or tuple(found.policy[name].shape) != shape:
        there = tuple(found.policy[name].shape) if name in found.policy else "missing"
        raise ConfigError(
            f"the saved network does not fit this config: {name} is {there}, the config needs {shape}.\n"
            f"  Its weights would mean nothing in another shape.\n"
            f"  Keep net.* and the environment as they were, or train from scratch."
        )
    return found.policy[name]


def place(found: list[Checkpoint], learner: AnyLearner, env: VecEnv, episodes: Episodes) -> tuple[AnyLearner, Position, bool]:
    """Put envs and episode statistics where they were; the flag says whether the envs go on exactly."""
    device = position_device(learner)
    names = [name.removeprefix("env.") for name in found[0].loop if name.startswith("env.")]
    obs = env.load_state({name: torch.stack([each.loop[f"env.{name}"] for each in found]).to(device) for name in names})
    for index, each in enumerate(found):
        saved = {name.removeprefix("episodes."): value for name, value in each.loop.items() if name.startswith("episodes.")}
        episodes.load(index, saved)
        if not env.exact:
            episodes.restart(index)
    if not env.exact:
        learner = begin_episodes(learner)
    if learner.reward_carry is not None and env.exact and "reward_carry" in found[0].loop:
        learner = replace(learner, reward_carry=torch.stack([each.loop["reward_carry"] for each in found]).to(device))
    if isinstance(learner, off_policy.Learner) and learner.drift is not None and env.exact and "drift" in found[0].loop:
        learner = replace(learner, drift=torch.stack([each.loop["drift"] for each in found]).to(device))
    return learner, Position(obs, env.action_mask), env.exact


def begin_episodes(learner: AnyLearner) -> AnyLearner:
    """Nothing met or spent yet in the episodes that begin: those that a bonus and a limit remember were never played to their end."""

    def empty(held: Mapping[str, Tensor] | None) -> dict[str, Tensor] | None:
        return None if held is None else {name: each * 0 if name == "episode" else each for name, each in held.items()}

    if isinstance(learner, on_policy.Learner):
        learner = replace(learner, constraint=empty(learner.constraint))
    return replace(learner, bonus=empty(learner.bonus))


def position_device(learner: AnyLearner) -> torch.device:
    """Where a learner lives."""
    return state.weights(learner)[0].device


def fits(found: Checkpoint, env: VecEnv) -> bool:
    """Whether a saved env state is one of this env: a fork may have changed n_envs, the observation, or who steps the environments."""
    saved = found.loop.get("obs")
    # Native environments save their state, Gymnasium's only how often they were started anew.
    return saved is not None and tuple(saved.shape) == (env.n_envs, *env.obs_shape) and ("env.resumes" in found.loop) != env.exact


def of_run(run: Path, step: int | None) -> tuple[Checkpoint, list[str]]:
    """The checkpoint at a step, or the newest whole one, with messages about those passed over."""
    if step is not None:
        return files.read(run / "checkpoints" / str(step), replay=True), []
    found, passed = files.newest(run)
    if found is None:
        raise CheckpointCorrupt(
            f"run {run.name} has no checkpoint that can be used.\n"
            + "".join(f"  {text.partition(chr(10))[0]}\n" for text in passed)
            + "  There is nothing to go on from.\n  Train its settings and seed again, as a new run: ",
            Action("train", run.name),
        )
    return found, passed
