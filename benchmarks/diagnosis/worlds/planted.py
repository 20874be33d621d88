"""What is planted in worlds, in our trainer: every fault of the catalogue, at a severity that the world's name decides.

Written down before any world was diagnosed. `also` are causes that are as right, because they are the same change in other words.
"""

import zlib
from dataclasses import replace
from typing import Any, Final

from benchmarks.diagnosis import faults
from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.faulty import EnvFault
from rlclinic.config import Config

_none = faults.sets()


def _scaled_limit(share: float) -> faults.Settings:
    """The time limit as a share of the world's own."""
    return lambda c: [f"env.max_episode_steps={max(4, round((c.spec.max_episode_steps or 60) * share))}"]


def _env(cause: str, label: str, fault: EnvFault, *also: str, settings: faults.Settings = _none, scores: float = 1.0, **more: Any) -> Fault:
    return Fault(cause, label, "test", settings, fault, also=also, scores=scores, **more)


_ELSEWHERE: Final = ("episode-too-short", "threshold-out-of-reach")
SETTINGS: Final = tuple(fault for fault in faults.SETTINGS if fault.cause not in _ELSEWHERE)
"""As in the first corpus; what was named for its tasks is planted below."""

ENVIRONMENTS: Final = (
    _env("reward-scale-too-large", "x1e3", EnvFault(reward_scale=1e3), settings=faults.raw("net.shared=true"), scores=1e3),
    _env("reward-scale-too-large", "x1e4", EnvFault(reward_scale=1e4), settings=faults.raw("net.shared=true"), scores=1e4),
    _env("reward-scale-too-small", "/1e4", EnvFault(reward_scale=1e-4), settings=faults.raw("algo.ent_coef=0.01"), scores=1e-4),
    _env("reward-scale-too-small", "/1e3", EnvFault(reward_scale=1e-3), settings=faults.raw("algo.ent_coef=0.02"), scores=1e-3),
    _env("reward-sign", "both", EnvFault(reward_scale=-1.0)),
    _env("reward-sign", "training", EnvFault(reward_scale=-1.0, train_only=True)),
    _env("reward-never-seen", "none", EnvFault(reward_scale=0.0)),
    _env("reward-never-seen", "constant", EnvFault(reward_scale=0.0, reward_offset=-1.0), "reward-sign"),
    _env("reward-noise", "30", EnvFault(reward_noise=30.0), "evaluation-too-noisy"),
    _env("reward-noise", "10", EnvFault(reward_noise=10.0), "evaluation-too-noisy"),
    _env("observation-constant", "zero", EnvFault(obs_scale=(0.0,))),
    _env("observation-constant", "tiny", EnvFault(obs_scale=(1e-9,))),
    _env("observation-scale", "x1000", EnvFault(obs_scale=(1000.0, 1.0)), settings=faults.raw()),
    _env("observation-scale", "all x300", EnvFault(obs_scale=(300.0,)), settings=faults.raw()),
    _env("observation-scale", "all /1000", EnvFault(obs_scale=(1e-3,)), settings=faults.raw()),
    _env("observation-scale", "all /300", EnvFault(obs_scale=(3e-3,)), settings=faults.raw()),
    _env("observation-scale", "shifted", EnvFault(obs_scale=(0.02,), obs_shift=10.0), settings=faults.raw()),
    _env("observation-partial", "odd", EnvFault(obs_scale=(1.0, 0.0))),
    _env("observation-partial", "even", EnvFault(obs_scale=(0.0, 1.0))),
    _env("observation-noise", "2", EnvFault(obs_noise=2.0)),
    _env("observation-noise", "1", EnvFault(obs_noise=1.0)),
    _env("observation-not-updated", "frozen", EnvFault(obs_frozen=True), "observation-constant"),
    _env("observation-not-updated", "training", EnvFault(obs_frozen=True, train_only=True), "observation-constant"),
    _env("observation-late", "4", EnvFault(obs_lag=4)),
    _env("observation-late", "8", EnvFault(obs_lag=8)),
    _env("actions-without-effect", "random", EnvFault(action_random=1.0)),
    _env("actions-without-effect", "90%", EnvFault(action_random=0.9)),
    _env("actions-without-effect", "ignored", EnvFault(action_ignored=True)),
    _env("action-bounds", "500", EnvFault(bound=500.0), fits=faults.continuous),
    _env("action-bounds", "100", EnvFault(bound=100.0), fits=faults.continuous),
    _env("action-bounds", "/50", EnvFault(action_scale=0.02), "actions-without-effect", fits=faults.continuous),
    _env("reward-delayed", "end", EnvFault(reward_every=10_000)),
    _env("reward-delayed", "20", EnvFault(reward_every=20)),
    _env("reward-sparse", "end of the task", EnvFault(reward_at_end=True), "reward-never-seen", "reward-delayed"),
    _env("reward-sparse", "one in twenty", EnvFault(reward_late=True), "reward-never-seen", "reward-noise"),
    _env("reward-shifted", "down", EnvFault(reward_offset=-3.0, train_only=True)),
    _env("reward-shifted", "up", EnvFault(reward_offset=3.0, train_only=True)),
    _env("starts-identical", "training", EnvFault(same_start=True, train_only=True), "seeds-identical"),
    _env("evaluation-mismatch", "actions", EnvFault(action_flip_after=1.0, eval_only=True)),
    _env("evaluation-mismatch", "observations", EnvFault(obs_scale=(-1.0,), eval_only=True)),
    _env("evaluation-mismatch", "random", EnvFault(action_random=0.7, eval_only=True)),
    _env("reward-clipped", "0.02", EnvFault(reward_clip=0.02)),
    _env("reward-clipped", "0.005", EnvFault(reward_clip=0.005)),
    _env("deceptive-reward", "3", EnvFault(action_cost=3.0)),
    _env("episode-too-short", "10%", EnvFault(), "time-limit-as-terminal", settings=_scaled_limit(0.1)),
    _env("episode-too-short", "7% terminal", EnvFault(limit_terminal=True), "time-limit-as-terminal", settings=_scaled_limit(0.07)),
    _env("time-limit-as-terminal", "15%", EnvFault(limit_terminal=True), "episode-too-short", settings=_scaled_limit(0.15)),
)  # fmt: skip

THRESHOLD: Final = (Fault("threshold-out-of-reach", "+40%", "test"),)
"""Planted by what the run is compared with, not by how it is trained."""

BUGS: Final = tuple(
    replace(fault, fits=faults.ppo if fault.fits in (faults.LIMITED,) else fault.fits)
    for fault in faults.BUGS
    if fault.cause not in ("time-limit-missing",)
)

PAIRS: Final = (
    *faults.PAIRS,
    ("reward-sign", "learning-rate-too-low"),
    ("observation-late", "entropy-bonus-too-high"),
    ("reward-delayed", "discount-too-low"),
    ("observation-noise", "learning-rate-schedule-too-short"),
    ("actions-without-effect", "clip-range-too-small"),
    ("reward-noise", "observation-partial"),
)


def late(config: Config) -> tuple[Fault, ...]:
    """Faults that begin at a share of the budget."""
    steps = config.run.max_env_steps
    return (
        _env("environment-changed", "actions", EnvFault(action_flip_after=0.6 * steps)),
        _env("environment-changed", "reward", EnvFault(reward_flip_after=0.6 * steps)),
        _env("environment-not-finite", "40%", EnvFault(nan_after=0.4 * steps)),
    )


def draw(*words: Any) -> float:
    """A number in [0, 1) that depends on the words alone."""
    return zlib.crc32("/".join(map(str, words)).encode()) / 2**32


def menu(config: Config) -> dict[str, list[Fault]]:
    """All settings and environment faults that can be planted, by cause."""
    found: dict[str, list[Fault]] = {}
    for fault in (*SETTINGS, *ENVIRONMENTS, *late(config)):
        found.setdefault(fault.cause, []).append(fault)
    return found


ENVIRONMENT_CAUSES: Final = frozenset(fault.cause for fault in ENVIRONMENTS) | {"environment-changed", "environment-not-finite"}
