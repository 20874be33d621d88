"""A prescription in RLlib's words: calls on its config, as its newer engine takes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rlclinic.config import Config
from rlclinic.treatment.prescription.translate.replay import to_python

_TRAINING: Final = {
    "n_epochs": "num_epochs", "gamma": "gamma", "gae_lambda": "lambda_", "clip_range": "clip_param", "ent_coef": "entropy_coeff",
    "vf_coef": "vf_loss_coeff", "max_grad_norm": "grad_clip", "learning_rate": "lr", "tau": "tau", "n_step": "n_step",
    "learning_starts": "num_steps_sampled_before_learning_starts", "target_update_interval": "target_network_update_freq",
    "batch_size": "minibatch_size",
}  # fmt: skip
_EPSILON: Final = ("exploration_initial_eps", "exploration_final_eps", "exploration_fraction")
_FILTER: Final = "env_to_module_connector=lambda env, spaces, device: MeanStdFilter()"


@dataclass
class _Calls:
    """Arguments by the method of the config that takes them."""

    after: Config | None
    training: dict[str, str] = field(default_factory=dict)
    runners: list[str] = field(default_factory=list)
    model: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def replays(self) -> bool:
        return self.after is not None and self.after.algo.loop == "off_policy"

    def text(self) -> str:
        said = []
        if self.training:
            said.append(f"config.training({', '.join(f'{key}={value}' for key, value in self.training.items())})")
        if self.runners:
            said.append(f"config.env_runners({', '.join(self.runners)})")
        if self.model:
            said.append(f"config.rl_module(model_config=DefaultModelConfig({', '.join(self.model)}))")
        return "; ".join([*said, *self.lines])


def spell(changes: Mapping[str, Any], after: Config | None) -> str:
    """The changes as calls on an AlgorithmConfig. after: the settings with the changes made, for sizes that depend on each other."""
    calls = _Calls(after)
    for setting, value in changes.items():
        section, _, name = setting.partition(".")
        {"algo": _algo, "net": _net}.get(section, _around)(calls, name, value)
    return calls.text()


def _algo(calls: _Calls, name: str, value: Any) -> None:
    after = calls.after
    if name == "name":
        calls.lines.append(f"config = {str(value).upper()}Config()")
    elif name == "learning_rate" and after is not None and after.algo.name in ("sac", "td3", "ddpg"):
        calls.training |= dict.fromkeys(("actor_lr", "critic_lr"), _points(value, after))
    elif name == "ent_coef" and calls.replays:
        calls.training["initial_alpha"] = to_python(value) if isinstance(value, int | float) else "1.0"
    elif name == "n_steps" and after is not None:
        calls.training["train_batch_size_per_learner"] = str(after.rollout_size)
    elif name == "batch_size" and after is not None:
        calls.training["train_batch_size_per_learner" if calls.replays else "minibatch_size"] = str(after.batch_rows)
    elif name == "buffer_size":
        calls.training["replay_buffer_config"] = f'{{..., "capacity": {value}}}'
    elif name in ("train_freq", "gradient_steps") and after is not None:
        settings = after.algo.model_dump()
        often = settings["gradient_steps"] / max(settings["train_freq"], 1)
        calls.training["training_intensity"] = f"{after.batch_rows * abs(often):g}"
    elif name in _EPSILON and after is not None:
        settings = after.algo.model_dump()
        ends = round(settings["exploration_fraction"] * after.run.max_env_steps)
        calls.training["epsilon"] = f"[[0, {settings[_EPSILON[0]]:g}], [{ends}, {settings[_EPSILON[1]]:g}]]"
    elif name in _TRAINING:
        calls.training[_TRAINING[name]] = _points(value, after)
    else:
        calls.lines.append(f"# RLlib has no argument for {name}: {to_python(value)}")


def _points(value: Any, after: Config | None) -> str:
    """A number, or a schedule as `[[env step, value], ...]`."""
    if not isinstance(value, Mapping):
        return to_python(value)
    start, end, last = value.get("start", 0.0), value.get("end", 0.0), after.run.max_env_steps if after is not None else "TOTAL_STEPS"
    return f"[[0, {start:g}], [{last}, {end:g}]]"


def _net(calls: _Calls, name: str, value: Any) -> None:
    if name == "hidden":
        calls.model.append(f"fcnet_hiddens={list(value)}")
    elif name == "activation":
        calls.model.append(f"fcnet_activation={str(value)!r}")
    else:
        calls.lines.append(f"# RLlib has no argument for net.{name}: {to_python(value)}")


def _around(calls: _Calls, name: str, value: Any) -> None:
    if name == "n_envs":
        calls.runners.append(f"num_envs_per_env_runner={value}")
    elif name == "normalize_obs" and value:
        calls.runners.append(_FILTER)
    elif name == "max_env_steps":
        calls.lines.append(f'stop={{"num_env_steps_sampled_lifetime": {value}}}')
    else:
        wrapped = {
            "normalize_reward": "env = gymnasium.wrappers.NormalizeReward(env)",
            "max_episode_steps": f"env = gymnasium.make(..., max_episode_steps={value})",
            "frame_stack": f"env = gymnasium.wrappers.FrameStackObservation(env, {value})",
            "wrappers": "env = gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)",
        }
        calls.lines.append(f"# where the environment is made: {wrapped.get(name, f'{name} = {to_python(value)}')}")
