"""The columns of metrics.csv, and how a row is made of what an iteration left behind."""

from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from rlclinic.config import Config, numbers
from rlclinic.training import sentinels

COUNTERS: Final = ("time", "total_timesteps", "epoch", "total_episodes")
ROLL: Final = ("ep_rew_mean", "ep_rew_std", "ep_rew_best", "ep_len_mean", "success_rate")
LOSSES: Final = ("policy", "value", "entropy", "total")
METRICS: Final = ("kl_divergence", "clip_fraction", "explained_variance", "entropy")
GRAD_NORMS: Final = ("all", "actor_head", "critic_head", "trunk")
GRAD_QUANTILES: Final = ("p50", "p95", "max", "clipped")
VALIDATION: Final = ("ep_rew_mean", "ep_rew_std", "ep_rew_min", "ep_len_mean", "success_rate")
PHASES: Final = ("env", "act", "learn", "sentinels", "eval", "write")
ROW_ENV_STEPS: Final = 250
"""Iterations shorter than this share a row."""


def columns(config: Config) -> list[str]:
    """The header of a run's metrics.csv, fixed at its start."""
    return [
        *COUNTERS,
        *(f"train/roll/{name}" for name in ROLL),
        *(f"train/loss/{name}" for name in LOSSES),
        *(f"train/metrics/{name}" for name in METRICS),
        *(f"train/metrics/grad_norm/{name}" for name in GRAD_NORMS + GRAD_QUANTILES),
        *(f"val/roll/{name}" for name in VALIDATION),
        "time/fps",
        *(f"time/{phase}" for phase in PHASES),
        *(f"train/hp/{name}" for name in numbers(config.algo)),
        *sentinels.COLUMNS,
    ]


def summarize(readings: dict[str, Tensor]) -> list[dict[str, float]]:
    """Loss, metric and gradient columns of every member from readings [U, M] of the gradient steps since the last row."""
    names = list(readings)
    table = torch.stack(list(readings.values())).cpu().numpy()  # [K, U, M]
    return [_member_row({name: table[k, :, m].copy() for k, name in enumerate(names)}) for m in range(table.shape[2])]


def _member_row(reading: dict[str, Any]) -> dict[str, float]:
    # A step that target_kl refused was still measured; the ones after it were not taken at all, until the next iteration.
    applied, start = reading["applied"] > 0, reading["start"] > 0
    tried = np.concatenate([[True], applied[:-1] | start[1:]])
    kept = {name: values[tried] for name, values in reading.items()}
    row = {f"train/loss/{name}": float(kept[name].mean()) for name in LOSSES if name in kept}
    row["train/metrics/entropy"] = -row["train/loss/entropy"]
    if "kl" in kept:
        # Each iteration's own last epoch.
        turn = np.cumsum(kept["start"])
        last = kept["epoch"][np.searchsorted(turn, turn, side="right") - 1]
        row["train/metrics/kl_divergence"] = float(kept["kl"][kept["epoch"] == last].mean())
        row["train/metrics/clip_fraction"] = float(kept["clip_fraction"].mean())
        first = kept["epoch"] == 0
        row["train/sentinel/kl_first_epoch"] = float(kept["kl"][first].mean())
        row["train/sentinel/clip_fraction_first_epoch"] = float(kept["clip_fraction"][first].mean())
        epochs = kept["epoch"].astype(int)
        by_epoch = np.bincount(epochs, kept["kl"]) / np.bincount(epochs)  # every epoch up to the last one tried has steps
        row["train/sentinel/kl_epoch_min"], row["train/sentinel/kl_epoch_max"] = float(by_epoch.min()), float(by_epoch.max())
        row["train/sentinel/kl_epoch_worst"] = float(by_epoch.argmax())
    for name in GRAD_NORMS:
        row[f"train/metrics/grad_norm/{name}"] = float(kept[f"grad_norm/{name}"].mean())
    ordered = np.sort(kept["grad_norm/all"])
    for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        row[f"train/metrics/grad_norm/{name}"] = float(ordered[min(int(share * len(ordered)), len(ordered) - 1)])
    if "grad_clipped" in kept:
        row["train/metrics/grad_norm/clipped"] = float(kept["grad_clipped"].mean())
    return row


def per_member(readings: dict[str, Tensor]) -> list[dict[str, float | None]]:
    """Numbers [M] by name -> one dict per member; what is not finite because it means nothing stays blank."""
    if not readings:
        return []
    table = torch.stack([value.double() for value in readings.values()]).T.tolist()
    return [{name: None if value != value else value for name, value in zip(readings, row, strict=True)} for row in table]
