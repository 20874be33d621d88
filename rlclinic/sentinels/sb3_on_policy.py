"""What PPO and A2C of Stable-Baselines3 testify: read from the rollout buffer, and from the policy before and after an update."""

from functools import partial
from typing import Any, Final

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlclinic.sentinels import networks, readings
from rlclinic.sentinels.readings import Array, Readings
from rlclinic.sentinels.sb3_steps import Recent, Steps

PROBE_ROWS: Final = 256
COSTLY_ROWS: Final = 40
"""How many rows of a run have the columns that cost gradients and features; in a short run a quarter of them."""
TESTIMONIES: Final = 20
"""Rows of a run with what the transitions say about the environment."""
_HEADS: Final = {"actor_head": ("action_net", "log_std"), "critic_head": ("value_net",)}


def row_env_steps(total: int) -> int:
    """Shorter iterations share a row: every 500 env steps in a short run, every 1,000 from 100k on, at most 250 rows."""
    return max(500, min(1_000, total // 100), total // 250)


class OnPolicyWatch:
    """Follows one learn() of PPO or A2C. Steps are always followed; the rest only in iterations whose row will be written."""

    def __init__(self, model: Any, total: int, log_interval: int | None) -> None:
        self.model = model
        rollout = model.n_steps * model.n_envs
        iterations = max(1, -(-total // rollout))
        self._interval = max(1, log_interval or 1, -(-row_env_steps(total) // rollout))
        self._costly = max(4, iterations // self._interval // COSTLY_ROWS)
        self._testimony = max(1, iterations // self._interval // TESTIMONIES)
        self._iteration = self._rows = self._updates = self._counted = 0
        self._steps, self._recent = Steps(model, model.n_steps), Recent(model)
        self._age = np.zeros(model.n_envs, dtype=np.int64)
        self._probe: _Probe | None = None
        self._before: networks.Weights | None = None
        self._found: dict[str, float] = {}
        parts = _split_parameters(model.policy)
        self._trunk = parts["trunk"]
        self._half_epoch = (_count_planned_steps(model) // int(getattr(model, "n_epochs", 1))) // 2
        self._watch = networks.GradientWatch(parts)
        self._hook = model.policy.optimizer.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self._updates += 1
        # Half way through the first epoch: about the mean over its minibatches, each measured before its own step.
        if self._probe is not None and self._updates - self._counted == self._half_epoch:
            self._found |= self._probe.first_epoch()

    def close(self) -> None:
        """Take the hooks out again."""
        self._hook.remove()
        self._watch.stop()

    def step(self, seen: dict[str, Any]) -> None:
        """After every step of the envs."""
        self._steps.add(seen)
        self._recent.add(seen)

    @property
    def not_finite(self) -> dict[str, Any] | None:
        """Where the env gave a number that is none, if it did."""
        return self._steps.not_finite

    def rollout_end(self) -> None:
        """The rollout is full and its advantages are there; the update comes next."""
        buffer = self.model.rollout_buffer
        starts = np.asarray(buffer.episode_starts)
        age = readings.count_ages(starts, self._age)
        self._age = age[-1]
        self._counted = self._updates
        # SB3 writes a row at the end of a rollout, with what was recorded up to the update before it.
        if (self._iteration + 1) % self._interval == 0:
            self._examine(buffer, starts, age)
        self._steps.clear()
        self._iteration += 1

    def _examine(self, buffer: Any, starts: Array, age: Array) -> None:
        model, raw, trained = self.model, self._steps.raw, self._steps.trained
        returns, values = np.asarray(buffer.returns), np.asarray(buffer.values)
        found = readings.measure_targets(buffer.advantages, returns, values) | readings.measure_rewards(raw, trained)
        found |= readings.measure_ends(self._steps.terminated, self._steps.truncated, returns, trained) | self._steps.resets
        found |= _measure_observations(model, buffer.observations, starts) | _measure_actions(model, buffer.actions)
        if self._rows % self._testimony == 0:
            found |= self._recent.measure()
        if self._rows % self._costly == 0:
            found |= readings.measure_critic_by_time(age, returns, values) | _hash_weights(model)
        self._found = found
        self._before = networks.Weights(model.policy.parameters())
        if _is_plain(model):
            self._probe = _Probe(model, buffer)
            self._found |= self._probe.before()
            if self._half_epoch == 0 and callable(getattr(model, "clip_range", None)):
                # One minibatch is the whole first epoch: it is measured before any step.
                self._found |= {"kl_first_epoch": 0.0, "clip_fraction_first_epoch": 0.0}
        self._watch.start(_count_planned_steps(model))

    def rollout_start(self) -> dict[str, float]:
        """The update is over: the row of the iteration that it belongs to; {} if it has none."""
        if self._before is None:
            return {}
        model, found = self.model, self._found
        parts = self._watch.stop()
        done = self._updates - self._counted
        found |= self._before.moved() | {"updates": float(done)}
        counted = networks.count_optimizer_steps(model.policy.optimizer)
        found["optimizer_steps"] = float(self._updates) if counted is None else counted
        found |= _measure_early_stop(model, done)
        if self._probe is not None:
            found |= self._probe.after(costly=self._rows % self._costly == 0, trunk=self._trunk)
        row = readings.add_prefix(found) | readings.measure_gradients(parts, getattr(model, "max_grad_norm", None))
        row |= self._recent.take_terms()
        self._before, self._probe, self._found = None, None, {}
        self._rows += 1
        return row


class _Probe:
    """Some rows of the rollout, kept over the update to see what it did to them."""

    def __init__(self, model: Any, buffer: Any) -> None:
        from stable_baselines3.common.utils import obs_as_tensor

        self._model = model
        size = buffer.log_probs.size
        # Not every k-th: with k a multiple of the number of envs that would be one env only.
        self._index = np.unique(np.linspace(0, size - 1, PROBE_ROWS).astype(np.int64))
        place = np.unravel_index(self._index, buffer.log_probs.shape)
        self._advantages, self._returns = buffer.advantages[place], buffer.returns[place]
        self._old = buffer.log_probs[place]
        observations = buffer.observations
        taken = {key: part[place] for key, part in observations.items()} if isinstance(observations, dict) else observations[place]
        self._obs = obs_as_tensor(taken, model.device)
        actions = torch.as_tensor(buffer.actions[place], device=model.device)
        self._actions = actions.long().flatten() if isinstance(model.action_space, spaces.Discrete) else actions
        self._distribution: Any = None

    def before(self) -> Readings:
        """Before any step the policy must be the one that collected: every ratio is 1."""
        policy = self._model.policy
        with torch.no_grad(), networks.preserve_state(policy if _is_stateful(policy) else None):
            distribution = policy.get_distribution(self._obs)
            ratio = (distribution.log_prob(self._actions).cpu().numpy() - self._old).astype(np.float64)
            found = {"ratio_first_dev": float(np.abs(np.expm1(ratio)).max())} | _measure_certainty(self._model, distribution)
            if _is_stateful(policy):
                # Dropout and batch statistics differ between collecting and learning: then the ratio is not 1 either.
                policy.set_training_mode(True)
                _, log_prob, _ = policy.evaluate_actions(self._obs, self._actions)
                policy.set_training_mode(False)
                found["ratio_first_dev"] = float(np.abs(np.expm1(log_prob.cpu().numpy().astype(np.float64) - self._old)).max())
        self._distribution = getattr(distribution, "distribution", None)
        return found

    def first_epoch(self) -> Readings:
        """How far the policy has moved half way through the first epoch (PPO)."""
        model = self._model
        if _is_stateful(model.policy) or not callable(getattr(model, "clip_range", None)):
            return {}
        with torch.no_grad():
            log_prob = model.policy.get_distribution(self._obs).log_prob(self._actions)
        log_ratio = log_prob.cpu().numpy().astype(np.float64) - self._old
        clip = float(model.clip_range(model._current_progress_remaining))
        return {
            "kl_first_epoch": float((np.expm1(log_ratio) - log_ratio).mean()),
            "clip_fraction_first_epoch": float((np.abs(np.expm1(log_ratio)) > clip).mean()),
        }

    def after(self, *, costly: bool, trunk: list[Tensor]) -> Readings:
        """What the update did to the rows; with `costly`, also gradients by loss term and features."""
        policy = self._model.policy
        with networks.preserve_state():
            with torch.no_grad():
                distribution = policy.get_distribution(self._obs)
                log_ratio = distribution.log_prob(self._actions).cpu().numpy().astype(np.float64) - self._old
                values = policy.predict_values(self._obs).flatten().cpu().numpy()
                found = readings.measure_change(self._advantages, log_ratio)
                new = getattr(distribution, "distribution", None)
                if isinstance(new, torch.distributions.Distribution) and type(new) is type(self._distribution):
                    exact = torch.distributions.kl_divergence(self._distribution, new)
                    found["kl_exact"] = float(exact.reshape(len(self._index), -1).sum(1).mean())
            if (share := readings.compute_explained_variance(values, self._returns)) is not None:
                found["ev_after"] = share
            if costly:
                found |= self._pulls(trunk) | self._features()
        return found

    def _pulls(self, trunk: list[Tensor]) -> Readings:
        model = self._model
        with torch.enable_grad():
            values, log_prob, entropy = model.policy.evaluate_actions(self._obs, self._actions)
            advantages = torch.as_tensor(self._advantages, device=model.device)
            scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            returns = torch.as_tensor(self._returns, device=model.device)
            uncertainty = -log_prob if entropy is None else entropy
            terms = {
                "policy": -(log_prob * scaled).mean(),
                "value": model.vf_coef * (values.flatten() - returns).square().mean(),
                "entropy": -model.ent_coef * uncertainty.mean(),
            }
            return networks.measure_pulls(terms, trunk)

    def _features(self) -> Readings:
        extractor = getattr(self._model.policy, "mlp_extractor", None)
        found: Readings = {}
        for name, part in (("actor", "policy_net"), ("critic", "value_net")):
            module = getattr(extractor, part, None)
            if module is not None:
                forward = self._model.policy.get_distribution if name == "actor" else self._model.policy.predict_values
                seen = networks.measure_features(module, partial(forward, self._obs))
                found |= {f"{key}_{name}": number for key, number in seen.items()}
        return found


def _hash_weights(model: Any) -> Readings:
    """Equal in two rows: nothing was learned between; equal in two seeds: no seed was set."""
    normalizer = model.get_vec_normalize_env()
    found = {"fingerprint_policy": readings.hash_arrays(part.detach().cpu().numpy() for part in model.policy.parameters())}
    if normalizer is not None and normalizer.norm_obs and not isinstance(normalizer.obs_rms, dict):
        found["fingerprint_normalizer"] = readings.hash_arrays([normalizer.obs_rms.mean, normalizer.obs_rms.var])
    return found


def _split_parameters(policy: Any) -> dict[str, list[Tensor]]:
    """Parameters of the heads and of the rest."""
    named = list(policy.named_parameters())
    parts = {part: [tensor for name, tensor in named if name.startswith(starts)] for part, starts in _HEADS.items()}
    heads = tuple(start for starts in _HEADS.values() for start in starts)
    return parts | {"trunk": [tensor for name, tensor in named if not name.startswith(heads) and tensor.requires_grad]}


def _is_plain(model: Any) -> bool:
    """Whether rows can be passed through the policy on their own: no memory between them, no masks beside them."""
    buffer = model.rollout_buffer
    return hasattr(model.policy, "get_distribution") and not hasattr(buffer, "action_masks") and not hasattr(buffer, "hidden_states_pi")


def _is_stateful(policy: Any) -> bool:
    kinds = (torch.nn.Dropout, torch.nn.modules.batchnorm._BatchNorm)
    return any(isinstance(module, kinds) for module in policy.modules())


def _count_planned_steps(model: Any) -> int:
    """Gradient steps of one iteration."""
    size = model.n_steps * model.n_envs
    return int(getattr(model, "n_epochs", 1)) * -(-size // int(getattr(model, "batch_size", size)))


def _measure_early_stop(model: Any, done: int) -> Readings:
    """The epoch at which target_kl ended the updates, counted from 0; nothing if it did not."""
    if getattr(model, "target_kl", None) is None or done >= _count_planned_steps(model):
        return {}
    return {"early_stop_epoch": float(max(done - 1, 0) // max(_count_planned_steps(model) // model.n_epochs, 1))}


def _measure_observations(model: Any, observations: Any, starts: Array) -> Readings:
    """Statistics of what the network is shown. Discrete observations become one-hot there: nothing to tell about them."""
    space, low, high = model.observation_space, None, None
    if isinstance(observations, dict):
        parts = [observations[key] for key in sorted(observations) if isinstance(space[key], spaces.Box)]
    else:
        parts = [observations] if isinstance(space, spaces.Box) else []
    if not parts:
        return {}
    every = readings.choose_stride(sum(part.size for part in parts))
    thin = [_scale_images(model, part[::every]).reshape(-1, starts.shape[1], part[0, 0].size) for part in parts]
    table = np.concatenate(thin, -1) if len(thin) > 1 else thin[0]
    normalizer = model.get_vec_normalize_env()
    if isinstance(space, spaces.Box) and not _is_image(model, observations) and (normalizer is None or not normalizer.norm_obs):
        low, high = np.asarray(space.low), np.asarray(space.high)
    # Steps that are not neighbours cannot repeat each other.
    found = readings.measure_repeated_observations(table, starts) if every == 1 else {}
    return found | readings.measure_observations(table.reshape(-1, table.shape[-1]), low, high)


def _is_image(model: Any, part: Array) -> bool:
    return part.dtype == np.uint8 and bool(model.policy.normalize_images)


def _scale_images(model: Any, part: Array) -> Array:
    """Images are divided by 255 inside the policy."""
    return part / np.float32(255) if _is_image(model, part) else part


def _measure_actions(model: Any, actions: Array) -> Readings:
    space = model.action_space
    if isinstance(space, spaces.Box):
        found = readings.measure_box_actions(actions, np.asarray(space.low), np.asarray(space.high))
        deviation = getattr(model.policy, "log_std", None)
        if deviation is not None and not model.use_sde:
            spread = deviation.detach().exp().cpu().numpy()
            found |= {"action_std_min": float(spread.min()), "action_std_max": float(spread.max())}
        return found
    if isinstance(space, spaces.Discrete):
        return readings.measure_discrete_actions(actions, int(space.n))
    return {}


def _measure_certainty(model: Any, distribution: Any) -> Readings:
    """Entropy as a share of the largest possible, for discrete actions."""
    space = model.action_space
    if isinstance(space, spaces.Discrete):
        largest = float(np.log(space.n))
    elif isinstance(space, spaces.MultiDiscrete):
        largest = float(np.log(space.nvec).sum())
    elif isinstance(space, spaces.MultiBinary):
        largest = float(np.prod(space.shape) * np.log(2))
    else:
        return {}
    entropy = distribution.entropy()
    return {} if entropy is None else {"entropy_relative": float(entropy.mean()) / max(largest, 1e-8)}
