"""Numbers that follow from the settings, and that people compute by hand before they trust a config."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rlclinic.comparison.directions import numeric
from rlclinic.comparison.models import Derived
from rlclinic.comparison.sides import Side
from rlclinic.config.schedule import value_at
from rlclinic.runs.coerce import real

_MEANINGS: Final = {
    "rollout": "transitions between two updates: n_envs x n_steps",
    "minibatch rows": "rows of one gradient step",
    "gradient steps per rollout": "epochs x minibatches",
    "updates in all": "rollouts in the budget",
    "gradient steps in all": "over the whole budget",
    "gradient steps per 1,000 env steps": "how hard each env step is used",
    "times each transition is drawn": "gradient steps per env step x minibatch rows",
    "replay": "share of the budget that the buffer holds",
    "learning starts": "share of the budget that passes before the first gradient step",
    "target lag": "env steps that the target network lies behind: the interval of its copies, or 1 / tau gradient steps",
    "exploration ends": "share of the budget after which epsilon no longer falls",
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
_COPIED: Final = ("dqn", "q_learning")
"""Their target is renewed every so many env steps; that of the others with gradient steps."""


def rows(sides: Sequence[Side]) -> list[Derived]:
    """Every number that at least one side has."""
    columns = [derived(side.settings) for side in sides]
    found = []
    for name, meaning in _MEANINGS.items():
        values = [column.get(name) for column in columns]
        known = [value for value in values if value is not None]
        if known:
            apart = any(not math.isclose(value, known[0], rel_tol=1e-9, abs_tol=1e-12) for value in known)
            found.append(Derived(name=name, meaning=meaning, values=values, differs=apart))
    return found


def derived(settings: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one side; only those whose parts are known."""
    found: dict[str, float] = {}
    envs, steps, budget = (real(settings.get(key)) for key in ("env.n_envs", "algo.n_steps", "run.max_env_steps"))
    if envs and settings.get("algo.buffer_size") is not None:
        _replay(found, settings, envs, budget)
    elif envs and steps:
        found["rollout"] = envs * steps
        _updates(found, settings, envs * steps, budget)
    gamma, trace = (at(settings.get(key), 0.0, budget) for key in ("algo.gamma", "algo.gae_lambda"))
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
        value = at(settings.get(key), share, budget)
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
    size = max(1.0, round(batch * rollout)) if batch <= 1 else batch
    found["minibatch rows"] = size
    per_rollout = epochs * math.ceil(rollout / size)
    found["gradient steps per rollout"] = per_rollout
    found["gradient steps per 1,000 env steps"] = 1_000 * per_rollout / rollout
    if budget:
        found["updates in all"] = float(math.ceil(budget / rollout))
        found["gradient steps in all"] = math.ceil(budget / rollout) * per_rollout


def _replay(found: dict[str, float], settings: Mapping[str, Any], envs: float, budget: float | None) -> None:
    """Of a learner with a replay: how hard each transition is used, how much is kept, how old the targets are."""
    size, batch, every, steps, starts = (
        real(settings.get(f"algo.{name}")) for name in ("buffer_size", "batch_size", "train_freq", "gradient_steps", "learning_starts")
    )
    per_step = None
    if every and steps is not None:
        per_step = 1.0 if steps < 0 else steps / (every * envs)
        found["gradient steps per 1,000 env steps"] = 1_000 * per_step
    if batch is not None:
        found["minibatch rows"] = batch
        if per_step is not None:
            found["times each transition is drawn"] = per_step * batch
    if budget and size is not None:
        found["replay"] = min(size / budget, 1.0)
    if budget and starts is not None:
        found["learning starts"] = starts / budget
        if per_step is not None:
            found["gradient steps in all"] = math.floor(max(budget - starts, 0) * per_step)
    lag = _lag(settings, per_step)
    if lag is not None:
        found["target lag"] = lag
    explores = real(settings.get("algo.exploration_fraction"))
    if explores is not None:
        found["exploration ends"] = explores


def _lag(settings: Mapping[str, Any], per_step: float | None) -> float | None:
    """Env steps that a target network lies behind its own."""
    share, every = at(settings.get("algo.tau"), 0.0, None), real(settings.get("algo.target_update_interval")) or 1.0
    if not share:
        return None
    if settings.get("algo.name") in _COPIED:
        return every / share
    apart = real(settings.get("algo.policy_delay")) or every
    return apart / share / per_step if per_step else None


def at(value: Any, share: float, budget: float | None) -> float | None:
    """A number or schedule after a share of the budget; a schedule without a budget is read as if of a million env steps."""
    made = numeric(value)
    if made is None or isinstance(value, bool):
        return None
    whole = int(budget or 1_000_000)
    return value_at(made, share * whole, whole)
