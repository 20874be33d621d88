"""`Sentinels` for a training loop written by hand: CleanRL's, or your own. Plain tensors in, our columns out.

    sentinels = Sentinels(agent, optimizer)                     # once
    sentinels.rollout(obs=..., actions=..., ...)                # when a rollout and its advantages are there
    sentinels.minibatch(ratio=ratio, advantages=mb_advantages)  # when a minibatch's ratio is there, before its step
    sentinels.row(writer, global_step)                          # after the update

It only looks: no random number is drawn, no gradient is kept, no weight is touched.
"""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from rlclinic.errors import UsageError
from rlclinic.sentinels import networks, readings
from rlclinic.sentinels.readings import Array
from rlclinic.stats import variance_shares

_NEEDED: Final = ("obs", "actions", "advantages", "returns", "values", "rewards")
_MORE: Final = ("logprobs", "terminations", "truncations", "starts", "final_obs", "reset_obs")


class Sentinels:
    """Collects what one iteration shows and writes it as scalars under our names.

    agent: the network, for weight changes and gradient norms. optimizer: its optimizer, for the steps it has counted.
    max_grad_norm: the limit of your clip_grad_norm_, to tell how often it cuts. Of `n_actions` (discrete) and `action_low`,
    `action_high` (continuous) give what the env has; `obs_low`, `obs_high` where it declares bounds.
    """

    def __init__(
        self,
        agent: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        max_grad_norm: float | None = None,
        n_actions: int | None = None,
        action_low: Any = None,
        action_high: Any = None,
        obs_low: Any = None,
        obs_high: Any = None,
    ) -> None:
        self._agent, self._optimizer, self._limit = agent, optimizer, max_grad_norm
        self._n_actions = n_actions
        self._action_box = (action_low, action_high)
        self._obs_box = (obs_low, obs_high)
        self._watch = networks.GradientWatch({"trunk": list(agent.parameters())})
        self._steps = self._expected = self._minibatches = 0
        self._found: dict[str, float] = {}
        self._before: networks.Weights | None = None
        self._last: tuple[Array | None, Array] | None = None
        if optimizer is not None:
            optimizer.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self._steps += 1

    def rollout(self, **given: Any) -> None:
        """Everything that was collected, before the update: obs, actions, advantages, returns, values and rewards, [T, N, ...] or
        rows; and where you have them logprobs, terminations, truncations, starts (flags of episodes' first observations), final_obs
        (those at episodes' ends) and reset_obs (the first ones of the episodes that followed)."""
        missing = [name for name in _NEEDED if given.get(name) is None]
        unknown = [name for name in given if name not in _NEEDED + _MORE]
        if missing or unknown:
            what = f"lacks {', '.join(missing)}" if missing else f"does not know {', '.join(unknown)}"
            raise UsageError(
                f"sentinels.rollout() {what}.\n  Columns would be empty.\n"
                f"  Type: sentinels.rollout({', '.join(f'{name}=...' for name in _NEEDED)}); it also takes {', '.join(_MORE)}"
            )
        arrays = {name: _array(value) for name, value in given.items() if value is not None}
        self._found = self._statistics(arrays)
        self._before = networks.Weights(self._agent.parameters())
        self._steps = self._minibatches = 0
        self._last = None
        self._watch.start(self._expected or networks.SAMPLED_STEPS)

    def _statistics(self, given: dict[str, Array]) -> dict[str, float]:
        obs, rewards = given["obs"], given["rewards"]
        found = readings.measure_targets(given["advantages"], given["returns"], given["values"]) | readings.measure_rewards(rewards)
        low, high = (None if bound is None else _array(bound) for bound in self._obs_box)
        flat = obs.reshape(rewards.size, -1)
        found |= readings.measure_observations(flat[:: readings.choose_stride(flat.size)], low, high)
        if rewards.ndim == 2 and "starts" in given:
            found |= readings.measure_repeated_observations(obs, given["starts"])
            found |= self._environment(given)
        box = [None if bound is None else _array(bound) for bound in self._action_box]
        if box[0] is not None and box[1] is not None:
            found |= readings.measure_box_actions(given["actions"], box[0], box[1])
        elif self._n_actions is not None:
            found |= readings.measure_discrete_actions(given["actions"], self._n_actions)
            if "logprobs" in given:
                # Minus the mean log-probability of what was done: the entropy, as the rollout's own sample tells it; a sample may say more.
                share = -float(given["logprobs"].mean()) / max(float(np.log(self._n_actions)), 1e-8)
                found["entropy_relative"] = min(share, 1.0)
        if "terminations" in given and "truncations" in given:
            found |= readings.measure_ends(given["terminations"], given["truncations"], given["returns"], rewards)
        if "final_obs" in given and "reset_obs" in given and len(given["final_obs"]):
            same = (given["final_obs"] == given["reset_obs"]).reshape(len(given["final_obs"]), -1).all(1)
            found["next_obs_is_reset"] = float(same.mean())
        return found

    def _environment(self, given: dict[str, Array]) -> dict[str, float]:
        """What the rollout [T, N, ...] says about the environment. A step ended an episode where the next one starts another."""
        obs, rewards, starts = given["obs"], given["rewards"], given["starts"].astype(bool)
        ended = np.concatenate([starts[1:], np.zeros_like(starts[:1])])
        terminated = given.get("terminations")
        flat = obs.reshape(*rewards.shape, -1)
        if flat.shape[2] > variance_shares.WIDEST:
            return variance_shares.measure_reward_timing(rewards, ended, terminated)
        low, high = (None if bound is None else _array(bound) for bound in self._obs_box)
        found = variance_shares.measure(flat, given["actions"], rewards, ended, choices=self._n_actions, terminated=terminated)
        return found | variance_shares.measure_scales(flat.reshape(rewards.size, -1), flat.reshape(rewards.size, -1), low, high)

    def minibatch(self, *, ratio: Tensor, advantages: Tensor | None = None) -> None:
        """When the ratio of a minibatch is there, before its step. The first one must be 1: the policy has not moved yet."""
        self._minibatches += 1
        now = _array(ratio).astype(np.float64)
        if self._minibatches == 1:
            self._found["ratio_first_dev"] = float(np.abs(now - 1).max())
        self._last = (None if advantages is None else _array(advantages), now)

    def row(self, writer: Any, global_step: int) -> dict[str, float]:
        """After the update: write the columns with `writer.add_scalar(name, value, step)`, or into a CSV file if given a path."""
        found, parts = dict(self._found), self._watch.stop()
        if self._before is not None:
            found |= self._before.moved()
        if self._optimizer is not None:
            found["updates"] = float(self._steps)
            counted = networks.count_optimizer_steps(self._optimizer)
            found |= {} if counted is None else {"optimizer_steps": counted}
        if self._last is not None:
            advantages, ratio = self._last
            moved = np.log(np.maximum(ratio, 1e-30))
            told = readings.measure_change(moved if advantages is None else advantages, moved)
            found["ess"] = told["ess"]
            found |= {} if advantages is None else {"adv_logp_corr": told["adv_logp_corr"]}
        self._expected = self._minibatches or self._steps
        self._before, self._found, self._last = None, {}, None
        row = readings.add_prefix(found) | readings.measure_gradients(parts, self._limit)
        if isinstance(writer, str | Path):
            append(Path(writer), {"total_timesteps": float(global_step), **row})
        else:
            for name, value in row.items():
                writer.add_scalar(name, value, global_step)
        return row


def append(path: Path, row: dict[str, float]) -> None:
    """Add a row to a CSV file; the first row decides on the columns, so that later ones never shift."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = _header(path)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, known or list(row), restval="", extrasaction="ignore")
        if not known:
            writer.writeheader()
        writer.writerow(row)


def _header(path: Path) -> list[str]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return next(iter(csv.reader(file)), [])


def _array(value: Any) -> Array:
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    return np.asarray(list(value) if isinstance(value, Iterable) and not isinstance(value, np.ndarray) else value)
