"""A prescription in the words of the library imitation, whose learners train a model of Stable-Baselines3."""

from collections.abc import Mapping
from typing import Any, Final

from rlclinic.config import Config
from rlclinic.treatment.prescription.translate.replay import first_number, to_python

TRAINERS: Final = {"bc": "bc.BC", "dagger": "SimpleDAggerTrainer", "gail": "GAIL", "airl": "AIRL"}
_WORDS: Final = {
    "bc": {"batch_size": "batch_size", "ent_coef": "ent_weight", "weight_decay": "l2_weight"},
    "gail": {"reward_steps": "n_disc_updates_per_round"},
    "airl": {"reward_steps": "n_disc_updates_per_round"},
}
_RATES: Final = {
    ("bc", "learning_rate"): "optimizer_kwargs",
    ("gail", "reward_lr"): "disc_opt_kwargs",
    ("airl", "reward_lr"): "disc_opt_kwargs",
}
ABSORBING: Final = "env = seals.util.AbsorbAfterDoneWrapper(env)  # around each environment, and in the demonstrations"


def spell(changes: Mapping[str, Any], after: Config) -> tuple[str, dict[str, Any]]:
    """The changes that a trainer takes, in its words, and those that are the generator's, which is a model of SB3."""
    algo, arguments = after.algo.name, dict[str, str]()
    lines: list[str] = []
    others: dict[str, Any] = {}
    for setting, value in changes.items():
        section, _, name = setting.partition(".")
        if section == "algo" and (algo, name) in _RATES:
            arguments[_RATES[algo, name]] = f"dict(lr={to_python(first_number(value))})"
        elif section == "algo" and name in _WORDS.get(algo, {}):
            arguments[_WORDS[algo][name]] = to_python(first_number(value))
        elif setting == "algo.beta":
            # Rounds count from 0, and in the first one the expert acts in any case.
            arguments["beta_schedule"] = f"lambda round_num: 1.0 if round_num == 0 else {to_python(first_number(value))}"
        elif setting == "algo.horizon":
            lines.append(ABSORBING if value == "absorbing" else "# allow_variable_horizon=True")
        elif setting in ("algo.n_epochs", "run.max_env_steps") and algo == "bc":
            lines.append(f"trainer.train({'n_epochs' if name == 'n_epochs' else 'n_batches'}={value})")
        elif setting == "algo.n_epochs" and algo == "dagger":
            lines.append(f"trainer.train(..., bc_train_kwargs=dict(n_epochs={value}))")
        elif algo in ("gail", "airl") and name not in ("gradient_penalty", "reward_hidden"):
            others[setting] = value
        else:
            lines.append(f"# imitation has no argument for {name}: {to_python(value)}")
    call = [f"{TRAINERS[algo]}(..., {', '.join(f'{word}={value}' for word, value in arguments.items())})"] if arguments else []
    return "; ".join([*call, *lines]), others
