"""What DQN, SAC, TD3 and DDPG of Stable-Baselines3 testify: Q-values against what they can be, targets, replay, features."""

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlclinic.sentinels import networks, readings
from rlclinic.sentinels.readings import Array, Readings
from rlclinic.sentinels.sb3_steps import Recent, Steps

PROBE_ROWS: Final = 128
ROWS: Final = 250
COSTLY_ROWS: Final = 40
TESTIMONIES: Final = 20
"""Rows of a run with what the transitions say about the environment."""
LONGEST_EPISODE: Final = 2_000
UNSEEN_SHARE: Final = 0.01
"""What a time limit cut off may count at most in a return that is taken for known."""


class OffPolicyWatch:
    """Follows one learn(). Steps are always followed; networks and replay are looked at about 250 times in a run."""

    def __init__(self, model: Any, total: int) -> None:
        self.model = model
        self._every = max(500, total // ROWS)
        self._costly = max(1, total // self._every // COSTLY_ROWS)
        self._testimony = max(1, total // self._every // TESTIMONIES)
        self._due = int(model.num_timesteps) + self._every
        self._rows = self._updates = self._counted = 0
        self._largest_reward = 0.0
        self._steps = Steps(model, -(-self._every // model.n_envs) + 1)
        self._episode, self._recent = _Episode(model), Recent(model)
        self._before: networks.Weights | None = None
        self._found: dict[str, float] = {}
        self._critic = getattr(model, "critic", None) or model.q_net
        self._target = getattr(model, "critic_target", None) or model.q_net_target
        self._optimizer = getattr(self._critic, "optimizer", None) or model.policy.optimizer
        self._hook = self._optimizer.register_step_post_hook(self._count)
        # Where an actor learns through the critic, its loss reaches the critic's weights too: norms would mix the two.
        alone = not hasattr(model, "critic")
        self._watch = networks.GradientWatch({"trunk": list(self._critic.parameters())} if alone else {})

    def _count(self, *_: Any) -> None:
        self._updates += 1

    def close(self) -> None:
        """Take the hooks out again."""
        self._hook.remove()
        self._watch.stop()

    def step(self, seen: dict[str, Any]) -> None:
        """After every step of the envs."""
        self._steps.add(seen)
        self._recent.add(seen)
        self._episode.add(seen)

    @property
    def not_finite(self) -> dict[str, Any] | None:
        """Where the env gave a number that is none, if it did."""
        return self._steps.not_finite

    def rollout_end(self) -> None:
        """Transitions are stored; gradient steps come next, if it is time for them."""
        model = self.model
        self._counted = self._updates
        if model.num_timesteps < self._due:
            return
        self._due += self._every
        found = readings.measure_rewards(self._steps.raw, self._steps.trained) | self._steps.resets
        found |= {"terminated": float(self._steps.terminated.sum()), "truncated": float(self._steps.truncated.sum())}
        self._largest_reward = max(self._largest_reward, float(np.abs(self._steps.trained).max(initial=0.0)))
        self._steps.clear()
        found |= _measure_replay(model) | self._episode.bias()
        if self._rows % self._testimony == 0:
            found |= self._recent.measure()
        if model.num_timesteps > model.learning_starts:
            self._before = networks.Weights(self._critic.parameters())
            self._watch.start(max(1, int(model.gradient_steps)))
        self._found = found

    def rollout_start(self) -> dict[str, float]:
        """The gradient steps are over: the row, if one is due; {} otherwise."""
        if not self._found:
            return {}
        model, found = self.model, self._found
        parts = self._watch.stop()
        if self._before is not None:
            found |= self._before.moved() | {"updates": float(self._updates - self._counted)}
            counted = networks.count_optimizer_steps(self._optimizer)
            found["optimizer_steps"] = float(self._updates) if counted is None else counted
        with networks.preserve_state():
            found |= self._values(costly=self._rows % self._costly == 0)
        row = readings.add_prefix(found) | readings.measure_gradients(parts, getattr(model, "max_grad_norm", None) if parts else None)
        row |= self._recent.take_terms()
        self._before, self._found = None, {}
        self._rows += 1
        return row

    @torch.no_grad()
    def _values(self, *, costly: bool) -> Readings:
        """Q-values of stored transitions, their TD errors, how far the target lags behind."""
        model = self.model
        found = {"target_distance": _measure_distance(self._critic, self._target)}
        batch = _sample_rows(model)
        if batch is None:
            return found
        q = _compute_q(model, self._critic, batch.observations, batch.actions)
        discounts = model.gamma if getattr(batch, "discounts", None) is None else batch.discounts.flatten()
        following = _compute_next_values(model, self._target, batch.next_observations)
        error = batch.rewards.flatten() + (1 - batch.dones.flatten()) * discounts * following - q
        bound = self._largest_reward / max(1.0 - float(model.gamma), 1e-6)
        found |= {"q_abs_max": float(q.abs().max()), "td_error": float(error.abs().mean()), "q_bound": bound}
        found |= {"value_mean": float(q.mean()), "value_std": float(q.std())}
        if isinstance(batch.observations, Tensor):
            found |= readings.measure_observations(batch.observations.float().flatten(1).cpu().numpy())
        found |= _measure_actions(model, batch.actions)
        if costly:
            found |= self._features(batch)
        return found

    def _features(self, batch: Any) -> Readings:
        model = self.model
        seen = networks.measure_features(self._critic, lambda: _compute_q(model, self._critic, batch.observations, batch.actions))
        found = {f"{key}_critic": number for key, number in seen.items()}
        if hasattr(model, "critic"):
            # TD3's actor ends in a tanh that is no hidden layer.
            hidden = getattr(model.actor, "latent_pi", None) or model.actor.mu[:-1]
            seen = networks.measure_features(hidden, lambda: model.actor(batch.observations))
            found |= {f"{key}_actor": number for key, number in seen.items()}
        found["fingerprint_policy"] = readings.hash_arrays(part.detach().cpu().numpy() for part in model.policy.parameters())
        return found


class _Complete(NamedTuple):
    """An episode whose returns are known, at least those of its first steps."""

    obs: list[Array]
    actions: list[Array]
    rewards: list[float]
    """Of all steps."""
    cut: bool


class _Episode:
    """One env's present episode, to compare Q-values with the return that really came."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._obs: list[Array] = []
        self._actions: list[Array] = []
        self._rewards: list[float] = []
        self._complete: _Complete | None = None

    def add(self, seen: dict[str, Any]) -> None:
        before = self._model._last_obs
        if isinstance(before, np.ndarray) and len(self._rewards) < LONGEST_EPISODE:
            self._obs.append(before[0].copy())
            self._actions.append(np.array(seen["buffer_actions"][0]))
            self._rewards.append(float(seen["rewards"][0]))
        if not seen["dones"][0]:
            return
        # After a time limit the rest of the return is unknown: only steps count to which that rest hardly matters.
        cut = seen["infos"][0].get("TimeLimit.truncated", False)
        ahead = np.arange(len(self._rewards), 0, -1)
        known = int((self._model.gamma**ahead < UNSEEN_SHARE).sum()) if cut else len(self._rewards)
        real_end_waits = self._complete is not None and not self._complete.cut
        if known > 1 and len(self._rewards) < LONGEST_EPISODE and not (cut and real_end_waits):
            self._complete = _Complete(self._obs[:known], self._actions[:known], self._rewards, cut)
        self._obs, self._actions, self._rewards = [], [], []

    @torch.no_grad()
    def bias(self) -> Readings:
        """Q-values minus returns over the last episode that came to a real end, or else over the first part of one that was cut.

        {} if there was none since the last time.
        """
        from stable_baselines3.common.utils import obs_as_tensor

        if self._complete is None:
            return {}
        (seen, done, rewards, _), self._complete = self._complete, None
        model = self._model
        every = max(1, len(seen) // PROBE_ROWS)
        total, returns = 0.0, np.zeros(len(rewards))
        for step in range(len(rewards) - 1, -1, -1):
            total = rewards[step] + model.gamma * total
            returns[step] = total
        with networks.preserve_state():
            obs = obs_as_tensor(np.stack(seen[::every]), model.device)
            actions = torch.as_tensor(np.stack(done[::every]), device=model.device)
            critic = getattr(model, "critic", None) or model.q_net
            q = _compute_q(model, critic, obs, actions.reshape(len(actions), -1)).cpu().numpy()
        return {"q_bias": float((q - returns[: len(seen) : every]).mean())}


def _compute_q(model: Any, critic: Any, obs: Any, actions: Tensor) -> Tensor:
    """Q of stored actions: of a Q-network, or the smaller one of two critics."""
    if hasattr(model, "critic"):
        return torch.cat(critic(obs, actions.float()), dim=1).min(1).values
    return critic(obs).gather(1, actions.long().reshape(-1, 1)).flatten()


def _compute_next_values(model: Any, target: Any, obs: Any) -> Tensor:
    """What the target network promises behind a transition, without SAC's bonus for entropy."""
    if not hasattr(model, "critic"):
        return target(obs).max(1).values
    actor = getattr(model, "actor_target", None) or model.actor
    return torch.cat(target(obs, actor(obs)), dim=1).min(1).values


def _measure_distance(network: Any, target: Any) -> float:
    """Distance of the target network as a share of the network's norm."""
    apart = [a.detach() - b.detach() for a, b in zip(network.parameters(), target.parameters(), strict=True)]
    own = torch.nn.utils.get_total_norm([part.detach() for part in network.parameters()])
    return float(torch.nn.utils.get_total_norm(apart) / own.clamp(min=1e-12))


def _sample_rows(model: Any) -> Any:
    """Rows spread evenly over the replay buffer; None where it is empty or of a kind that cannot be asked."""
    from stable_baselines3.common.buffers import ReplayBuffer

    buffer = model.replay_buffer
    size = buffer.size()
    if not isinstance(buffer, ReplayBuffer) or size < 2 or type(buffer).__name__ == "HerReplayBuffer":
        return None
    # The newest row of a buffer that saves memory has no next observation yet.
    places = np.unique(np.linspace(0, size - 2, PROBE_ROWS).astype(np.int64))
    return buffer._get_samples(places, env=model._vec_normalize_env)


def _measure_replay(model: Any) -> Readings:
    """How full the buffer is, and how old an average sample is, in env steps."""
    buffer = model.replay_buffer
    held = buffer.size() * buffer.n_envs
    return {"buffer_share": buffer.size() / max(buffer.buffer_size, 1), "replay_age": held / 2}


def _measure_actions(model: Any, actions: Tensor) -> Readings:
    space = model.action_space
    if isinstance(space, spaces.Discrete):
        return readings.measure_discrete_actions(actions.cpu().numpy(), int(space.n))
    # Stored actions are scaled to [-1, 1].
    edge = np.ones(int(np.prod(space.shape)), dtype=np.float32) * (1 - 1e-6)
    return readings.measure_box_actions(actions.cpu().numpy(), -edge, edge)
