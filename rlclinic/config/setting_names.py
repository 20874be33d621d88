"""Which setting a key means: dotted keys, short names, and the names that other tools use."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rlclinic.actions import Action, Change
from rlclinic.config.algorithms import ADVERSARIAL, ALGORITHMS
from rlclinic.config.data import DataConfig
from rlclinic.config.environment import CurriculumConfig, EnvConfig, Spec
from rlclinic.config.network import NetConfig
from rlclinic.config.reward_settings import BonusConfig, CostConfig
from rlclinic.config.run import RunConfig
from rlclinic.config.schedule import Schedule
from rlclinic.config.schema import Kind, kind_of
from rlclinic.errors import ConfigError, nearest

__all__ = ["ALIASES", "explain_unknown", "find_setting", "is_setting", "list_fields"]

# gymnasium-solver's and metta's names, and the usual ones of CleanRL, RLlib and textbooks.
ALIASES: Final = {
    "env_id": "env.id",
    "env_kwargs": "env.kwargs",
    "env_wrappers": "env.wrappers",
    "num_envs": "env.n_envs",
    "algo_id": "algo.name",
    "policy_lr": "algo.learning_rate",
    "lr": "algo.learning_rate",
    "critic_lr": "algo.value_lr",
    "bptt_horizon": "algo.n_steps",
    "num_steps": "algo.n_steps",
    "minibatch_size": "algo.batch_size",
    "update_epochs": "algo.n_epochs",
    "ppo_epochs": "algo.n_epochs",
    "clip_coef": "algo.clip_range",
    "clip_epsilon": "algo.clip_range",
    "vf_clip_coef": "algo.clip_range_vf",
    "entropy_coef": "algo.ent_coef",
    "value_loss_coef": "algo.vf_coef",
    "lam": "algo.gae_lambda",
    "norm_adv": "algo.normalize_advantage",
    "normalize_advantages": "algo.normalize_advantage",
    "rms_prop_eps": "algo.adam_eps",
    "hidden_dims": "net.hidden",
    "net_arch": "net.hidden",
    "max_timesteps": "run.max_env_steps",
    "total_timesteps": "run.max_env_steps",
    "n_timesteps": "run.max_env_steps",
    "reward_threshold": "spec.threshold",
    "cost_limit": "cost.limit",
}

# Settings of others that are left out on purpose: what they are, why, and what to use.
_LEFT_OUT: Final = dict.fromkeys(
    ("use_sde", "sde_sample_freq"),
    (
        "state-dependent exploration (gSDE) is left out.\n"
        "  Its noise is held for several steps: a single step's log-probability, which ratios, KL and the sentinels are made of, would no\n"
        "  longer say how the actions were drawn.\n"
        "  Try: leave it out and choose the noise itself: ",
        Change("net.log_std_init", -1),
        " (smaller is smoother, rl-zoo3 uses -2 beside gSDE), and\n  ",
        Change("net.state_dependent_std", True),
        " for noise that depends on the observation",
    ),
)

# Settings of the whole config, in no section.
_WHOLE: Final = ("seed", "name")


def list_fields(algo: str) -> dict[str, dict[str, FieldInfo]]:
    """Every section's fields by the names that users write, for a config of that algorithm."""
    models: dict[str, type[BaseModel]] = {"spec": Spec, "env": EnvConfig, "algo": ALGORITHMS[algo], "net": NetConfig, "run": RunConfig}
    if ALGORITHMS[algo].loop == "offline" or algo in ADVERSARIAL:
        models["data"] = DataConfig
    sections = {section: dict(model.model_fields) for section, model in models.items()}
    return sections | {
        "bonus": dict(BonusConfig.model_fields),
        "cost": dict(CostConfig.model_fields),
        "curriculum": dict(CurriculumConfig.model_fields),
    }


def find_setting(key: str, algo: str) -> tuple[str, ...]:
    """The path of the setting that `key` means, e.g. `policy_lr.end` -> ("algo", "learning_rate", "end").

    Accepts the dotted key, a name without its section where only one section has it, and `ALIASES`; below a setting that
    is a schedule or a free mapping, the rest of the key is a path inside of it. Raises ConfigError with the nearest names.
    """
    sections = list_fields(algo)
    if key in _WHOLE or key in sections:
        return (key,)
    owners, name, rest = _find_owners(key, sections)
    if len(owners) != 1:
        raise explain_unknown(key, algo)
    _check_inside(key, sections[owners[0]][name], rest)
    return (owners[0], name, *rest)


def is_setting(key: str, algo: str) -> bool:
    """Whether an algorithm's configs have such a setting; cheaper than an error with the nearest names."""
    sections = list_fields(algo)
    if key in _WHOLE or key in sections:
        return True
    owners, name, rest = _find_owners(key, sections)
    if len(owners) != 1:
        return False
    try:
        _check_inside(key, sections[owners[0]][name], rest)
    except ConfigError:
        return False
    return True


def _find_owners(key: str, sections: Mapping[str, Mapping[str, FieldInfo]]) -> tuple[list[str], str, list[str]]:
    """The sections that have the setting, its name there, and the path inside of it."""
    first, *rest = key.split(".")
    if first in sections:
        section, first, *rest = first, *(rest or [""])
        alias = ALIASES.get(first, "").split(".")
        name = alias[1] if alias[0] == section else first
        return [section] if name in sections[section] else [], name, rest
    if first in ALIASES:
        section, name = ALIASES[first].split(".")
        return [section] if name in sections[section] else [], name, rest
    owners = [section for section in sections if first in sections[section]]
    # What is only known about the task, or belongs to a bonus or a curriculum, never hides a setting of the same name.
    return [section for section in owners if section not in ("spec", "bonus", "cost", "curriculum")] or owners, first, rest


def _check_inside(key: str, field: FieldInfo, rest: list[str]) -> None:
    """Below a number lie the keys of a schedule, below kwargs whatever the environment takes, below others nothing."""
    if not rest or _is_mapping(field.annotation):
        return
    known = [item.alias or name for name, item in Schedule.model_fields.items()]
    if kind_of(field) is Kind.NUMBER and len(rest) == 1 and rest[0] in known:
        return
    owner = key.rsplit(".", len(rest))[0]
    offered = [f"{owner}.{name}" for name in nearest(rest[0], known)] if kind_of(field) is Kind.NUMBER else []
    raise ConfigError(*_unknown_message(key, offered or [owner]))


def _is_mapping(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict or any(_is_mapping(item) for item in get_args(annotation))


def explain_unknown(key: str, algo: str, origin: str | None = None) -> ConfigError:
    """The error for a key that is no setting: names the algorithm that has it, or else the nearest keys."""
    last = key.removeprefix("algo.")
    last = ALIASES.get(last, last).removeprefix("algo.")
    others = [name for name, model in ALGORITHMS.items() if name != algo and last in model.model_fields]
    place = f" ({origin})" if origin else ""
    if key.removeprefix("data.") in DataConfig.model_fields:
        takers = [name for name, model in ALGORITHMS.items() if model.loop == "offline" or name in ADVERSARIAL]
        return ConfigError(
            f"{key}{place}: {algo} learns from what it does itself.\n  Recorded data would be ignored.\n  Try: ",
            Change("algo.name", takers[0]),
            f", or another algorithm that learns from it ({', '.join(takers[1:])})",
        )
    if last in _LEFT_OUT:
        return ConfigError(f"{key}{place}: ", *_LEFT_OUT[last])
    if others:
        # One letter away from a setting that it does have, that one is meant (n_step, n_steps).
        meant = [f"{offer}, or " for offer in _suggest(key, algo) if offer[:-1] == f"algo.{last}"]
        have_it = " and ".join(filter(None, (", ".join(others[:-1]), others[-1]))) + (" has" if len(others) == 1 else " have")
        return ConfigError(
            f"{key} is no setting of {algo}{place}; {have_it} it.\n"
            "  It would be ignored, and the run would not be the one you asked for.\n"
            f"  Try: {''.join(meant)}",
            Change("algo.name", others[0]).also(f"algo.{last}", "VALUE"),
            ", or leave it out",
        )
    return ConfigError(*_unknown_message(key, _suggest(key, algo), place))


def _unknown_message(key: str, offered: list[str], place: str = "") -> tuple[str, ...]:
    hint = (", or ".join(offered),) if offered else (Action("config show", "CONFIG"), ", which lists every key")
    return (f"{key} is no setting{place}.\n  It would be ignored, and the run would not be the one you asked for.\n  Try: ", *hint)


def _suggest(key: str, algo: str) -> list[str]:
    section, _, short = key.rpartition(".")
    targets = dict(_list_names(algo))
    by_short = {name.rpartition(".")[2]: name for name in targets.values()} | {k: v for k, v in targets.items() if "." not in k}
    offered = [by_short[name] for name in nearest(short, by_short)] + [targets[name] for name in nearest(key, targets)]
    same_section = [name for name in offered if section and name.startswith(section + ".")]
    return list(dict.fromkeys(same_section + offered))[:3]


def _list_names(algo: str) -> Iterator[tuple[str, str]]:
    """What may be written, and the dotted key that it means."""
    yield from ((name, name) for name in _WHOLE)
    for section, members in list_fields(algo).items():
        yield from ((f"{section}.{name}", f"{section}.{name}") for name in members)
    yield from ((alias, target) for alias, target in ALIASES.items() if target.split(".")[1] in list_fields(algo)[target.split(".")[0]])
