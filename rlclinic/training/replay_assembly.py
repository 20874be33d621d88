"""Putting together what an algorithm with a replay needs: its networks, its memory, and why a config cannot have them."""

import os
from collections.abc import Collection
from typing import Any, Final

import numpy as np
import torch

from rlclinic.actions import Action, Change
from rlclinic.config import Config, ImitationConfig
from rlclinic.config.corrections import CORRECTIONS
from rlclinic.errors import ConfigError
from rlclinic.training import optim
from rlclinic.training.algos import OffPolicyAlgorithm, find_off_policy
from rlclinic.training.bonuses import pay
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from rlclinic.training.envs.base import ActionSpec, VecEnv
from rlclinic.training.loops.off_policy import AVERAGE, Learner, Plan
from rlclinic.training.maths import normalize
from rlclinic.training.nets import fitting, q_nets
from rlclinic.training.nets.layout import Layout

MOST_OF_MEMORY: Final = 0.8
"""The share of the free memory that replays may take."""
GIBIBYTE: Final = 1 << 30


def plan_for(config: Config, env: VecEnv, corrections: Collection[str] = CORRECTIONS.keys()) -> Plan:
    """Algorithm, networks and optimizers for a config and what its environment gives and takes."""
    algo: Any = config.algo
    module = find_off_policy(algo.name)
    if algo.loop == "imitation":
        _check_imitation(config, env)
    else:
        _check_spaces(config, env, module)
    if config.online_from is not None and env.skips:
        raise ConfigError(
            f"{config.env.id} resets in a step of its own, in which nothing is done that could be learned from.\n"
            "  data.then_online would store it as a transition.\n  Train with one env object each"
        )
    if algo.name == "q_learning":
        _check_table(config, env)
    made = module.build_networks(config, int(torch.Size(env.obs_shape).numel()), env)
    rule = (algo.optimizer, algo.adam_eps, algo.weight_decay, algo.momentum, algo.rms_decay)
    eps_in_root = "rmsprop_as_torch" not in corrections
    optimizers = {name: optim.Optimizer(*rule, net.layout, eps_in_root) for name, net in made.items()}
    rule = (algo.optimizer, algo.adam_eps, 0.0, algo.momentum, algo.rms_decay)
    learned = scalars_of(module, config, env.action, 1, torch.device("cpu"))
    for name, first in learned.items():
        optimizers[name] = optim.Optimizer(*rule, Layout({name: tuple(first.shape[1:])}), eps_in_root)
    shape = replay.Shape(
        rows=config.replay_rows,
        n_envs=config.env.n_envs,
        obs_shape=tuple(env.obs_shape),
        action_size=1 if env.action.kind == "discrete" else env.action.sizes[0],
        images=env.picture is not None,
        once=algo.optimize_memory_usage,
        marks_valid=env.skips,
        masks=env.action.sizes[0] if config.env.action_mask and env.action.kind == "discrete" and not config.offline else 0,
        prioritized=getattr(algo, "prioritized", False),
    )
    return Plan(
        algo=module,
        config=algo,
        env=fitting.settings_for(config, env),
        action=env.action,
        nets=made,
        optimizers=optimizers,
        memory=shape,
        cycles=config.cycles,
        updates_per_cycle=config.updates_per_cycle,
        engine=config.run.engine,
        learned={name: first[0] for name, first in learned.items()},
        bonus=None if config.bonus is None else pay.plan(config.bonus, env, on_policy=False),
    )


def scalars_of(
    algorithm: OffPolicyAlgorithm, config: Config, action: ActionSpec, members: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """The first values of an algorithm's learned numbers by name, [M, 1], or [M, K] with one for each component; most have none."""
    made: dict[str, torch.Tensor] = algorithm.scalars(config.algo, members, device) if hasattr(algorithm, "scalars") else {}
    return made | (algorithm.vectors(config, action, members, device) if hasattr(algorithm, "vectors") else {})


def _check_spaces(config: Config, env: VecEnv, algorithm: OffPolicyAlgorithm) -> None:
    name, kind = config.algo.name, env.action.kind
    if algorithm.ACTIONS == "any" and kind not in ("discrete", "box"):
        raise ConfigError(
            f"{name} learns choices or vectors of numbers, but {config.env.id} takes actions of kind {kind}.\n"
            "  Recorded data has no such actions.\n  Try: ",
            Action("train", f"{config.env.id}:ppo"),
        )
    chooses = kind == "discrete" if algorithm.ACTIONS == "any" else algorithm.ACTIONS == "discrete"
    if chooses and kind != "discrete":
        other = "sac" if kind == "box" else "ppo"
        raise ConfigError(
            f"{name} chooses one action of several, but {config.env.id} takes actions of kind {kind}.\n"
            "  There is no list of actions to give values to.\n"
            "  Try: ",
            Action("train", f"{config.env.id}:{other}"),
        )
    if not chooses and kind != "box":
        other = "dqn" if kind == "discrete" else "ppo"
        raise ConfigError(
            f"{name} learns actions that are vectors of numbers, but {config.env.id} takes actions of kind {kind}.\n"
            "  Its actor has no slope to follow between choices.\n"
            "  Try: ",
            Action("train", f"{config.env.id}:{other}"),
        )
    if not chooses:
        bounds = torch.stack([torch.as_tensor(env.action.low), torch.as_tensor(env.action.high)])
        if not bool(torch.isfinite(bounds).all()):
            raise ConfigError(
                f"{config.env.id} has actions without bounds, and {name} learns actions between bounds.\n"
                "  There is nothing that -1 and 1 could be scaled to.\n  Try: ",
                Change("env.wrappers", [{"id": "ClipAction"}]),
                " around an environment with bounds, or :ppo",
            )
    if env.picture is None or name not in ("dqn", "bootstrapped_dqn"):
        _check_vectors(config, env)


def _check_vectors(config: Config, env: VecEnv) -> None:
    """ConfigError for observations that are no vector: a picture, or one with numbers beside it, which lie in one row of bytes."""
    if len(env.obs_shape) == 1 and env.picture is None:
        return
    what = f"of shape {tuple(env.obs_shape)}" if len(env.obs_shape) != 1 else "that are a picture with numbers beside it"
    raise ConfigError(
        f"{config.env.id} gives observations {what}; {config.algo.name} here learns from vectors.\n"
        "  The first layer could not be applied.\n  Flatten them: ",
        Change("env.wrappers", [{"id": "FlattenObservation"}]),
        *(() if config.offline or isinstance(config.algo, ImitationConfig) else (f", or try {config.env.id}:ppo",)),
    )


def _check_imitation(config: Config, env: VecEnv) -> None:
    if env.action.kind not in ("discrete", "box"):
        raise ConfigError(
            f"{config.algo.name} imitates choices and vectors of numbers, but {config.env.id} takes actions of kind {env.action.kind}"
        )
    if env.action.low is not None and not (np.isfinite([env.action.low, env.action.high]).all()):  # type: ignore[arg-type]
        raise ConfigError(
            f"{config.env.id} has actions without bounds, and {config.algo.name} learns actions between bounds.\n"
            "  There is nothing that -1 and 1 could be scaled to.\n  Try: ",
            Change("env.wrappers", [{"id": "ClipAction"}]),
            " around an environment with bounds",
        )
    _check_vectors(config, env)
    if env.skips:
        raise ConfigError(
            f"{config.env.id} resets in a step of its own, in which there is nothing to label.\n  Train with one env object each"
        )


def _check_table(config: Config, env: VecEnv) -> None:
    first = env.reset()
    if first.dim() == 3 and bool((first.sum(-1) == 1).all()) and bool((first.amax(-1) == 1).all()):
        return
    raise ConfigError(
        f"q_learning keeps a table of states, but {config.env.id} gives observations of shape {tuple(env.obs_shape)} that are no state's "
        "number.\n"
        "  There would be no row to look up.\n"
        "  Try: ",
        Action("train", f"{config.env.id}:dqn"),
        ", or an environment whose observation_space is Discrete",
    )


def fresh_learner(plan: Plan, seeds: list[int], n_envs: int, device: torch.device | None = None) -> Learner:
    """Weights as each member's seed gives them; targets equal to them; nothing learned, nothing normalized yet."""
    device = device or torch.device("cpu")
    members = len(seeds)
    nets = {
        name: torch.cat([q_nets.initialize(net, seed, stream) for seed in seeds]).to(device)
        for stream, (name, net) in enumerate(plan.nets.items())
    }
    targets = {name: nets[name].clone() for name in plan.algo.TARGETS if name in nets}
    if getattr(plan.config, "policy_average", 0):
        targets[AVERAGE] = nets[plan.acts].clone()
    nets |= {name: first.to(device).repeat(members, 1) for name, first in plan.learned.items()}
    scaled = plan.env.normalize_reward
    drifts = getattr(plan.config, "action_noise", None) == "ou" or getattr(plan.algo, "DRIFTS", False)
    learner = Learner(
        nets=nets,
        targets=targets,
        optimizers={name: optim.start(flat) for name, flat in nets.items()},
        reward_bound=torch.zeros(members, 1, device=device),
        obs_stats=normalize.moments(members, plan.memory.obs_size, device) if plan.env.normalize_obs else None,
        reward_stats=normalize.moments(members, 1, device) if scaled else None,
        reward_carry=torch.zeros(members, n_envs, device=device) if scaled else None,
        drift=torch.zeros(members, n_envs, plan.memory.action_size, device=device) if drifts else None,
        bonus=None if plan.bonus is None else pay.fresh(plan.bonus, seeds, device),
    )
    if hasattr(plan.algo, "initialize"):
        plan.algo.initialize(plan, learner)
    return learner


def memory_for(plan: Plan, members: int, device: torch.device) -> Replay:
    """Empty replays, if they fit: a run that dies when its memory is full has spent everything before it."""
    needed, free = plan.memory.size_in_bytes(members), _free(device)
    if free is not None and needed > MOST_OF_MEMORY * free:
        each, rows = plan.memory.size_in_bytes(1), plan.memory.rows
        fitting = int(rows * MOST_OF_MEMORY * free / needed)
        saving = (
            () if plan.config.optimize_memory_usage else (", or ", Change("algo.optimize_memory_usage", True), ", or fewer seeds at a time")
        )
        raise ConfigError(
            f"the replay of {rows:,} transitions takes {each / GIBIBYTE:.2f} GiB for each of {members} runs, {needed / GIBIBYTE:.1f} GiB "
            f"together; {free / GIBIBYTE:.1f} GiB are free.\n"
            "  Training would stop, or be stopped by the system, when it is full.\n  Try: ",
            Change("algo.buffer_size", max(fitting // 1000 * 1000, 1)),
            *saving,
        )
    return replay.start(plan.memory, members, device)


def _free(device: torch.device) -> int | None:
    """Bytes that are free; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
