"""Settings of learners with a replay in the words of SB3 and CleanRL."""

from collections.abc import Mapping
from typing import Any, Final

SAME_IN_SB3: Final = frozenset({
    "buffer_size", "learning_starts", "train_freq", "gradient_steps", "tau", "target_update_interval", "exploration_fraction",
    "exploration_initial_eps", "exploration_final_eps", "policy_delay", "target_policy_noise", "target_noise_clip",
    "optimize_memory_usage",
})  # fmt: skip
_CLEANRL: Final = {
    "buffer_size": "buffer-size", "learning_starts": "learning-starts", "batch_size": "batch-size", "gamma": "gamma", "tau": "tau",
    "train_freq": "train-frequency", "target_update_interval": "target-network-frequency", "exploration_fraction": "exploration-fraction",
    "exploration_initial_eps": "start-e", "exploration_final_eps": "end-e", "policy_delay": "policy-frequency",
    "target_policy_noise": "policy-noise", "target_noise_clip": "noise-clip", "action_noise_std": "exploration-noise",
}  # fmt: skip
_NOISES: Final = {"gaussian": "NormalActionNoise", "ou": "OrnsteinUhlenbeckActionNoise"}


def sb3_argument(name: str, value: Any, settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """An argument of an SB3 learner with a replay and its text; None where SB3 has none. settings: the algorithm's, after the change."""
    if name in SAME_IN_SB3:
        return name, to_python(value)
    if name == "n_step":
        return "n_steps", to_python(value)
    if name in ("ent_coef", "target_entropy"):
        return name, "'auto'" if value is None else repr(value) if isinstance(value, str) else to_python(value)
    if name in ("action_noise", "action_noise_std"):
        kind, std = _NOISES.get(str(settings.get("action_noise"))), settings.get("action_noise_std", 0.1)
        # n is the number of action components.
        return "action_noise", "None" if kind is None else f"{kind}(np.zeros(n), {std:g} * np.ones(n))"
    return None


def cleanrl_flag(name: str, value: Any, algo: str) -> str | None:
    """A flag of CleanRL's dqn.py, sac, td3 or ddpg_continuous_action.py; None where there is none."""
    if name == "learning_rate":
        rate = to_python(first_number(value))
        return f"--policy-lr {rate} --q-lr {rate}" if algo == "sac" else f"--learning-rate {rate}"
    if name == "ent_coef" and algo == "sac":
        return "--autotune" if value in (None, "auto") else f"--no-autotune --alpha {to_python(value)}"
    return f"--{_CLEANRL[name]} {to_python(value)}" if name in _CLEANRL else None


def first_number(value: Any) -> Any:
    """A number, or what a schedule begins with."""
    return value.get("start") if isinstance(value, Mapping) else value


def to_python(value: Any) -> str:
    """A value as Python writes it, numbers as short as they are."""
    if isinstance(value, float):
        return f"{value:g}"
    return repr(value)
