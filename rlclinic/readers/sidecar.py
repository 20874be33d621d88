"""Settings that lie beside a log, as frameworks and scripts leave them there: params.json, config.yaml, args.json, hparams.yaml, …"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rlclinic import plain_files
from rlclinic.readers import histories, hyperparameters, rllib, sb3_settings, text_files
from rlclinic.readers.hyperparameters import Settings
from rlclinic.runs.coerce import real, text, whole
from rlclinic.runs.history import History

_STEMS: Final = ("params", "config", "args", "hparams", "hyperparameters", "hyperparams", "variant", "flags", "cfg", "settings")
_SUFFIXES: Final = (".json", ".yaml", ".yml")
FILES: Final = tuple(stem + suffix for stem in _STEMS for suffix in _SUFFIXES)
"""Not logs, whatever their suffix says."""
SUMMARY: Final = ".summary"
"""Where Sample Factory puts events, by number of the policy, below the folder that has the settings."""
_PLACES: Final = (".", ".hydra", "files")
_AGENT: Final = "agent.yaml"
"""Isaac Lab's settings of the learner, in `params/`."""
_MAX_DEPTH: Final = 4
# Words of RLlib, Spinning Up, Tianshou, d3rlpy, skrl, rsl_rl, TorchRL and Sample Factory; what our own config takes too is in its aliases.
_WORDS: Final = {
    **dict.fromkeys(("env", "env_name", "environment", "task", "gym_id", "env_id"), "env.id"),
    **dict.fromkeys(("pi_lr", "actor_lr", "actor_learning_rate"), "algo.learning_rate"),
    **dict.fromkeys(("vf_lr", "critic_learning_rate"), "algo.value_lr"),
    **dict.fromkeys(("lambda", "lambda_", "gae_lam"), "algo.gae_lambda"),
    **dict.fromkeys(("clip_param", "clip_ratio", "eps_clip", "cliprange", "ratio_clip", "ppo_clip_ratio"), "algo.clip_range"),
    **dict.fromkeys(("entropy_coeff", "ent_coeff", "entropy_weight", "entropy_loss_scale", "exploration_loss_coeff"), "algo.ent_coef"),
    **dict.fromkeys(
        ("vf_loss_coeff", "value_coef", "vf_coeff", "value_loss_scale", "value_loss_coeff", "critic_coef", "critic_coeff"), "algo.vf_coef"
    ),
    **dict.fromkeys(("sgd_minibatch_size", "mini_batch_size"), "algo.batch_size"),
    **dict.fromkeys(
        ("num_sgd_iter", "num_epochs", "train_pi_iters", "repeat_per_collect", "learning_epochs", "num_learning_epochs"), "algo.n_epochs"
    ),
    **dict.fromkeys(("discount", "discount_factor"), "algo.gamma"),
    **dict.fromkeys(("grad_clip", "max_gradient_norm", "grad_norm_clip", "clip_grad_norm"), "algo.max_grad_norm"),
    **dict.fromkeys(("num_timesteps", "total_env_steps", "total_frames", "train_for_env_steps"), "run.max_env_steps"),
    **dict.fromkeys(("seed", "random_seed"), "seed"),
    **dict.fromkeys(("steps_per_epoch", "rollouts", "num_steps_per_env", "rollout"), "algo.n_steps"),
    "replay_size": "algo.buffer_size",
    "polyak": "algo.polyak",
    **dict.fromkeys(("training_num", "train_num"), "env.n_envs"),
    "eps_train": "algo.exploration_initial_eps",
    "eps_train_final": "algo.exploration_final_eps",
}
_ALGORITHMS: Final = ("algo", "algorithm", "algo_name", "alg", "agent", "type", "exp_name")


def add_settings(history: History) -> History:
    """A history with the settings that lie beside its log, where it does not have them itself."""
    if history.path is None or history.source in ("rlclinic", "gymnasium-solver", "d3rlpy"):
        return history
    folder = find_run_folder(history.path if history.path.is_dir() else history.path.parent)
    history = _add_ending(history, folder / rllib.ERROR) if history.source == "rllib" else history
    settings, path = find_settings(folder)
    if path is None:
        return history
    named = hyperparameters.check_algorithm(settings.pop("algo.name", None) or hyperparameters.find_algorithm(folder.name), ())
    known = {**settings, **history.settings}
    algo = history.algo or named
    if algo is not None:
        known.setdefault("algo.name", algo)
    new = len(known) - len(history.settings)
    return _fill(history, known, f"{new} settings from {path.relative_to(folder)}, which lies beside it") if new else history


def find_run_folder(folder: Path) -> Path:
    """The folder of the run whose events lie here: two above, where Sample Factory wrote them."""
    return folder.parents[1] if folder.parent.name == SUMMARY and len(folder.parents) > 1 else folder


def find_settings(folder: Path) -> tuple[Settings, Path | None]:
    """The settings in the first file beside a log that has at least two, and which file that is; ({}, None) if there is none."""
    for path in _find_files(folder):
        settings = translate(_read_all(path))
        if len(settings.keys() - {"algo.name"}) >= 2:
            return settings, path
    return {}, None


def _read_all(path: Path) -> dict[str, Any]:
    """A file of settings; Isaac Lab keeps those of the environment in another one beside it."""
    raw, other = read(path, []), path.with_name("env.yaml")
    if path.name != _AGENT or not other.is_file():
        return raw
    scene = read(other, []).get("scene")
    envs = whole(scene.get("num_envs")) if isinstance(scene, Mapping) else None
    return {"num_envs": envs, **raw} if envs else raw


def _fill(history: History, known: Settings, note: str) -> History:
    return replace(
        history,
        settings=known,
        algo=history.algo or text(known.get("algo.name")),
        env_id=history.env_id or text(known.get("env.id")),
        seed=history.seed if history.seed is not None else whole(known.get("seed")),
        threshold=history.threshold if history.threshold is not None else real(known.get("spec.threshold")),
        success=history.success if history.success is not None else real(known.get("spec.success")),
        max_env_steps=history.max_env_steps or whole(known.get("run.max_env_steps")),
        notes=(*history.notes, note),
    )


def _add_ending(history: History, path: Path) -> History:
    """A history with the error that a trial ended with."""
    failed = histories.find_error(text_files.read_head(path).decode("utf-8", errors="replace")) if path.is_file() else None
    return replace(history, state=failed[0], reason=failed[1]) if failed is not None else history


def _find_files(folder: Path) -> Iterator[Path]:
    for place in _PLACES:
        yield from (path for name in (*FILES, rllib.FILE) if (path := folder / place / name).is_file())
    if (folder / "params" / _AGENT).is_file():
        yield folder / "params" / _AGENT


def read(path: Path, notes: list[str]) -> dict[str, Any]:
    """The mapping in a file of settings; {} if there is none."""
    if path.suffix != ".json":
        return sb3_settings.read_yaml(path, notes)
    if path.name == rllib.FILE:
        return rllib.read_config(path)
    try:
        if path.stat().st_size > sb3_settings.MAX_DATA_BYTES:
            return {}
        value = json.loads(plain_files.read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def translate(raw: Mapping[str, Any]) -> Settings:
    """Settings by our names, whatever section they stood in; W&B's `{value: …}` is opened."""
    if rllib.is_config(raw):
        return rllib.translate(raw)
    flat = dict(_flatten(raw))
    found = hyperparameters.translate_usual(flat)
    for key, value in flat.items():
        ours = _WORDS.get(key)
        if ours and ours not in found and _is_value_of(ours, value):
            found[ours] = hyperparameters.parse_number(value) if isinstance(value, str) and ours != "env.id" else value
    if (scaled := found.get("algo.normalize_advantage")) in (0, 1):
        found["algo.normalize_advantage"] = "batch" if scaled else "off"
    if (polyak := real(found.pop("algo.polyak", None))) is not None:
        # Spinning Up's is the share of the target that is kept; skrl's the share that is taken over.
        found.setdefault("algo.tau", 1.0 - polyak if polyak > 0.5 else polyak)
    for epochs, each in (("epochs", "steps_per_epoch"), ("epoch", "step_per_epoch")):
        if (count := whole(flat.get(epochs))) and (size := whole(flat.get(each))):
            found.setdefault("run.max_env_steps", count * size)
    if rollout := whole(flat.get("step_per_collect")):
        _add_tianshou_sizes(found, flat, rollout)
    _add_sizes(found, flat)
    sections = [
        section.get(word, "")
        for word in ("name", "class_name", "class")
        for key in _ALGORITHMS
        if isinstance(section := raw.get(key), Mapping)
    ]
    hints = [*(flat.get(key, "") for key in _ALGORITHMS), *sections]
    named = next((algo for hint in hints if (algo := hyperparameters.find_algorithm(hint)) is not None), None)
    if named == "appo" and "ppo_clip_ratio" in flat and not flat.get("with_vtrace"):
        named = "ppo"  # Sample Factory's name for PPO whose rollouts may be a few updates old
    return found | ({"algo.name": named} if named else {})


def _add_sizes(found: Settings, flat: Mapping[str, Any]) -> None:
    """What skrl, rsl_rl, TorchRL and Sample Factory say by other numbers: envs, minibatches, budgets."""
    if (workers := whole(flat.get("num_workers"))) and (each := whole(flat.get("num_envs_per_worker"))):
        found.setdefault("env.n_envs", workers * each)
        if (batches := whole(flat.get("num_batches_per_epoch"))) and (size := whole(found.get("algo.batch_size"))):
            found["algo.n_steps"] = max(batches * size // (workers * each), 1)  # learned from at once, whatever the rollouts' length
    if frames := whole(flat.get("frames_per_batch")):
        found.setdefault("algo.n_steps", max(frames // max(whole(found.get("env.n_envs")) or 1, 1), 1))
    envs, steps = whole(found.get("env.n_envs")) or 0, whole(found.get("algo.n_steps")) or 0
    parts = whole(flat.get("mini_batches")) or whole(flat.get("num_mini_batches"))
    if parts and parts > 0 and envs * steps > 0:
        found.setdefault("algo.batch_size", max(envs * steps // parts, 1))
    if (iterations := whole(flat.get("max_iterations"))) and "num_steps_per_env" in flat and envs * steps > 0:
        found.setdefault("run.max_env_steps", iterations * envs * steps)
    if (count := whole(flat.get("timesteps"))) and envs > 0 and ("rollouts" in flat or "discount_factor" in flat):
        found.setdefault("run.max_env_steps", count * envs)  # skrl counts steps of all envs at once
    if flat.get("schedule") == "adaptive":
        found.pop("algo.learning_rate", None)  # only where it began: the log has what the KL made of it


def _add_tianshou_sizes(found: Settings, flat: Mapping[str, Any], rollout: int) -> None:
    """Tianshou's sizes: what is collected before an update counts all envs, and the target is renewed by gradient steps."""
    envs, often = whole(found.get("env.n_envs")) or 1, real(flat.get("update_per_step"))
    if "repeat_per_collect" in flat:
        found.setdefault("algo.n_steps", max(rollout // max(envs, 1), 1))
    if often and often > 0 and (apart := whole(flat.get("target_update_freq"))):
        found.setdefault("algo.target_update_interval", round(apart / often))


def _is_value_of(ours: str, value: Any) -> bool:
    if ours == "env.id":
        return isinstance(value, str) and bool(value.strip()) and "<" not in value
    return isinstance(value, int | float | str) and not isinstance(value, bool) and real(hyperparameters.parse_number(value)) is not None


def _flatten(raw: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every setting by its last name, the outermost last so that it wins."""
    plain = []
    for key, value in raw.items():
        opened = value["value"] if isinstance(value, Mapping) and "value" in value and set(value) <= {"value", "desc"} else value
        if isinstance(opened, Mapping) and key not in ("policy_kwargs", "normalize"):
            if depth < _MAX_DEPTH:
                yield from _flatten(opened, depth + 1)
        else:
            plain.append((str(key), opened))
    yield from plain


# ── sentinels.json, which rlclinic's callback leaves beside another framework's log: the settings that a log never says ──

SENTINEL_FILE: Final = "sentinels.json"
_SENTINEL_FORMAT: Final = "rlclinic-sentinels"
_MAX_SENTINEL_BYTES: Final = 1 << 20
_BOX: Final = re.compile(r"Box\((-?\d[\d.e+-]*), (-?\d[\d.e+-]*), ")
"""One low and one high for every dimension; a box with bounds of its own for each prints them as lists."""
_SECTIONS: Final = ("spec.", "env.", "algo.", "net.", "run.")


@dataclass(frozen=True)
class SentinelFile:
    """What the file says."""

    settings: dict[str, Any] = field(default_factory=dict)
    broken: str = ""
    """Where the environment gave a number that is none, in words; empty if it did not."""


def read_sentinel_file(path: Path, notes: list[str]) -> SentinelFile:
    """The file's content; empty, with a note, if it is damaged or somebody else's."""
    try:
        raw = json.loads(plain_files.read_text(path)) if path.stat().st_size <= _MAX_SENTINEL_BYTES else None
    except (OSError, ValueError, RecursionError):
        raw = None
    if not isinstance(raw, Mapping) or raw.get("format") != _SENTINEL_FORMAT or not isinstance(raw.get("settings"), Mapping):
        notes.append(f"{path.name} holds no settings of rlclinic's callback and was left out")
        return SentinelFile()
    settings = {
        key: value for key, value in raw["settings"].items() if isinstance(key, str) and (key.startswith(_SECTIONS) or key == "seed")
    }
    about = raw.get("about")
    box = _BOX.match(str(about.get("action_space"))) if isinstance(about, Mapping) else None
    if box is not None:
        settings["about.action_low"], settings["about.action_high"] = float(box[1]), float(box[2])
    return SentinelFile(settings, _describe_broken_number(raw.get("not_finite")))


def _describe_broken_number(found: Any) -> str:
    if not isinstance(found, Mapping):
        return ""
    place = found.get("component")
    component = f", component {', '.join(str(whole(each)) for each in place[:4])}" if isinstance(place, list) and place else ""
    where, step = str(found.get("where"))[:40], whole(found.get("env_steps"))
    return f"the {where} of env {whole(found.get('env'))} is not finite at env step {step}{component}"
