"""What else one could do with the same logs: five answers to compare the diagnosis with. Each names one cause, or "healthy"."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from benchmarks.diagnosis.corpus import Group
from rlclinic.config import files, records
from rlclinic.config.schedule import Schedule
from rlclinic.errors import RlclinicError
from rlclinic.runs.history import History, dotted

KL, CLIP = "train/metrics/kl_divergence", "train/metrics/clip_fraction"
EXPLAINED, ENTROPY = "train/metrics/explained_variance", "train/metrics/entropy"
HEALTHY: Final = "healthy"


def always_lower_the_learning_rate(_: Sequence[History]) -> str:
    """The forum's answer."""
    return "learning-rate-too-high"


def fixed_thresholds(runs: Sequence[History]) -> str:
    """The briefs' numbers, in the briefs' order: KL < 0.02, clip fraction 0.1 to 0.3, explained variance > 0.7, entropy left."""

    def middle(name: str) -> float:
        values = [float(np.median(run.series[name].values)) for run in runs if name in run.series and len(run.series[name].values)]
        return float(np.median(values)) if values else math.nan

    kl, clip, explained = middle(KL), middle(CLIP), middle(EXPLAINED)
    if kl > 0.02 or clip > 0.3:
        return "learning-rate-too-high"
    if clip < 0.1 and kl < 0.005:
        return "learning-rate-too-low"
    if explained < 0.7:
        return "critic-not-trained"
    first = [run.series[ENTROPY].values for run in runs if ENTROPY in run.series and len(run.series[ENTROPY].values)]
    if first and float(np.median([values[-1] / max(abs(values[0]), 1e-9) for values in first])) < 0.1:
        return "exploration-collapsed"
    return HEALTHY


_FIELDS: Final = {
    "reward_mean": "train/roll/ep_rew_mean",
    "reward_std": "train/roll/ep_rew_std",
    "eval_score": "val/roll/ep_rew_mean",
    "entropy": ENTROPY,
    "kl": KL,
    "pg_clipfrac": CLIP,
    "grad_norm": "train/metrics/grad_norm/all",
    "policy_loss": "train/loss/policy",
    "value_explained_var": EXPLAINED,
    "advantage_mean": "train/sentinel/adv_mean",
    "advantage_std": "train/sentinel/adv_std",
}
"""rldoctor's names of what we log; the others belong to language models (groups of answers, their lengths, parts of a reward)."""
_DETECTORS: Final = {
    "entropy_collapse": "exploration-collapsed",
    "clip_saturation": "learning-rate-too-high",
    "kl_drift": "learning-rate-too-high",
    "gradient_pathology": "not-finite",
    "advantage_collapse": "reward-never-seen",
    "reward_hacking": "evaluation-mismatch",
    "plateau": "unknown",
}


def rldoctor(runs: Sequence[History]) -> str:
    """What the detectors of rldoctor (a tool for language models' runs, Apache 2.0) say, as far as their inputs are logged here.

    The worst finding of each run by its own order, from a warning up; the answer that most runs have in common.
    """
    import rl_doctor

    answers = []
    for run in runs:
        series = {field: run.series[name] for field, name in _FIELDS.items() if name in run.series and len(run.series[name].values)}
        steps = np.unique(np.concatenate([each.steps for each in series.values()])) if series else np.empty(0)
        columns = {}
        for field, each in series.items():
            columns[field] = np.full(len(steps), np.nan)
            columns[field][np.searchsorted(steps, each.steps)] = each.values
        found = rl_doctor.diagnose(rl_doctor.Run(steps=steps, series=columns, config=rl_doctor.RunConfig(algorithm="ppo")))
        loud = [finding for finding in found.problems if finding.severity >= rl_doctor.Severity.WARNING]
        answers.append(_DETECTORS.get(loud[0].detector, "unknown") if loud else HEALTHY)
    return Counter(answers).most_common(1)[0][0]


_BY_SETTING: Final = {
    "algo.learning_rate": ("learning-rate-too-high", "learning-rate-too-low"),
    "algo.clip_range": ("clip-not-applied", "clip-range-too-small"),
    "algo.target_kl": ("target-kl-too-tight", "target-kl-too-tight"),
    "algo.max_grad_norm": ("not-finite", "gradient-clip-too-tight"),
    "algo.ent_coef": ("entropy-bonus-too-high", "exploration-collapsed"),
    "algo.gamma": ("discount-too-high", "discount-too-low"),
    "algo.gae_lambda": ("gae-lambda-too-low", "gae-lambda-too-low"),
    "algo.vf_coef": ("value-loss-dominates", "critic-not-trained"),
    "algo.clip_range_vf": ("value-clip-too-tight", "value-clip-too-tight"),
    "algo.n_epochs": ("too-many-epochs", "too-few-updates"),
    "algo.n_steps": ("too-few-updates", "rollout-too-small"),
    "algo.optimizer": ("optimizer-mismatch", "optimizer-mismatch"),
    "net.activation": ("saturating-activation", "saturating-activation"),
    "net.hidden": ("network-too-small", "network-too-small"),
    "net.policy_gain": ("initial-policy-too-sure", "initial-policy-too-sure"),
    "net.log_std_init": ("action-noise-too-wide", "initial-policy-too-sure"),
    "env.max_episode_steps": ("episode-too-short", "episode-too-short"),
    "spec.threshold": ("threshold-out-of-reach", "threshold-out-of-reach"),
    "run.max_env_steps": ("budget-too-small", "budget-too-small"),
}


@cache
def _shipped(name: str) -> dict[str, Any]:
    try:
        return dotted(records.to_record(files.load(name).config))
    except RlclinicError:
        return {}


def shipped_settings(runs: Sequence[History]) -> str:
    """Compare with the YAML that is shipped for this environment; the setting that differs most is the culprit."""
    settings = runs[0].settings
    usual = _shipped(str(settings.get("name")))
    if not usual or usual.get("env.id") != settings.get("env.id"):
        return HEALTHY
    worst, answer = 0.0, HEALTHY
    for name, (above, below) in _BY_SETTING.items():
        ours, theirs = _number(settings.get(name)), _number(usual.get(name))
        if settings.get(name) == usual.get(name):
            continue
        apart = abs(math.log(ours / theirs)) if ours and theirs and ours > 0 and theirs > 0 else 3.0
        if apart > worst:
            worst, answer = apart, above if (ours or 0.0) > (theirs or 0.0) else below
    return answer


def _number(value: Any) -> float | None:
    if isinstance(value, Schedule):
        return value.start
    if isinstance(value, dict):
        return float(value.get("start", 0.0))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def features(runs: Sequence[History], names: Sequence[str]) -> np.ndarray[Any, Any]:
    """The level of every metric early, in the middle and late, on a signed log scale; the median over runs."""
    rows = []
    for run in runs:
        row = []
        for name in names:
            values = run.series[name].values if name in run.series else np.empty(0)
            thirds = np.array_split(values, 3) if len(values) >= 3 else [np.zeros(1)] * 3
            row += [float(np.median(third)) for third in thirds]
        rows.append(np.sign(row) * np.log10(1 + 1e3 * np.abs(row)))
    return np.asarray(np.median(rows, axis=0))


def nearest_neighbour(known: Sequence[Group]) -> Callable[[Sequence[History]], str]:
    """The label of the group in the fit split whose metrics look most alike."""
    names = sorted({name for group in known for run in group.runs for name in run.series if not name.startswith("train/hp")})
    table = np.stack([features(group.runs, names) for group in known])
    scale = table.std(0) + 1e-6
    labels = [group.causes[0] if group.role == "fault" else HEALTHY for group in known]

    def answer(runs: Sequence[History]) -> str:
        apart = np.abs((features(runs, names) - table) / scale).mean(1)
        return labels[int(np.argmin(apart))]

    return answer
