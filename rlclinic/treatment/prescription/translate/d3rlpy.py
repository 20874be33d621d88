"""A prescription in d3rlpy's words: arguments of an algorithm's config, and of `fit`."""

from collections.abc import Mapping
from typing import Any, Final

from rlclinic.config import Config
from rlclinic.treatment.prescription.translate.replay import first_number, to_python

_CONFIGS: Final = {
    "bc": "BCConfig", "td3_bc": "TD3PlusBCConfig", "iql": "IQLConfig", "awac": "AWACConfig", "cql": "CQLConfig", "cal_ql": "CalQLConfig",
    "dt": "DecisionTransformerConfig", "dqn": "DQNConfig", "sac": "SACConfig", "td3": "TD3Config", "ddpg": "DDPGConfig",
}  # fmt: skip
_SAME: Final = frozenset({"batch_size", "gamma", "tau", "expectile", "target_update_interval", "n_critics"})
_WORDS: Final = {
    "iql": {"beta": "weight_temp", "weight_cap": "max_weight"},
    "awac": {"awac_lambda": "lam"},
    "td3_bc": {"bc_alpha": "alpha"},
    "cql": {"cql_alpha": "conservative_weight", "cql_actions": "n_action_samples", "cql_threshold": "alpha_threshold"},
    "cal_ql": {"cql_alpha": "conservative_weight", "cql_actions": "n_action_samples", "cql_threshold": "alpha_threshold"},
    "dt": {"context": "context_size"},
}
_ONE_RATE: Final = ("bc", "dt", "dqn")
"""Algorithms with one network to train."""
_SCALERS: Final = {
    "env.normalize_obs": ("observation_scaler", "d3rlpy.preprocessing.StandardObservationScaler()"),
    "env.normalize_reward": ("reward_scaler", "d3rlpy.preprocessing.ReturnBasedRewardScaler()"),
}


def spell(changes: Mapping[str, Any], after: Config | None) -> str:
    """The changes as arguments. after: the settings with the changes made, which say whose config it is."""
    algo = after.algo.name if after is not None else ""
    arguments: dict[str, str] = {}
    lines: list[str] = []
    for setting, value in changes.items():
        section, _, name = setting.partition(".")
        if setting == "run.max_env_steps":
            acts = after is not None and not after.offline
            lines.append(f"algo.{'fit_online' if acts else 'fit'}(..., n_steps={value})")
        elif setting in _SCALERS:
            word, scaler = _SCALERS[setting]
            arguments[word] = scaler if value else "None"
        elif setting == "net.hidden":
            arguments["actor_encoder_factory"] = f"d3rlpy.models.VectorEncoderFactory({list(value)})"
        elif section != "algo":
            lines.append(f"# d3rlpy has no setting for {setting}: {to_python(value)}")
        elif name == "learning_rate":
            arguments["learning_rate" if algo in _ONE_RATE else "actor_learning_rate"] = to_python(first_number(value))
        elif name == "value_lr":
            arguments["critic_learning_rate"] = to_python(first_number(value))
        elif name == "cql_lagrange":
            arguments["alpha_learning_rate"] = "1e-4" if value else "0.0"
        elif name in _SAME or name in _WORDS.get(algo, {}):
            arguments[_WORDS.get(algo, {}).get(name, name)] = to_python(first_number(value))
        else:
            lines.append(f"# d3rlpy has no setting for {name}: {to_python(value)}")
    named = _CONFIGS.get(algo, "Config")
    call = [f"d3rlpy.algos.{named}(..., {', '.join(f'{word}={value}' for word, value in arguments.items())})"] if arguments else []
    return "; ".join([*call, *lines])
