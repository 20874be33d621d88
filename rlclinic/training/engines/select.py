"""Which engine trains a cohort: decided once, said in the log, kept by every resume."""

import math
from typing import Any, Final, NamedTuple

import torch

from rlclinic.actions import Change
from rlclinic.config import ADVERSARIAL, Config
from rlclinic.config.network import OWN_ENCODERS
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.training.actors.pool import Actors
from rlclinic.training.engines import captured, captured_replay, compiled, eager
from rlclinic.training.envs import native
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.fast import twins
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.kinds import AnyPlan
from rlclinic.training.loops.on_policy import Plan

COMPILE_SECONDS: Final = 60.0
"""What compiling a cohort's units takes, about."""
STEP_SECONDS: Final = 4e-4
"""What an eager gradient step costs beside its arithmetic; a step of the environments costs a quarter of it."""
FLOPS: Final = 5e10
"""The arithmetic of one core in a second."""
SAVED: Final = 0.55
"""The share of the eager time that compiled units save."""
REPLAY_STEP_SECONDS: Final = 8e-4
"""What a captured gradient step of an algorithm with a replay takes one member, with an env step before it."""
REPLAY_MEMBER_SECONDS: Final = 3.7e-5
"""What it takes every other member; both with layers of 256, batches of 256, on an H200."""


class Choice(NamedTuple):
    """An engine and why it was chosen."""

    kind: str
    why: str

    def make(self) -> eager.Engine:
        """The engine itself."""
        return {"compiled": eager.Compiled, "captured": captured.Captured}.get(self.kind, eager.Eager)()


def choose(config: Config, plan: AnyPlan, env: VecEnv, members: int, device: torch.device, recorded: dict[str, Any] | None) -> Choice:
    """The engine for a cohort. A run that was started with one goes on with it."""
    wanted = config.run.engine
    if recorded and recorded.get("kind") in ("eager", "reference", "autograd", "compiled", "captured"):
        return _possible(Choice(recorded["kind"], str(recorded.get("why", "as it was started"))), config, plan, env, device)
    if wanted == "auto" and isinstance(env, Actors):
        return Choice("eager", f"{env.actors} actors play in processes of their own, and this one learns")
    if wanted == "auto" and config.run.data_parallel > 1:
        return Choice("eager", f"{config.run.data_parallel} ranks average gradients between the parts of a step")
    if wanted == "auto" and plan.bonus is not None:
        return Choice("eager", "a bonus for new states is computed operation by operation")
    if wanted == "auto" and getattr(plan, "constraint", None) is not None:
        return Choice("eager", "a limit on costs is kept operation by operation")
    if wanted == "auto" and config.algo.name in ADVERSARIAL:
        return Choice("eager", "its reward is learned operation by operation")
    if wanted in ("auto", "eager"):
        if config.algo.name not in twins.MODULES:
            return Choice("reference", f"{config.algo.name} has no gradients written out: its losses are differentiated")
        if _has_own_network(config):
            return Choice("reference", f"net.encoder={config.net.encoder} is a network of another package: losses are differentiated")
    if wanted != "auto":
        return _possible(Choice(wanted, f"run.engine={wanted}"), config, plan, env, device)
    if config.algo.loop == "offline":
        return Choice("eager", "recorded data: gradients written out" + (", one graph per iteration" if device.type == "cuda" else ""))
    if isinstance(plan, off_policy.Plan) and device.type == "cuda" and isinstance(env, native.NativeEnv) and captured_replay.possible(plan):
        how = "compiled, as that pays here" if compiles_replay(config, plan, members) else "not compiled, as that would not pay here"
        return Choice("captured", f"a native environment on a GPU: one graph per iteration, {how}")
    if not isinstance(plan, Plan):
        return Choice("eager", f"{config.algo.name} has no other here")
    if plan.corrects_for_age:
        return Choice("eager", "V-trace judges a rollout anew before each epoch")
    if plan.policy.encoder is not None:
        return Choice("eager", "images: compiled engines do not cover convolutions")
    if device.type == "cuda":
        if isinstance(env, native.NativeEnv):
            return Choice("captured", "a native environment on a GPU: one graph per iteration")
        return Choice("eager", f"{config.env.id} is stepped by the host, which waits for each action")
    return _on_cpu(config, plan, members)


def _has_own_network(config: Config) -> bool:
    return config.net.encoder not in OWN_ENCODERS


def _on_cpu(config: Config, plan: Plan, members: int) -> Choice:
    if is_ready(plan, members):
        return Choice("compiled", "compiled units of this shape are in the cache")
    if compiled.compiler() is None:
        return Choice("eager", "there is no C++ compiler")
    seconds = eager_seconds(config, plan, members)
    if seconds * SAVED < COMPILE_SECONDS:
        return Choice("eager", f"about {seconds:.0f} s of training are over before compiling pays ({COMPILE_SECONDS:.0f} s)")
    return Choice("compiled", f"compiling ({COMPILE_SECONDS:.0f} s) saves about {seconds * SAVED:.0f} s")


def compiles_replay(config: Config, plan: off_policy.Plan, members: int) -> bool:
    """Whether compiling a captured run with a replay pays: decided by its settings alone, so that a resume does the same."""
    updates = config.run.max_env_steps / plan.cycle_size * plan.updates_per_cycle
    return updates * (REPLAY_STEP_SECONDS + REPLAY_MEMBER_SECONDS * (members - 1)) * SAVED > COMPILE_SECONDS


def eager_seconds(config: Config, plan: Plan, members: int) -> float:
    """How long the eager engine would take on one core, about."""
    iterations = config.run.max_env_steps / plan.rollout_size
    updates = plan.n_epochs * math.ceil(plan.rollout_size / plan.batch_rows)
    arithmetic = 6.0 * plan.policy.layout.width * members * plan.rollout_size * (plan.n_epochs + 0.5) / FLOPS
    return iterations * (arithmetic + STEP_SECONDS * updates + STEP_SECONDS / 4 * plan.config.n_steps)


def settings(plan: Plan, members: int) -> str:
    """What a cohort's compiled units depend on."""
    return repr((eager.fixed(plan), members))


def is_ready(plan: Plan, members: int) -> bool:
    """Whether a cohort's units have been compiled before."""
    return compiled.ready(settings(plan, members))


def _possible(choice: Choice, config: Config, plan: AnyPlan, env: VecEnv, device: torch.device) -> Choice:
    """The choice, if it can be had; asking for what is not there is an error, not a slow run."""
    if choice.kind in ("eager", "reference", "autograd"):
        return choice
    foreign = None if config.algo.name in twins.MODULES else f"{config.algo.name} is an algorithm"
    foreign = f"net.encoder={config.net.encoder} is a network" if _has_own_network(config) else foreign
    if foreign is not None:
        raise ConfigError(
            f"run.engine={choice.kind}, but {foreign} of another package, which the reference engine trains.\n"
            "  Compiled programs are kept between runs, and would not notice a change in its code.\n  Try: ",
            Change("run.engine", "reference"),
        )
    if config.algo.loop == "offline":
        raise ConfigError(
            f"run.engine={choice.kind}, but {config.algo.name} learns from recorded data, which has engines of its own.\n"
            "  On a GPU its gradient steps are captured anyway, and compiled where that pays.\n  Try: ",
            Change("run.engine", "auto"),
        )
    replayed = isinstance(plan, off_policy.Plan) and choice.kind == "captured" and captured_replay.possible(plan)
    if not isinstance(plan, Plan) and not replayed:
        raise ConfigError(
            f"run.engine={choice.kind}, but {config.algo.name} with these settings trains with the eager engine only.\n"
            "  Nothing could be compiled or captured.\n  Try: ",
            Change("run.engine", "eager"),
        )
    if isinstance(env, Actors):
        raise ConfigError(
            f"run.engine={choice.kind}, but {config.algo.name} with actors trains with the eager engine only.\n"
            "  Their rollouts come from other processes, and nothing of that could be compiled.\n  Try: ",
            Change("run.engine", "eager"),
        )
    if isinstance(plan, Plan) and plan.corrects_for_age:
        raise ConfigError(
            f"run.engine={choice.kind}, but algo.advantage=vtrace trains with the eager engine only.\n"
            "  Advantages would be those of the first epoch throughout.\n  Try: ",
            Change("run.engine", "eager"),
        )
    if isinstance(plan, Plan) and plan.policy.encoder is not None:
        raise ConfigError(
            f"run.engine={choice.kind}, but {config.env.id} gives images, which train with the eager engine only.\n"
            "  Nearly all of the time is in convolutions, which would not get faster.\n  Try: ",
            Change("run.engine", "eager"),
        )
    if choice.kind == "captured" and (device.type != "cuda" or not isinstance(env, native.NativeEnv)):
        reason = f"run.device is {device.type}" if device.type != "cuda" else f"{config.env.id} is stepped outside of the GPU"
        raise ConfigError(
            f"run.engine=captured needs a native environment on a GPU, but {reason}.\n  There would be nothing to capture.\n  Try: ",
            Change("run.engine", "auto"),
        )
    if isinstance(plan, Plan) and choice.kind == "compiled" and device.type == "cpu" and not _can_compile(plan, env.members):
        raise ConfigError(
            "run.engine=compiled, but there is no C++ compiler (g++ or clang++), and no compiled units of this shape in the cache.\n"
            "  Nothing could be compiled.\n  Try: ",
            Change("run.engine", "eager"),
            ", or install g++",
        )
    return choice


def _can_compile(plan: Plan, members: int) -> bool:
    """With a compiler, or without one what somebody compiled before."""
    return compiled.compiler() is not None or is_ready(plan, members)


def recorded(run: Run, how: str) -> dict[str, Any] | None:
    """The engine that a run, or the run it was forked from, was trained with; None for a new start."""
    if how in ("resume", "new"):
        found = Run(run.path).record.get("engine")  # read anew: it was added after the folder was made
    elif how in ("fork", "extend") and run.parent:
        found = Run(run.path.parent / run.parent.rpartition("@")[0]).record.get("engine")
    else:
        found = None
    return dict(found) if isinstance(found, dict) else None
