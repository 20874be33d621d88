"""The columns of metrics.csv, and how a row is made of what an iteration left behind."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from rlclinic.config import ADVERSARIAL, Config, numbers
from rlclinic.training.algos import find_off_policy
from rlclinic.training.bonuses import pay
from rlclinic.training.constraints import lagrangian
from rlclinic.training.curriculum import staged
from rlclinic.training.data import info_columns
from rlclinic.training.imitation import adversarial
from rlclinic.training.sentinels import fingerprints, off_policy_sentinels, offline_sentinels, on_policy_sentinels, random_policy

COUNTERS: Final = ("time", "total_timesteps", "epoch", "total_episodes")
ROLL: Final = ("ep_rew_mean", "ep_rew_std", "ep_rew_best", "ep_len_mean", "success_rate")
LOSSES: Final = ("policy", "value", "entropy", "total")
METRICS: Final = ("kl_divergence", "clip_fraction", "explained_variance", "entropy")
GRAD_NORMS: Final = ("all", "actor_head", "critic_head", "trunk")
GRAD_QUANTILES: Final = ("p50", "p95", "max", "clipped")
VALIDATION: Final = ("ep_rew_mean", "ep_rew_std", "ep_rew_min", "ep_len_mean", "success_rate")
ACTORS: Final = ("policy_lag", "policy_lag_max", "actor_kl", "actor_ess")
"""Sentinels of runs whose rollouts are collected by actors."""
RANKS: Final = (
    "ranks_differ",
    "ranks_normalizers_differ",
    "ranks_gradient_error",
    "ranks_copies",
    "ranks_foreign_actions",
    "ranks_rows_min",
    "ranks_rows_max",
)
"""Sentinels of runs that several ranks train together (see training.parallel.engine)."""
RANK_TIMES: Final = ("exchange", "ranks_communicate", "ranks_idle", "ranks_slowest", "ranks_slowest_ratio")
"""What their time goes into: rank 0's seconds in collectives; of those, messages; what ranks wait for each other; the slowest rank, and
its work beside that of the others."""
SWITCH: Final = ("online", "switch_return", "switch_lowest", "switch_dip", "switch_regained_at")
"""Of runs that go from recorded data to the environment (see Member.describe_switch)."""
PHASES: Final = ("env", "act", "learn", "sentinels", "eval", "write")
ROW_ENV_STEPS: Final = 250
"""Iterations shorter than this share a row."""
LARGE: Final = 64
"""Members above which a cohort is large: rows, checkpoints and heartbeats become rarer, or writing would take longer than training."""
LARGE_ROWS: Final = 40
"""Rows of a run in a large cohort."""
CAPTURED_ROWS: Final = 128
"""Rows of a run whose iterations are captured: between rows the host has nothing to do but to launch them."""
Columns = dict[str, list[Any]]
"""Cells of all members by column name; None is blank."""


def spacing(config: Config, members: int, engine: str = "eager") -> int:
    """Env steps between rows."""
    if config.algo.loop == "imitation":
        return config.rollout_size  # a round is worth a row
    if members <= LARGE and engine != "captured":
        return ROW_ENV_STEPS
    return max(ROW_ENV_STEPS, config.run.max_env_steps // (LARGE_ROWS if members > LARGE else CAPTURED_ROWS))


def columns(config: Config) -> list[str]:
    """The header of a run's metrics.csv, fixed at its start."""
    if config.algo.loop == "off_policy":
        return _replay_columns(config)
    if config.algo.loop == "offline":
        return _offline_columns(config)
    if config.algo.loop == "imitation":
        return _imitation_columns(config)
    return [
        *COUNTERS,
        *_roll(config),
        *(f"train/loss/{name}" for name in LOSSES),
        *(f"train/metrics/{name}" for name in METRICS),
        *(f"train/metrics/grad_norm/{name}" for name in GRAD_NORMS + GRAD_QUANTILES),
        *(f"val/roll/{name}" for name in VALIDATION),
        "time/fps",
        *(f"time/{phase}" for phase in PHASES),
        *(f"train/hp/{name}" for name in numbers(config.algo)),
        *on_policy_sentinels.COLUMNS,
        *(f"{on_policy_sentinels.PREFIX}{name}" for name in (ACTORS if getattr(config.algo, "n_actors", 0) else ())),
        *(("time/actors_replaced",) if getattr(config.algo, "n_actors", 0) else ()),
        *(f"{on_policy_sentinels.PREFIX}{name}" for name in (RANKS if config.run.data_parallel > 1 else ())),
        *(f"time/{name}" for name in (RANK_TIMES if config.run.data_parallel > 1 else ())),
        *info_columns.columns(config.env),
        *info_columns.list_term_advantages(config),
        *(pay.COLUMNS if config.bonus is not None else ()),
        *(lagrangian.COLUMNS if config.cost is not None else ()),
        *(adversarial.COLUMNS if config.algo.name in ADVERSARIAL else ()),
        *staged.columns(config),
    ]


def _roll(config: Config) -> list[str]:
    clipped = () if config.env.clip_raw_reward is None else ("ep_rew_clipped_mean",)
    return [f"train/roll/{name}" for name in ROLL + clipped]


def _replay_columns(config: Config) -> list[str]:
    algorithm = find_off_policy(config.algo.name)

    def own(kind: str) -> list[str]:
        return [name.removeprefix(kind) for name in algorithm.COLUMNS if name.startswith(kind)]

    losses, metrics = own("loss/"), ["q_mean", "q_min", "q_max", *own("metrics/")]
    norms, applied = ["all", *own("grad_norm/"), *GRAD_QUANTILES], own("hp/")
    return [
        *COUNTERS,
        *_roll(config),
        *(f"train/loss/{name}" for name in losses),
        *(f"train/metrics/{name}" for name in metrics),
        *(f"train/metrics/grad_norm/{name}" for name in norms),
        *(f"val/roll/{name}" for name in VALIDATION),
        "time/fps",
        *(f"time/{phase}" for phase in PHASES),
        *(f"train/hp/{name}" for name in numbers(config.algo)),
        *(f"train/hp/{name}" for name in applied),
        *off_policy_sentinels.columns(algorithm.ACTIONS == "discrete"),
        *(f"train/{name}" for name in algorithm.COLUMNS if name.startswith("sentinel/")),
        *info_columns.columns(config.env),
        *(pay.COLUMNS if config.bonus is not None else ()),
        *staged.columns(config),
    ]


def _offline_columns(config: Config) -> list[str]:
    """As with a replay. What only acting has (episodes of training, what an environment said in them) where it goes on in one."""
    algorithm = find_off_policy(config.algo.name)
    values = hasattr(algorithm, "q_values")
    own = [f"train/{name.replace('grad_norm/', 'metrics/grad_norm/')}" for name in algorithm.COLUMNS]
    acts = config.online_from is not None
    return [
        *COUNTERS,
        *(_roll(config) if acts else ()),
        *(name for name in own if name.startswith("train/loss/")),
        *(f"train/metrics/{name}" for name in (("q_mean", "q_min", "q_max") if values else ())),
        *(name for name in own if not name.startswith(("train/loss/", "train/hp/"))),
        *(f"train/metrics/grad_norm/{name}" for name in ("all", *GRAD_QUANTILES)),
        *(f"val/roll/{name}" for name in VALIDATION),
        "time/fps",
        *(f"time/{phase}" for phase in PHASES),
        *(f"train/hp/{name}" for name in numbers(config.algo)),
        *(name for name in own if name.startswith("train/hp/")),
        *offline_sentinels.columns(values, hasattr(algorithm, "begin")),
        *(on_policy_sentinels.PREFIX + name for name in (SWITCH if acts else ())),
        *(info_columns.columns(config.env) if acts else ()),
    ]


def _imitation_columns(config: Config) -> list[str]:
    """What happens in episodes, what was asked and said, and how well it is imitated."""
    return [
        *COUNTERS,
        *_roll(config),
        *(f"train/loss/{name}" for name in ("imitation", "safety", "critic")),
        *(f"train/{name}" for name in find_off_policy(config.algo.name).COLUMNS),
        *(f"train/metrics/grad_norm/{name}" for name in ("all", *GRAD_QUANTILES)),
        *(f"val/roll/{name}" for name in VALIDATION),
        "time/fps",
        *(f"time/{phase}" for phase in PHASES),
        *(f"train/hp/{name}" for name in numbers(config.algo)),
        *(on_policy_sentinels.PREFIX + name for name in fingerprints.NAMES + on_policy_sentinels.AT_EVALUATION + random_policy.NAMES),
        *info_columns.columns(config.env),
    ]


def by_column(found: Sequence[Mapping[str, Any]]) -> Columns:
    """One dict per member, turned over; a member that lacks a name is blank there."""
    names = dict.fromkeys(name for each in {id(each): each for each in found}.values() for name in each)
    return {name: [each.get(name) for each in found] for name in names}


def summarize_replay(waiting: list[dict[str, Tensor]], members: int, bounds: list[float | None]) -> Columns:
    """Loss, metric and gradient columns from readings [U, M] of the iterations since the last row."""
    names = list(dict.fromkeys(name for each in waiting for name in each))
    table = {name: torch.cat([each[name] for each in waiting if name in each]).cpu().numpy() for name in names}
    return by_column(
        [_replay_row({name: values[:, member].copy() for name, values in table.items()}, bounds[member]) for member in range(members)]
    )


def _replay_row(reading: dict[str, Any], bound: float | None) -> dict[str, float]:
    if not reading:
        return {}
    row: dict[str, float] = {}
    for name, values in reading.items():
        kind = "metrics/" if name.startswith("grad_norm/") else ""
        edges = {"metrics/q_min": values.min, "metrics/q_max": values.max}
        row[f"train/{kind}{name}"] = float(values[-1] if name == "hp/alpha" else edges.get(name, values.mean)())
    ordered = np.sort(reading["grad_norm/all"])
    for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        row[f"train/metrics/grad_norm/{name}"] = float(ordered[min(int(share * len(ordered)), len(ordered) - 1)])
    if bound is not None:
        row["train/metrics/grad_norm/clipped"] = float((ordered > bound).mean())
    return row


def summarize(readings: dict[str, Tensor]) -> Columns:
    """Loss, metric and gradient columns from readings [U, M] of the gradient steps since the last row."""
    names = list(readings)
    table = torch.stack(list(readings.values())).cpu().numpy()  # [K, U, M]
    # A step that target_kl refused was still measured; the ones after it were not taken at all, until the next iteration.
    applied, start = table[names.index("applied")] > 0, table[names.index("start")] > 0
    tried = np.concatenate([np.ones_like(applied[:1]), applied[:-1] | start[1:]]).T  # [M, U]
    table = np.ascontiguousarray(table.transpose(0, 2, 1))  # [K, M, U]: rows side by side, so that a sum is the same in any cohort
    if tried.all():
        return {name: values.tolist() for name, values in _summed_up(dict(zip(names, table, strict=True))).items()}
    found: list[dict[str, float]] = [{} for _ in range(len(tried))]
    # Members that tried the same steps are summed up together: a thousand of them, in as many operations as one.
    alike: dict[bytes, list[int]] = {}
    for member, steps in enumerate(tried):
        alike.setdefault(steps.tobytes(), []).append(member)
    for members in alike.values():
        chosen = np.ascontiguousarray(table[:, members][:, :, tried[members[0]]])  # [K, members, steps]
        columns = _summed_up(dict(zip(names, chosen, strict=True)))
        for member, row in zip(members, np.stack(list(columns.values()), 1).tolist(), strict=True):
            found[member] = dict(zip(columns, row, strict=True))
    return by_column(found)


def _summed_up(kept: dict[str, Any]) -> dict[str, Any]:
    """Columns [M] from readings [M, U] of the steps that were tried, the same ones by every member."""
    row = {f"train/loss/{name}": kept[name].mean(1) for name in LOSSES if name in kept}
    row["train/metrics/entropy"] = -row["train/loss/entropy"]
    if "kl" in kept:
        epoch, kl = kept["epoch"][0], kept["kl"]
        # Each iteration's own last epoch.
        turn = np.cumsum(kept["start"][0])
        last = epoch[np.searchsorted(turn, turn, side="right") - 1]
        row["train/metrics/kl_divergence"] = _mean(kl, epoch == last)
        row["train/sentinel/kl_first_epoch"] = _mean(kl, epoch == 0)
        if "clip_fraction" in kept:
            row["train/metrics/clip_fraction"] = kept["clip_fraction"].mean(1)
            row["train/sentinel/clip_fraction_first_epoch"] = _mean(kept["clip_fraction"], epoch == 0)
        epochs = epoch.astype(int)
        count = np.bincount(epochs)  # every epoch up to the last one tried has steps
        by_epoch = np.stack([np.bincount(epochs, member) for member in kl]) / count
        row["train/sentinel/kl_epoch_min"], row["train/sentinel/kl_epoch_max"] = by_epoch.min(1), by_epoch.max(1)
        row["train/sentinel/kl_epoch_worst"] = by_epoch.argmax(1).astype(float)
    for name in GRAD_NORMS:
        row[f"train/metrics/grad_norm/{name}"] = kept[f"grad_norm/{name}"].mean(1)
    ordered = np.sort(kept["grad_norm/all"], 1)
    steps = ordered.shape[1]
    for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        row[f"train/metrics/grad_norm/{name}"] = ordered[:, min(int(share * steps), steps - 1)]
    if "grad_clipped" in kept:
        row["train/metrics/grad_norm/clipped"] = kept["grad_clipped"].mean(1)
    return row


def _mean(values: Any, steps: Any) -> Any:
    """Mean [M] over some of the steps; rows side by side, so that a member's sum is the same in any cohort."""
    return np.ascontiguousarray(values[:, steps]).mean(1)


def sentinel_cells(names: Sequence[str], table: Tensor) -> Columns:
    """Sentinels [K, M] by name -> cells; what is not finite because it means nothing stays blank."""
    cells = table.double().numpy()
    odd = np.isnan(cells).any(1) if len(names) else ()
    return {
        name: [None if value != value else value for value in values] if blanks else values
        for name, values, blanks in zip(names, cells.tolist(), odd, strict=True)
    }


def stack_by_name(found: Mapping[str, Tensor]) -> Tensor:
    """Numbers [M] of several names as one table [K, M], to be copied at once; exact for every one of them."""
    if not found:
        return torch.empty(0, 0)
    return torch.stack([value if value.dtype is torch.float32 else value.double() for value in found.values()])
