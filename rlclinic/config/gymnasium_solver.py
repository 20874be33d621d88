"""gymnasium-solver's flat environment files, translated: `policy_lr: 1e-3` becomes `algo: {learning_rate: 1e-3}`.

What a file leaves out has gymnasium-solver's default, not ours. What cannot be carried over is either refused, where the run
would be another one without it, or dropped with a note.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from rlclinic.actions import Action
from rlclinic.config.algorithms import ALGORITHMS
from rlclinic.config.environment import Spec
from rlclinic.config.schedule import to_env_steps
from rlclinic.config.setting_names import find_setting, is_setting
from rlclinic.config.yaml_lines import Located, Tree, drop_origins
from rlclinic.errors import ConfigError, nearest

__all__ = ["FLAT_KEYS", "translate", "translate_spec"]

_DEFAULT: Final = "gymnasium-solver's default"
_N_ENVS: Final = 8
_BUDGET: Final = 1_000_000

# Its networks: all relu, one trunk for policy and value.
_MODELS: Final = {"mlp_tiny": [64], "mlp_small": [128, 128], "mlp_medium": [256, 256], "mlp_large": [512, 512]}

# Defaults that differ from ours, by algorithm; files without model_id are from before October 2025.
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "ppo": {"algo.n_steps": 2048, "algo.batch_size": 64, "algo.clip_range_vf": 0.2},
    "reinforce": {"algo.n_steps": 2048, "algo.baseline": False, "algo.normalize_advantage": "off"},
}
_OLD_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "ppo": {"algo.n_steps": 2048, "algo.batch_size": 0.25, "algo.optimizer": "adamw", "env.n_envs": 1},
    "reinforce": {**_DEFAULTS["reinforce"], "algo.optimizer": "adamw", "env.n_envs": 1},
}

# Keys without a counterpart here, and why that is no loss.
_DROPPED: Final = {
    "project_id": "it names a W&B project",
    "enable_wandb": "runs are local folders",
    "quiet": "the command line decides",
    "devices": "one device per process",
    "vectorization_mode": "env.native and env.workers decide",
    "subproc": "env.workers decides",
    "render_mode": f"`{Action('play')}` renders",
    "seed_train": "seed decides",
    "seed_val": "evaluations have fixed start states",
    "seed_test": "evaluations have fixed start states",
    "eval_warmup_epochs": "evaluation begins at once",
    "eval_async": "evaluation is synchronous",
    "eval_recording_freq_epochs": f"`{Action('evaluate', video='episode.gif')}` records",
    "early_stop_on_train_threshold": "only evaluations stop a run",
    "plateau_interventions": f"`{Action('adjust')}` changes a live run",
    "init_from_run": f"`{Action('train', init_from='RUN')}` does it",
    "policy_kwargs": "net holds the network's settings",
    "advantages_type": "advantages are GAE's; algo.gae_lambda and algo.baseline decide",
    "mean_reward_window": "means are over 100 episodes",
    "prio_beta0": "algo.segment_length, algo.priority_alpha and algo.priority_beta ask for prioritized sampling",
    "vtrace_rho_clip": "advantages are GAE's; algo.advantage=vtrace and algo.rho_clip ask for V-trace",
    "vtrace_c_clip": "advantages are GAE's; algo.advantage=vtrace and algo.c_clip ask for V-trace",
}
_REFUSED_VALUES: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "obs_type": (lambda value: value not in (None, "vector", "state", "ram"), "observations that are images or detected objects"),
    "policy": (lambda value: "cnn" in str(value).lower(), "networks for images"),
    "grayscale_obs": (bool, "image observations"),
    "resize_obs": (bool, "image observations"),
    "frame_skip": (lambda value: value not in (None, 1), "repeating an action for several frames"),
    "prio_alpha": (bool, "prioritized sampling"),
}
# Keys that only count together with others, so they wait for them.
_LATER: Final = ("max_env_steps", "max_epochs", "eval_freq_epochs", "early_stop_on_eval_threshold")
_WORDS: Final = ("description", "model_id", "accelerator", "returns_type", "policy_targets", "normalize_returns", "use_baseline")
_SIDE_KEYS: Final = {"": "schedule", "_start_value": "start", "_end_value": "end", "_start": "from", "_end": "to", "_warmup": "warmup"}

FLAT_KEYS: Final = frozenset(_DROPPED) | frozenset(_REFUSED_VALUES) | frozenset(_LATER + _WORDS)
"""Keys that only a flat file has; everything else is one of our settings or an alias."""


@dataclass
class _Translation:
    """A variant on its way: what is left of the flat keys, the nested settings so far, and what was dropped."""

    flat: Tree
    algo: str
    nested: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, key: str, value: Any, origin: str) -> None:
        section, name = key.split(".")
        self.nested.setdefault(section, {})[name] = Located(value, origin)

    def get(self, key: str, default: Any) -> Any:
        section, name = key.split(".")
        found = self.nested.get(section, {}).get(name)
        return default if found is None else drop_origins(found)

    def take(self, key: str) -> tuple[Any, str] | None:
        """A flat key's value and origin, once."""
        found = self.flat.pop(key, None)
        if found is None:
            return None
        return (found.value, found.origin) if isinstance(found, Located) else (drop_origins(found), _find_origin(found))


def translate(flat: Tree, spec: Tree, family: str) -> tuple[Tree, list[str]]:
    """A flat variant (and its file's `spec`, in our words) as nested sections, and notes on what was dropped.

    `family` is the algorithm of a variant that names none. Raises ConfigError for what cannot be carried over.
    """
    given = flat.get("algo_id", Located(family, "variant"))
    work = _Translation({**flat, "algo_id": given}, _translate_algorithm(given), {"spec": dict(spec)})
    old = "model_id" not in flat
    _refuse(work)
    _gather_side_keys(work.flat)
    for step in (_translate_environment, _translate_network, _translate_reinforce, _copy, _translate_budget):
        step(work)
    for key, value in (_OLD_DEFAULTS if old else _DEFAULTS).get(work.algo, {}).items():
        if work.get(key, None) is None and not _is_given_as_none(work, key):
            work.put(key, value, _DEFAULT)
    _translate_evaluation(work)
    _scale_warmups(work)
    result: Tree = {**work.nested}
    return result, work.notes


def _is_given_as_none(work: _Translation, key: str) -> bool:
    section, name = key.split(".")
    return name in work.nested.get(section, {})


def _translate_algorithm(given: "Located | Tree") -> str:
    name = str(drop_origins(given)).lower()
    if name not in ALGORITHMS:
        offered = nearest(name, ALGORITHMS) or list(ALGORITHMS)
        raise ConfigError(
            f"algo_id={name} ({_find_origin(given)}) is no algorithm here.\n"
            "  There would be nothing to train with.\n"
            f"  Try: algo_id: {' or '.join(offered)}"
        )
    return name


def _refuse(work: _Translation) -> None:
    for key, (wrong, what) in _REFUSED_VALUES.items():
        taken = work.take(key)
        if taken is None:
            continue
        value, origin = taken
        if wrong(value):
            raise ConfigError(
                f"{key}={value} ({origin}): {what} cannot be carried over from such a file.\n"
                "  Without it the run would be another task.\n"
                f"  Try: another variant, our own settings for images (docs/images.md), or take {key} out if they are vectors anyway"
            )
        if key == "obs_type" and value == "ram":
            kwargs = work.flat.get("env_kwargs", {})
            work.flat["env_kwargs"] = {**(kwargs if isinstance(kwargs, dict) else {}), "obs_type": Located("ram", origin)}


def _gather_side_keys(flat: Tree) -> None:
    """`clip_range_schedule: linear` and `clip_range_schedule_start_value: 0.2` become clip_range: {schedule: linear, start: 0.2}."""
    for name in [key.removesuffix("_schedule") for key in flat if key.endswith("_schedule")]:
        found = {inner: flat.pop(f"{name}_schedule{suffix}", None) for suffix, inner in _SIDE_KEYS.items()}
        schedule: Tree = {key: value for key, value in found.items() if value is not None and drop_origins(value) is not None}
        if "schedule" in schedule:
            below = flat.get(name)
            start: Tree = {"start": below} if isinstance(below, Located) and below.value is not None else {}
            flat[name] = {**start, **schedule}


def _translate_environment(work: _Translation) -> None:
    if taken := work.take("n_envs"):
        value, origin = taken
        if value == "auto":
            work.notes.append(f"n_envs: auto ({origin}) depends on the machine; {_N_ENVS} is used.")
        work.put("env.n_envs", _N_ENVS if value == "auto" else value, origin)
    if taken := work.take("frame_stack"):
        work.put("env.frame_stack", taken[0] or 1, taken[1])
    if taken := work.take("normalize_obs"):
        value, origin = taken
        if value == "static":
            work.notes.append(f"normalize_obs: static ({origin}) scales by the space's bounds; running statistics are used.")
        work.put("env.normalize_obs", bool(value), origin)
    if taken := work.take("env_wrappers"):
        wrappers, origin = taken
        work.put("env.wrappers", _translate_wrappers(wrappers or [], origin, work.notes), origin)


def _translate_wrappers(wrappers: list[Any], origin: str, notes: list[str]) -> list[Any]:
    kept = []
    for wrapper in wrappers:
        name = wrapper.get("id", "") if isinstance(wrapper, dict) else str(wrapper)
        if name == "DiscreteEncoder":
            notes.append(f"DiscreteEncoder ({origin}) is dropped: discrete observations become one-hot vectors by themselves.")
        elif name in _OWN_WRAPPERS:
            raise ConfigError(
                f"env_wrappers: {name} ({origin}) is gymnasium-solver's own code.\n"
                "  Without it the agent would see another task or another reward.\n"
                "  Try: id: your_module:YourWrapper, or a variant without it"
            )
        else:
            kept.append(wrapper)
    return kept


_OWN_WRAPPERS: Final = {
    "DiscreteActionSpaceRemapperWrapper",
    "ActionRewardShaper",
    "StickyActionsWrapper",
    "FrameSkipWrapper",
    "PixelObservationWrapper",
    "ALEActionMaskingWrapper",
    "PongV5_FeatureExtractor",
    "PongV5_RewardShaper",
    "BreakoutV5_FeatureExtractor",
    "MountainCarV0_RewardShaper",
    "MountainCarV0_StateCountBonus",
    "CartPoleV1_RewardShaper",
    "VizDoom_RewardShaper",
    "RetroSuperMarioBros_RewardShaper",
}


def _translate_network(work: _Translation) -> None:
    model, hidden = work.take("model_id"), work.take("hidden_dims")
    if model is not None:
        name, origin = model
        if str(name) not in _MODELS:
            what = "networks for images cannot be trained yet" if str(name).startswith("cnn") else "no such network"
            offered = nearest(str(name), _MODELS) or list(_MODELS)
            raise ConfigError(
                f"model_id={name} ({origin}): {what}.\n  There would be no network to train.\n  Try: model_id: {' or '.join(offered)}"
            )
        work.put("net.hidden", _MODELS[name], origin)
    if hidden is not None:
        widths, origin = hidden
        work.put("net.hidden", [widths] if isinstance(widths, int) else widths, origin)
    work.put("net.activation", "relu", _DEFAULT)
    work.put("net.shared", True, _DEFAULT)


def _translate_reinforce(work: _Translation) -> None:
    """REINFORCE's vocabulary: what the policy is pushed by, and how that is scaled."""
    if (taken := work.take("returns_type")) and taken[0] == "mc:episode":
        why = "each action is credited only with the rewards after it (the same mean, less noise)"
        work.notes.append(f"returns_type: mc:episode ({taken[1]}) is dropped: {why}.")
    targets, baseline, scaling = work.take("policy_targets"), work.take("use_baseline"), work.take("normalize_returns")
    if work.algo != "reinforce":
        return
    if targets is not None:
        work.put("algo.baseline", targets[0] == "advantages", targets[1])
    if baseline is not None:
        work.put("algo.baseline", bool(baseline[0]), baseline[1])
    if scaling is not None:
        value, origin = scaling
        work.put("algo.normalize_advantage", "rollout" if value == "baseline" else value or "off", origin)
    for key in ("batch_size", "n_epochs"):
        if taken := work.take(key):
            work.notes.append(f"{key} ({taken[1]}) is dropped: REINFORCE takes one step on the whole rollout.")


def _copy(work: _Translation) -> None:
    """Everything that is only a rename."""
    for key in [key for key in work.flat if key not in _LATER]:
        value = work.flat.pop(key)
        origin = value.origin if isinstance(value, Located) else _find_origin(value)
        if key in _DROPPED:
            work.notes.append(f"{key} ({origin}) is dropped: {_DROPPED[key]}.")
        elif key == "description":
            work.nested["spec"].setdefault("description", value)
        elif key == "accelerator":
            work.put("run.device", "cuda" if drop_origins(value) in ("gpu", "cuda") else "cpu", origin)
        elif key == "seed":
            work.nested["seed"] = value  # type: ignore[assignment]
        else:
            _copy_setting(work, key, value, origin)


def _copy_setting(work: _Translation, key: str, value: "Located | Tree", origin: str) -> None:
    name = "algo.name" if key == "algo_id" else key
    try:
        path = find_setting(name, work.algo)
    except ConfigError as error:
        if any(is_setting(name, other) for other in ALGORITHMS if other != work.algo):
            work.notes.append(f"{key} ({origin}) is dropped: {work.algo} has no such setting.")
            return
        raise ConfigError(f"{origin}: ", *error.parts) from None
    if len(path) < 2:
        raise ConfigError(
            f"{origin}: {key} is no setting of such a file.\n  It cannot be told what it changes.\n  Try: the name of a setting"
        )
    work.nested.setdefault(path[0], {})[path[1]] = Located(work.algo, origin) if name == "algo.name" else value


def _translate_budget(work: _Translation) -> None:
    steps, epochs = work.take("max_env_steps"), work.take("max_epochs")
    if steps is not None and steps[0] is not None:
        work.put("run.max_env_steps", *steps)
    elif epochs is not None and epochs[0] is not None:
        work.put("run.max_env_steps", _to_env_steps(work, epochs[0]), epochs[1])
    elif work.get("run.max_env_steps", None) is None:
        work.put("run.max_env_steps", _BUDGET, _DEFAULT)
        work.notes.append(f"no max_env_steps: gymnasium-solver would train until it is stopped; here the budget is {_BUDGET:,} env steps.")


def _to_env_steps(work: _Translation, epochs: Any) -> Any:
    """Its epochs are rollouts. What is not a number stays as it is, for validation to name."""
    n_envs, n_steps = work.get("env.n_envs", _N_ENVS), work.get("algo.n_steps", 2048)
    return epochs * n_envs * n_steps if all(isinstance(item, int | float) for item in (epochs, n_envs, n_steps)) else epochs


def _translate_evaluation(work: _Translation) -> None:
    """Epochs are rollouts there; here everything is counted in env steps."""
    every, stop = work.take("eval_freq_epochs"), work.take("early_stop_on_eval_threshold")
    if every is not None and every[0]:
        work.put("run.eval_every_env_steps", _to_env_steps(work, every[0]), every[1])
    for key, value in {"run.eval_episodes": 100, "run.eval_deterministic": False}.items():
        if work.get(key, None) is None:
            work.put(key, value, _DEFAULT)
    value, origin = stop or (True, _DEFAULT)
    if isinstance(value, int | float) and not isinstance(value, bool):
        work.put("spec.threshold", value, origin)
    # Stopping needs something to look at and something to reach.
    possible = bool(every and every[0]) and work.get("spec.threshold", None) is not None
    work.put("run.stop_at_threshold", value is not False and possible, origin)


def _scale_warmups(work: _Translation) -> None:
    """Its warm-up is a share of the schedule's own window, ours of the budget."""
    budget = work.get("run.max_env_steps", _BUDGET)
    for value in work.nested.get("algo", {}).values():
        if isinstance(value, dict) and "warmup" in value:
            given, begin, finish = (
                drop_origins(value["warmup"]),
                drop_origins(value.get("from", Located(0, ""))),
                drop_origins(value.get("to", Located(1, ""))),
            )
            if (begin, finish) != (0, 1) and all(isinstance(item, int | float) for item in (given, begin, finish, budget)):
                window = to_env_steps(finish, budget) - to_env_steps(begin, budget)
                value["warmup"] = Located(given * window / budget, value["warmup"].origin)


def translate_spec(spec: Tree) -> Tree:
    """Its `spec` block in our words; the parts that only describe the spaces are left out."""
    known: Tree = {key: value for key, value in spec.items() if key in Spec.model_fields}
    for block in ("rewards", "returns"):
        inner = spec.get(block)
        if isinstance(inner, dict):
            if (threshold := inner.get("threshold_solved")) is not None:
                known["threshold"] = threshold
            bounds = inner.get("range")
            if block == "returns" and isinstance(bounds, Located) and _is_range(bounds.value):
                known["return_range"] = bounds
    threshold, bounds = known.get("threshold"), known.get("return_range")
    if isinstance(threshold, Located) and isinstance(bounds, Located) and isinstance(threshold.value, int | float):
        low, high = bounds.value
        if not low <= threshold.value <= high:
            # Its ranges are prose; the threshold is what stops a run.
            del known["return_range"]
    return known


def _is_range(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    finite = all(isinstance(item, int | float) and math.isfinite(item) for item in value)
    return finite and bool(value[0] < value[1])


def _find_origin(tree: "Located | Tree | None") -> str:
    while isinstance(tree, dict):
        tree = next(iter(tree.values()), None)
    return tree.origin if tree is not None else "?"
