"""RLlib's settings by our names. Its config holds every default, some of them for its older engine, and says which algorithm it is
only by the settings that the algorithm has."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rlclinic.readers import text_files
from rlclinic.readers.hyperparameters import Settings
from rlclinic.runs.coerce import real, whole

FILE: Final = "result.json"
"""Rows with everything that was reported, and the config in each."""
ERROR: Final = "error.txt"
"""What Tune writes where a trial failed."""
_MAX_ROW: Final = 4 << 20
_SIGNS: Final = ({"rollout_fragment_length", "train_batch_size"}, {"num_env_runners", "num_workers", "num_rollout_workers"})
_OWN: Final = (
    ("sac", "initial_alpha"),
    ("dqn", "double_q"),
    ("appo", "use_kl_loss", "vtrace"),
    ("impala", "vtrace"),
    ("ppo", "clip_param"),
)
"""Algorithms by settings that only they (or those before them) have."""
_SAME: Final = {
    "gamma": "algo.gamma",
    "lambda": "algo.gae_lambda",
    "clip_param": "algo.clip_range",
    "vf_loss_coeff": "algo.vf_coef",
    "grad_clip": "algo.max_grad_norm",
    "tau": "algo.tau",
    "n_step": "algo.n_step",
    "target_network_update_freq": "algo.target_update_interval",
    "num_steps_sampled_before_learning_starts": "algo.learning_starts",
    "actor_lr": "algo.learning_rate",
    "critic_lr": "algo.value_lr",
    "seed": "seed",
}


def is_config(raw: Mapping[str, Any]) -> bool:
    """Whether a mapping is a config of RLlib."""
    return all(any(name in raw for name in names) for names in _SIGNS)


def read_config(path: Path) -> dict[str, Any]:
    """The config in the first row of a result.json; {} if there is none."""
    try:
        with text_files.open_text(path) as file:
            row = json.loads(file.readline(_MAX_ROW))
    except (OSError, ValueError, RecursionError):
        return {}
    found = row.get("config") if isinstance(row, dict) else None
    return found if isinstance(found, dict) else {}


def translate(raw: Mapping[str, Any]) -> Settings:
    """The settings that count: those of the algorithm, and those that RLlib itself would use."""
    algo = next((name for name, *needed in _OWN if all(key in raw for key in needed)), None)
    replays = algo in ("sac", "dqn")
    known = {key: value for key in raw if key in _SAME and (value := real(raw[key])) is not None}
    if raw.get("grad_clip_by", "global_norm") != "global_norm":
        known.pop("grad_clip", None)
    found: Settings = {_SAME[key]: whole(raw[key]) if isinstance(raw[key], int) else value for key, value in known.items()}
    if isinstance(raw.get("env"), str) and "<" not in raw["env"]:
        found["env.id"] = raw["env"]
    if algo is not None:
        found["algo.name"] = algo
    found["env.normalize_obs"] = raw.get("observation_filter") == "MeanStdFilter"
    for key, ours in (("lr", "algo.learning_rate"), ("entropy_coeff", "algo.ent_coef")):
        if ours not in found and not (replays and key == "entropy_coeff") and (value := _translate_schedule(raw.get(key))) is not None:
            found[ours] = value
    return found | (_translate_replay(raw) if replays else _translate_rollout(raw))


def _translate_schedule(value: Any) -> Any:
    """A number, or RLlib's `[[step, value], ...]` by its ends."""
    points = [real(point[1]) for point in value if isinstance(point, list) and len(point) == 2] if isinstance(value, list) else []
    if len(points) > 1 and points[0] is not None and points[-1] is not None:
        return {"schedule": "linear", "start": points[0], "end": points[-1]} if points[0] != points[-1] else points[0]
    return real(value) if not points else points[0]


def _translate_batch(raw: Mapping[str, Any]) -> int | None:
    """Transitions per training step, of all learners. The name with "_per_learner" is the newer one, and empty where it is not used."""
    each = next(
        (size for name in ("_train_batch_size_per_learner", "train_batch_size_per_learner") if (size := whole(raw.get(name)))), None
    )
    return each * max(whole(raw.get("num_learners")) or 1, 1) if each else whole(raw.get("train_batch_size"))


def _translate_rollout(raw: Mapping[str, Any]) -> Settings:
    found: Settings = {}
    envs = (_find_first(raw, "num_envs_per_env_runner", "num_envs_per_worker") or 1) * max(
        _find_first(raw, "num_env_runners", "num_workers") or 0, 1
    )
    found["env.n_envs"] = envs
    if rollout := _translate_batch(raw):
        found["algo.n_steps"] = max(round(rollout / envs), 1)
    if minibatch := _find_first(raw, "minibatch_size", "sgd_minibatch_size"):
        found["algo.batch_size"] = minibatch
    if epochs := _find_first(raw, "num_epochs", "num_sgd_iter"):
        found["algo.n_epochs"] = epochs
    return found


def _translate_replay(raw: Mapping[str, Any]) -> Settings:
    found: Settings = {}
    if batch := _translate_batch(raw):
        found["algo.batch_size"] = batch
    buffer = raw.get("replay_buffer_config")
    if isinstance(buffer, Mapping) and (size := whole(buffer.get("capacity"))):
        found["algo.buffer_size"] = size
    epsilon = _translate_schedule(raw.get("epsilon"))
    if epsilon is not None:
        scheduled = isinstance(epsilon, Mapping)
        found["algo.exploration_initial_eps"] = epsilon["start"] if scheduled else epsilon
        found["algo.exploration_final_eps"] = epsilon["end"] if scheduled else epsilon
    return found


def _find_first(raw: Mapping[str, Any], *names: str) -> int | None:
    """The first of several names that holds a number; RLlib marks outdated ones with -1."""
    return next((count for name in names if (count := whole(raw.get(name))) is not None and count >= 0), None)
