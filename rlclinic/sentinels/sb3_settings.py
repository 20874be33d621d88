"""The settings of a Stable-Baselines3 model, its environments and its evaluation, by our dotted names: what a log never says."""

import json
import math
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

FILE: Final = "sentinels.json"
FORMAT: Final = "rlclinic-sentinels"
_NUMBERS: Final = (
    *("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm", "target_kl", "use_sde"),
    *("sde_sample_freq", "buffer_size", "learning_starts", "tau", "gradient_steps", "target_update_interval", "target_entropy"),
    *("exploration_fraction", "exploration_initial_eps", "exploration_final_eps", "policy_delay", "target_policy_noise"),
    "target_noise_clip",
)
_SCHEDULES: Final = {"lr_schedule": "learning_rate", "clip_range": "clip_range", "clip_range_vf": "clip_range_vf"}
_OPTIMIZERS: Final = {"Adam": "adam", "AdamW": "adamw", "SGD": "sgd", "RMSprop": "rmsprop", "RMSpropTFLike": "rmsprop"}
_ALWAYS_THERE: Final = {"OrderEnforcing", "PassiveEnvChecker", "Monitor", "TimeLimit"}
_PACKAGES: Final = ("stable-baselines3", "torch", "gymnasium", "numpy", "rlclinic")

Settings = dict[str, Any]


def collect(model: Any, callbacks: Iterable[Any] = (), threshold: float | None = None) -> Settings:
    """Every setting that the model, its envs and an EvalCallback tell."""
    found = {"algo.name": type(model).__name__.lower(), **_read_algo(model), **_read_network(model.policy), **_read_env(model, threshold)}
    if model.seed is not None:
        found["seed"] = int(model.seed)
    found["run.max_env_steps"] = int(model._total_timesteps)
    for callback in callbacks:
        found |= _read_evaluation(callback, model)
    return found


def describe(model: Any) -> dict[str, Any]:
    """What is worth keeping beside the settings: spaces, statistics of the normalizer, versions."""
    normalizer = model.get_vec_normalize_env()
    return {
        "policy": type(model.policy).__name__,
        "device": str(model.device),
        "observation_space": str(model.observation_space)[:500],
        "action_space": str(model.action_space)[:500],
        "vec_normalize": None if normalizer is None else {"training": bool(normalizer.training), "epsilon": float(normalizer.epsilon)},
        "versions": {"python": platform.python_version(), **{name: known for name in _PACKAGES if (known := _find_version(name))}},
    }


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """Replace sentinels.json in one step: a run that is killed leaves the old one or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{FILE}.tmp"
    temporary.write_text(json.dumps({"format": FORMAT, "version": 1, **content}, indent=1, default=str) + "\n", encoding="utf-8")
    temporary.replace(folder / FILE)


def sample_schedule(function: Any) -> Any:
    """A function of the remaining share of the budget as one of our schedules: a number if it is constant, else points."""
    shares = [step / 20 for step in range(21)]
    values = [float(function(1.0 - share)) for share in shares]
    if not all(math.isfinite(value) for value in values):
        return None
    scale = max(abs(value) for value in values) or 1.0
    if max(values) - min(values) <= 1e-9 * scale:
        return values[0]
    straight = all(
        abs(value - (values[0] + share * (values[-1] - values[0]))) <= 1e-6 * scale for share, value in zip(shares, values, strict=True)
    )
    if straight:
        return {"schedule": "linear", "start": values[0], "end": values[-1]}
    return {"schedule": "piecewise", "points": [[share, value] for share, value in zip(shares, values, strict=True)]}


def _read_algo(model: Any) -> Settings:
    found: Settings = {}
    for name in _NUMBERS:
        value = getattr(model, name, None)
        if value is not None and isinstance(value, bool | int | float | str):
            found[f"algo.{name}"] = value
    if hasattr(model, "replay_buffer"):
        # Steps of a return there, not of a rollout.
        found.pop("algo.n_steps", None)
    for name, ours in _SCHEDULES.items():
        function = getattr(model, name, None)
        if callable(function):
            found[f"algo.{ours}"] = sample_schedule(function)
    if hasattr(model, "clip_range") and model.clip_range_vf is None:
        found["algo.clip_range_vf"] = None
    if hasattr(model, "target_kl"):
        found["algo.target_kl"] = model.target_kl
    if isinstance(scaled := getattr(model, "normalize_advantage", None), bool):
        found["algo.normalize_advantage"] = "batch" if scaled else "off"
    if (frequency := getattr(getattr(model, "train_freq", None), "frequency", None)) is not None:
        found["algo.train_freq"] = int(frequency)
    optimizer = getattr(model.policy, "optimizer", None) or getattr(getattr(model, "critic", None), "optimizer", None)
    if optimizer is not None:
        kind = type(optimizer).__name__
        found["algo.optimizer"] = _OPTIMIZERS.get(kind, kind)
        found |= {
            f"algo.{ours}": optimizer.defaults[name]
            for name, ours in (("weight_decay", "weight_decay"), ("eps", "adam_eps"))
            if name in optimizer.defaults
        }
    return found


def _read_network(policy: Any) -> Settings:
    """Widths of the hidden layers, their activation, and whether actor and critic share some."""
    extractor = getattr(policy, "mlp_extractor", None)
    if extractor is not None:
        first = _list_widths(getattr(policy, "features_extractor", None))
        hidden, critic = (first + _list_widths(getattr(extractor, part, None)) for part in ("policy_net", "value_net"))
    elif (latent := getattr(getattr(policy, "actor", None), "latent_pi", None)) is not None:
        hidden = critic = _list_widths(latent)
    else:
        # The last layer of a Q-network or of TD3's actor is its output.
        hidden = critic = _list_widths(getattr(policy, "q_net", None) or getattr(policy, "actor", None))[:-1]
    found: Settings = {"net.hidden": hidden} | ({"net.critic_hidden": critic} if critic != hidden else {})
    activation = getattr(policy, "activation_fn", None)
    if isinstance(activation, type):
        found["net.activation"] = "leaky_relu" if activation.__name__ == "LeakyReLU" else activation.__name__.lower()
    if extractor is not None:
        shared = bool(getattr(policy, "share_features_extractor", False))
        found["net.shared"] = shared and any(True for _ in policy.features_extractor.parameters())
        found["net.policy_gain"] = 0.01 if getattr(policy, "ortho_init", False) else 1.0
    if hasattr(policy, "log_std_init") and hasattr(policy, "log_std"):
        found["net.log_std_init"] = float(policy.log_std_init)
    return found


def _list_widths(module: Any) -> list[int]:
    """Units of the linear layers of a module."""
    return [] if module is None else [layer.out_features for layer in module.modules() if type(layer).__name__ == "Linear"]


def _read_env(model: Any, threshold: float | None) -> Settings:
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack, VecNormalize

    venv = model.get_env()
    found: Settings = {"env.n_envs": int(model.n_envs), "env.normalize_obs": False, "env.normalize_reward": False}
    for layer in _unwrap(venv, "venv"):
        if isinstance(layer, VecNormalize):
            found |= {"env.normalize_obs": bool(layer.norm_obs), "env.normalize_reward": bool(layer.norm_reward)}
            found |= {"env.clip_obs": float(layer.clip_obs), "env.clip_reward": float(layer.clip_reward)}
        elif isinstance(layer, VecFrameStack):
            found["env.frame_stack"] = int(layer.stacked_obs.n_stack if hasattr(layer, "stacked_obs") else 1)
        elif isinstance(layer, SubprocVecEnv):
            found["env.workers"] = int(layer.num_envs)
    if threshold is not None:
        found["spec.threshold"] = float(threshold)
    # Envs in other processes are not asked: what cannot be sent back would end their process, and the training with it.
    inner = getattr(venv.unwrapped, "envs", None)
    return found | _read_single_env(inner[0], threshold) if inner else found


def _read_single_env(env: Any, threshold: float | None) -> Settings:
    """What one environment tells: its id, its limits, its wrappers from the inside out."""
    import gymnasium

    found: Settings = {}
    layers = list(_unwrap(env, "env"))
    wrappers = [type(layer).__name__ for layer in reversed(layers[:-1]) if type(layer).__name__ not in _ALWAYS_THERE]
    if wrappers:
        found["env.wrappers"] = wrappers
    limits = [int(layer._max_episode_steps) for layer in layers if type(layer).__name__ == "TimeLimit"]
    spec = env.spec
    if spec is None:
        return found
    found["env.id"] = str(spec.id)
    if spec.kwargs and (kwargs := _to_plain(spec.kwargs)):
        found["env.kwargs"] = kwargs
    registered = gymnasium.registry.get(spec.id)
    if registered is not None and registered.max_episode_steps is not None:
        found["spec.max_episode_steps"] = int(registered.max_episode_steps)
    if limits and min(limits) != found.get("spec.max_episode_steps"):
        found["env.max_episode_steps"] = min(limits)
    if threshold is None and spec.reward_threshold is not None:
        found["spec.threshold"] = float(spec.reward_threshold)
    return found


def _read_evaluation(callback: Any, model: Any) -> Settings:
    """When and how an EvalCallback judges, and whether it shows the policy what it was trained on."""
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.vec_env import VecNormalize

    if not isinstance(callback, EvalCallback):
        return {}
    inner = [layer for layer in _unwrap(callback.eval_env, "venv") if isinstance(layer, VecNormalize)]
    trained = model.get_vec_normalize_env()
    found: Settings = {
        "run.eval_every_env_steps": int(callback.eval_freq) * int(model.n_envs),
        "run.eval_episodes": int(callback.n_eval_episodes),
        "run.eval_deterministic": bool(callback.deterministic),
    }
    if trained is not None and trained.norm_obs:
        # EvalCallback copies the statistics into an eval env that is wrapped alike, and only into such a one.
        found["run.eval_normalize_obs"] = any(layer.norm_obs for layer in inner)
    return found


def list_nested(callback: Any) -> Iterator[Any]:
    """A callback and all those inside of it."""
    yield callback
    for inner in [*getattr(callback, "callbacks", ()), getattr(callback, "callback", None)]:
        if inner is not None and not callable(inner):
            yield from list_nested(inner)


def _unwrap(env: Any, attribute: str) -> Iterator[Any]:
    """An environment and what it wraps, from the outside in."""
    while env is not None:
        yield env
        env = env.__dict__.get(attribute)


def _to_plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): inner for key, inner in value.items() if key != "render_mode" and isinstance(inner, bool | int | float | str)}


def _find_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
