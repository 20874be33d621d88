"""Acting and a gradient step of algorithms with a replay, as pure functions of named tensors: what a GPU's program is compiled from.

The algorithms edit a learner in place. Here they edit copies, which exist on paper only: the compiler writes where they would have gone.
"""

from dataclasses import replace

from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from rlclinic.training.engines import eager
from rlclinic.training.engines.compiled import Named
from rlclinic.training.envs.native.engine import At, NativeEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan, Transitions
from rlclinic.training.nets.q_nets import Networks
from rlclinic.training.optim import OptimizerState


def of_learner(learner: Learner) -> Named:
    """Everything that gradient steps change, by name."""
    states = {name: tensor for kind, state in learner.optimizers.items() for name, tensor in eager.tensors(f"state.{kind}", state).items()}
    return eager.tensors("net", dict(learner.nets)) | eager.tensors("target", dict(learner.targets)) | states


def with_tensors(learner: Learner, given: Named) -> Learner:
    """The learner with these tensors in place of its own."""
    return replace(
        learner,
        nets={name: given[f"net.{name}"] for name in learner.nets},
        targets={name: given[f"target.{name}"] for name in learner.targets},
        optimizers={name: eager.gather(OptimizerState, f"state.{name}", given) for name in learner.optimizers},
    )


def numbers_of(static: Hyperparameters, given: Named) -> Hyperparameters:
    """The numbers: tensors as given, and whatever else there is as it was when the program was made."""
    return Hyperparameters(**{name: given.get(f"hp.{name}", value) for name, value in vars(static).items()})


def collect_inputs(weights: Tensor, at: At, obs: Tensor, noise: Tensor, seed: Tensor, hp: Hyperparameters) -> Named:
    """What `collect` reads; noise is [M, train_freq, ...]."""
    return {"weights": weights, "obs": obs, "noise": noise, "seed": seed, **eager.tensors("at", at), **eager.tensors("hp", vars(hp))}


def collect(plan: Plan, env: NativeEnv, learner: Learner, static: Hyperparameters, given: Named) -> Named:
    """train_freq steps of native environments: what was transitions, its rows for the memory, and where the environments stand."""
    hp, at, obs, taken = numbers_of(static, given), eager.gather(At, "at", given), given["obs"], []
    params = Networks(plan.nets, {plan.algo.ACTOR: given["weights"]})
    for noise in given["noise"].unbind(1):
        action, explored, _ = plan.algo.explore(plan, params, off_policy.normalize_obs(plan, learner, obs), None, noise, hp, None)
        at, step = env.advance(at, off_policy.to_env(plan, action), given["seed"])
        taken.append((obs, action, step, explored))
        obs = step.obs
    transitions = off_policy.stack_steps(plan, taken)
    found = {"rows": replay.as_rows(plan.memory, off_policy.clip_rewards(plan, transitions)), **eager.tensors("transitions", transitions)}
    return found | {name: tensor.clone() for name, tensor in ({"obs": obs} | eager.tensors("at", at)).items()}


def transitions_of(found: Named) -> Transitions:
    """What `collect` says was transitions."""
    return eager.gather(Transitions, "transitions", found)


def update(plan: Plan, memory: Replay, learner: Learner, static: Hyperparameters, given: Named) -> Named:
    """One gradient step on the rows `draw` [M, B] of the memory: the learner after it, and its readings as `found.<name>`."""
    hp, own = numbers_of(static, given), off_policy.copy_learner(with_tensors(learner, given))
    ring = replace(memory, table=given["table"], stored=given["stored"])  # type: ignore[arg-type]
    batch = off_policy.prepare_batch(plan, own, replay.gather(ring, given["draw"], plan.config.n_step, hp.gamma))
    found = plan.updates.update(plan, own, batch, hp, given["active"], given.get("noise"))
    # Copies: what a program gives out must not lie inside what it was given.
    return of_learner(own) | {f"found.{name}": reading.clone() for name, reading in found.items()}


def readings_of(found: Named) -> Named:
    """What `update` has read off."""
    return {name.removeprefix("found."): reading for name, reading in found.items() if name.startswith("found.")}
