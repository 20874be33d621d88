"""Settings side by side, every default written out: what differs, in which direction, what that usually does, what follows.

A side of ours has all its settings. Another framework's log has those that were logged; for the rest the framework's own default
is taken where it is known, and marked as such. What is known on one side only is named, and never called a difference.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rlclinic.comparison import trials
from rlclinic.comparison.directions import direction_of, in_words, numeric, same, shown
from rlclinic.comparison.impacts import usual
from rlclinic.comparison.models import ConfigDiff, Course, Derived, Difference
from rlclinic.comparison.sides import Side
from rlclinic.config.schedule import Schedule, value_at
from rlclinic.runs.history import real

MISSING: Final = "not recorded"
ABSENT: Final = object()
POINTS: Final = 41
"""Of a schedule's picture."""
_IGNORED: Final = ("seed", "name", "spec.description", "spec.source")
_ORDER: Final = ("algo", "env", "net", "run", "spec")

DEFAULTS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("sb3", "ppo"): {
        "algo.learning_rate": 3e-4,
        "algo.n_steps": 2048,
        "algo.batch_size": 64,
        "algo.n_epochs": 10,
        "algo.gamma": 0.99,
        "algo.gae_lambda": 0.95,
        "algo.clip_range": 0.2,
        "algo.clip_range_vf": None,
        "algo.normalize_advantage": "batch",
        "algo.ent_coef": 0.0,
        "algo.vf_coef": 0.5,
        "algo.max_grad_norm": 0.5,
        "algo.target_kl": None,
        "env.n_envs": 1,
        "algo.optimizer": "adam",
        "algo.adam_eps": 1e-5,
        "net.hidden": [64, 64],
        "net.activation": "tanh",
        "net.shared": False,
    },
    ("sb3", "a2c"): {
        "algo.learning_rate": 7e-4,
        "algo.n_steps": 5,
        "algo.gamma": 0.99,
        "algo.gae_lambda": 1.0,
        "algo.ent_coef": 0.0,
        "algo.vf_coef": 0.5,
        "algo.max_grad_norm": 0.5,
        "algo.optimizer": "rmsprop",
        "algo.adam_eps": 1e-5,
        "algo.normalize_advantage": "off",
        "env.n_envs": 1,
        "net.hidden": [64, 64],
        "net.activation": "tanh",
        "net.shared": False,
    },
    ("cleanrl", "ppo"): {
        "algo.optimizer": "adam",
        "algo.adam_eps": 1e-5,
        "net.hidden": [64, 64],
        "net.activation": "tanh",
        "net.shared": False,
    },
}
"""What other frameworks use where nothing is said (Stable-Baselines3 2.x, CleanRL's ppo.py)."""


def diff(sides: Sequence[Side], recorded: Sequence[trials.Recorded] = ()) -> ConfigDiff:
    """What differs between the sides' settings, and the numbers that follow from them."""
    keys = _keys(sides)
    differences, alike = [], 0
    for key in keys:
        values = [_value(key, side) for side in sides]
        known = [value for value in values if value is not ABSENT]
        if all(same(known[0], value) for value in known):
            alike += len(known) == len(values)
            continue
        differences.append(_difference(key, values, sides, recorded))
    unknown = [key for key in keys if any(_value(key, side) is ABSENT for side in sides)]
    courses = [course for each in differences if (course := _course(each.key, sides)) is not None]
    return ConfigDiff(differences=differences, same=alike, derived=_derived(sides), courses=courses, notes=_notes(sides, unknown))


def _keys(sides: Sequence[Side]) -> list[str]:
    found = dict.fromkeys(key for side in sides for key in side.settings if key not in _IGNORED)
    place = {section: index for index, section in enumerate(_ORDER)}
    return sorted(found, key=lambda key: place.get(key.partition(".")[0], len(_ORDER)))


def _difference(key: str, values: Sequence[Any], sides: Sequence[Side], recorded: Sequence[trials.Recorded]) -> Difference:
    known = [value for value in values if value is not ABSENT]
    before = known[0]
    after = next(value for value in known if not same(before, value))
    way = direction_of(before, after) or "changed"
    impact = usual(key, way)
    tried, adopted = trials.tally(key, way, recorded)
    return Difference(
        key=key,
        values=[None if value is ABSENT else value for value in values],
        shown=[_shown(key, value, side) for value, side in zip(values, sides, strict=True)],
        change=in_words(before, after),
        usual=impact.text,
        cites=list(impact.cites),
        trials=tried,
        adopted=adopted,
    )


def _value(key: str, side: Side) -> Any:
    """What a side has been trained with, as far as is known."""
    return side.settings.get(key, DEFAULTS.get((side.source or "", side.algo or ""), {}).get(key, ABSENT))


def _shown(key: str, value: Any, side: Side) -> str:
    if value is ABSENT:
        # A setting of another algorithm is absent; one of a log that does not tell is unknown.
        return "–" if side.complete else MISSING
    return shown(value) if key in side.settings else f"{MISSING} ({side.source}'s default: {shown(value)})"


def _notes(sides: Sequence[Side], unknown: Sequence[str]) -> list[str]:
    partial = [side for side in sides if not side.complete]
    if not partial or not unknown:
        return []
    named = ", ".join(unknown[:6]) + (f" and {len(unknown) - 6} more" if len(unknown) > 6 else "")
    return [f"{', '.join(side.label for side in partial)} did not record every setting; known on one side only: {named}"]


def _course(key: str, sides: Sequence[Side]) -> Course | None:
    """A number over the budget; None where it stays as it is on every side."""
    values = {side.label: (_value(key, side), side.budget) for side in sides}
    if not any(isinstance(numeric(value), Schedule) for value, _ in values.values()):
        return None
    places = [place / (POINTS - 1) for place in range(POINTS)]
    lines = {label: [_at(value, place, budget) for place in places] for label, (value, budget) in values.items()}
    return Course(key=key, sides={label: [at for at in line if at is not None] for label, line in lines.items() if None not in line})


# ── what follows from the settings ──

_MEANINGS: Final = {
    "rollout": "transitions between two updates: n_envs x n_steps",
    "minibatch rows": "rows of one gradient step",
    "gradient steps per rollout": "epochs x minibatches",
    "updates in all": "rollouts in the budget",
    "gradient steps in all": "over the whole budget",
    "gradient steps per 1,000 env steps": "how hard each env step is used",
    "horizon": "env steps that rewards count ahead: 1 / (1 - gamma)",
    "GAE horizon": "env steps that advantages look ahead: 1 / (1 - gamma x lambda)",
    "rollout / GAE horizon": "below 1, advantages are cut off before they have decayed",
    "learning rate, start": "as applied at the first update",
    "learning rate, middle": "as applied at half of the budget",
    "learning rate, end": "as applied at the last update",
    "entropy coefficient, middle": "as applied at half of the budget",
    "clip range, middle": "as applied at half of the budget",
    "hidden units": "of the policy network",
    "evaluations": "in the whole run",
}


def derived(settings: Mapping[str, Any]) -> dict[str, float]:
    """Numbers that people compute by hand before they trust a config; only those whose parts are known."""
    found: dict[str, float] = {}
    envs, steps, budget = (real(settings.get(key)) for key in ("env.n_envs", "algo.n_steps", "run.max_env_steps"))
    if envs and steps:
        found["rollout"] = envs * steps
        _updates(found, settings, envs * steps, budget)
    gamma, trace = (_at(settings.get(key), 0.0, budget) for key in ("algo.gamma", "algo.gae_lambda"))
    if gamma is not None and gamma < 1:
        found["horizon"] = 1 / (1 - gamma)
    if gamma is not None and trace is not None and gamma * trace < 1:
        found["GAE horizon"] = 1 / (1 - gamma * trace)
        if steps:
            found["rollout / GAE horizon"] = steps * (1 - gamma * trace)
    places = (("learning rate, start", 0.0), ("learning rate, middle", 0.5), ("learning rate, end", 1.0))
    wanted = [(name, "algo.learning_rate", share) for name, share in places]
    wanted += [("entropy coefficient, middle", "algo.ent_coef", 0.5), ("clip range, middle", "algo.clip_range", 0.5)]
    for name, key, share in wanted:
        value = _at(settings.get(key), share, budget)
        if value is not None:
            found[name] = value
    hidden = settings.get("net.hidden")
    if isinstance(hidden, list | tuple) and all(real(width) is not None for width in hidden):
        found["hidden units"] = float(sum(hidden))
    every = real(settings.get("run.eval_every_env_steps"))
    if every and budget:
        found["evaluations"] = float(math.ceil(budget / every))
    return found


def _updates(found: dict[str, float], settings: Mapping[str, Any], rollout: float, budget: float | None) -> None:
    batch, epochs = real(settings.get("algo.batch_size")), real(settings.get("algo.n_epochs"))
    if settings.get("algo.name") in ("a2c", "reinforce"):
        batch, epochs = rollout, 1.0
    if batch is None or epochs is None:
        return
    rows = max(1.0, round(batch * rollout)) if batch <= 1 else batch
    found["minibatch rows"] = rows
    per_rollout = epochs * math.ceil(rollout / rows)
    found["gradient steps per rollout"] = per_rollout
    found["gradient steps per 1,000 env steps"] = 1_000 * per_rollout / rollout
    if budget:
        found["updates in all"] = float(math.ceil(budget / rollout))
        found["gradient steps in all"] = math.ceil(budget / rollout) * per_rollout


def _at(value: Any, share: float, budget: float | None) -> float | None:
    """A number or schedule after a share of the budget; a schedule without a budget is read as if of a million env steps."""
    made = numeric(value)
    if made is None or isinstance(value, bool):
        return None
    whole = int(budget or 1_000_000)
    return value_at(made, share * whole, whole)


def _derived(sides: Sequence[Side]) -> list[Derived]:
    columns = [derived(side.settings) for side in sides]
    rows = []
    for name, meaning in _MEANINGS.items():
        values = [column.get(name) for column in columns]
        known = [value for value in values if value is not None]
        if known:
            apart = any(not math.isclose(value, known[0], rel_tol=1e-9, abs_tol=1e-12) for value in known)
            rows.append(Derived(name=name, meaning=meaning, values=values, differs=apart))
    return rows
