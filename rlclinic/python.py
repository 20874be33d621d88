"""The Python interface: train in this process, load what was trained, diagnose it, try a cure on fresh seeds, race configs."""

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlclinic import own_code, trust
from rlclinic.errors import UsageError
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.config import Config
    from rlclinic.diagnosis.findings import Diagnosis
    from rlclinic.diagnosis.lint.env import EnvLint
    from rlclinic.ops.compare.compare import Comparison
    from rlclinic.report.ask import AskAnswer
    from rlclinic.report.models import DataAdvice
    from rlclinic.report.prescription import Prescriptions
    from rlclinic.treatment.race.models import Race
    from rlclinic.treatment.trial.models import Trial

Callback = Callable[[dict[str, Any]], bool | None]


def train(
    config: "str | Config | Mapping[str, Any]",
    env: Any = None,
    callback: Callback | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    overrides: Sequence[str] = (),
    runs_dir: str | Path = "runs",
) -> Group:
    """Train in this process and return the group, with one run per seed.

    config: `"CartPole-v1:ppo"`, a YAML path, a Config, or a mapping nested as in YAML. overrides are `key=value` texts.
    env: your own environment: an id, a gymnasium.Env class, or a function that returns a new one each time. It is made once per
    copy, so an instance will not do.
    callback: called with every logged row (a dict with `run` and the columns of metrics.csv); return False to stop.
    seeds: how many (counted from the config's seed), or which.
    """
    made = _config(config, env, list(overrides))
    wanted = range(made.seed, made.seed + seeds) if isinstance(seeds, int) else seeds
    store = Store(runs_dir)
    own = None if env is None or isinstance(env, str) or _importable(env) is not None else own_code.describe_object(env)
    extra = None if own is None else {"env_code": own_code.to_record([own], store.root)}
    group = store.create_group([made.model_copy(update={"seed": int(seed)}) for seed in wanted], extra=extra)
    # Imported late: reading runs needs no torch.
    from rlclinic.training.__main__ import train_runs

    # Other ranks make it by themselves, from its name.
    by_name = env is None or isinstance(env, str) or (made.run.data_parallel > 1 and _importable(env) is not None)
    train_runs(group.runs, factory=None if by_name else env, callback=callback)
    return group


def lint_env(env: Any, *, seconds: float = 20.0, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> "EnvLint":
    """Look at an environment for some seconds and say what is wrong with it, before anything is trained on it.

    env: an id or `file.py:Class` (looked at in a process of its own), a gymnasium.Env class, a function that returns a new one each
    time, or an instance (then nothing can be said about how copies behave side by side).
    """
    from rlclinic.ops.diagnose import lint

    if isinstance(env, str):
        return lint.lint_env(env, seconds=seconds, select=select, ignore=ignore).lint
    return lint.lint_env_object(env, seconds=seconds, select=select, ignore=ignore)


def ask(question: str, *, runs_dir: str | Path = "runs") -> "AskAnswer":
    """A question in plain words: what is meant, what the store says about it in numbers, and what to type.

    `known` is False where nothing here answers it.
    """
    from rlclinic.ops.diagnose.ask.answer import ask
    from rlclinic.ops.diagnose.requests import AskRequest

    return ask(AskRequest(question=question, runs_dir=Path(runs_dir)))


def advise_data(data: str | Path, *, env: str | None = None, budget: int | None = None, **options: Any) -> "DataAdvice":
    """Which way suits recorded data: imitation, offline RL, online RL, or both; each reason with its number and where it comes from.

    env: if it can be acted in; its code is run. budget: env steps that may be taken in it. options are the fields of
    rlclinic.ops.data.requests.AdviseRequest: expert_seconds, random_return, good_return, ...
    """
    from rlclinic.ops.data.advise import advise
    from rlclinic.ops.data.requests import AdviseRequest

    return advise(AdviseRequest(data=str(data), env=env, budget=budget, **options))


def load_run(path: str | Path) -> Run:
    """A run by its folder, or by a selector such as `@last` or a unique beginning of its id."""
    return Run(path) if (Path(path) / "config.json").exists() else Store().run(str(path))


def load_group(path: str | Path = "@last") -> Group:
    """A group by its folder, or by a selector such as `@last`."""
    return Group(path) if (Path(path) / "group.json").exists() else Store().group(str(path))


def diagnose(
    target: "str | Path | Group | Run" = "@last",
    *,
    threshold: float | None = None,
    budget: int | None = None,
    env: Any = None,
    eval_env: Any = None,
) -> "Diagnosis":
    """Why a group (or run, or another framework's folder or log) does not learn: ranked causes with evidence. Writes nothing.

    threshold and budget: where the log does not say what counts as solved, or how many env steps were planned. env: examine the
    environment, too, whose code is run: an id, "file.py:Class", an environment, its class, or a function that makes one. eval_env: the
    one of evaluation, which is compared with it.
    """
    from rlclinic.ops.diagnose.diagnose import diagnose

    report = diagnose(
        _selector(target), _root(target), threshold=threshold, budget=budget, write=False, env=env, eval_env=eval_env, own_env=True
    )
    return report.diagnosis


def prescribe(target: "str | Path | Group | Run" = "@last") -> "Prescriptions":
    """What to change: at most three patches of one or two settings, computed from the run's own numbers."""
    from rlclinic.ops.diagnose.prescribe import prescribe

    return prescribe(_selector(target), _root(target))


def compare(*targets: "str | Path | Group | Run") -> "Comparison":
    """Groups, runs, foreign folders, YAML files or variants side by side; the first is what the others are compared with."""
    from rlclinic.ops.compare.compare import compare

    return compare([_selector(target) for target in targets], _root(targets[0]) if targets else Path("runs"))


def trial(target: "str | Path | Group" = "@last", *others: "str | Path | Group", rx: Sequence[int] = (1,), **options: Any) -> "Trial":
    """Try prescriptions of a group against its own config on fresh seeds, in processes of their own; blocks until the verdict.

    With `others`, the first config against them; with changes=["algo.gamma=0.9"], a change of one's own; with envs=["CartPole-v1",
    "Acrobot-v1"], in several environments with one verdict. options are the fields of rlclinic.ops.treat.trial.TrialRequest: outcome,
    per_look, looks, alpha, margin, seed0, max_env_steps, ...
    """
    from rlclinic.ops.treat import trial

    root = _root(target)
    targets = [_selector(compared) for compared in (target, *others)]
    # The first prescription is what is tried where nothing else is said.
    chosen = [] if (others or options.get("changes")) and tuple(rx) == (1,) else list(rx)
    preview = trial.plan_trial(trial.TrialRequest(targets=targets, rx=chosen, runs_dir=root, **options))
    return trial.run_trial(preview, root).trial


def race(*targets: "str | Path | Group", values: "Mapping[str, Sequence[Any]] | None" = None, **options: Any) -> "Race":
    """Find out which of many configs is best, or which values of one config's settings; blocks until the ranking.

        rlclinic.race("a.yaml", "b.yaml", "c.yaml")
        rlclinic.race(group, values={"algo.learning_rate": [1e-4, 3e-4, 1e-3]}, budget=3_000_000)

    options are the fields of rlclinic.ops.treat.requests.RaceRequest: outcome, rounds, per_round, budget, alpha, seed0, max_env_steps, ...
    """
    from rlclinic.ops.treat import race
    from rlclinic.ops.treat.requests import RaceRequest

    root = _root(targets[0]) if targets else Path("runs")
    options = {"runs_dir": root, **options}
    changes = [f"{key}={json.dumps(list(each))}" for key, each in (values or {}).items()]
    preview = race.plan_race(RaceRequest(targets=[_selector(target) for target in targets], changes=changes, **options))
    return race.run_race(preview, options["runs_dir"]).race


def _selector(target: "str | Path | Group | Run") -> str:
    return target.id if isinstance(target, Group | Run) else str(target)


def _root(target: "str | Path | Group | Run") -> Path:
    if isinstance(target, Group):
        return target.path.parent.parent
    return target.path.parent if isinstance(target, Run) else Path("runs")


def _config(config: "str | Config | Mapping[str, Any]", env: Any, overrides: list[str]) -> "Config":
    from rlclinic.config import Config, files, from_record, set_values

    if env is not None and not isinstance(env, str) and not callable(env):
        raise UsageError(
            f"env is a {type(env).__name__}, but every copy needs an environment of its own.\n"
            f"  One instance stepped by several copies would mix their episodes.\n"
            f"  Pass the class or a function: rlclinic.train(config, env=lambda: MyEnv())"
        )
    # Under a name that others can import, the run can be played, resumed and tried again without this object.
    if (named := env if isinstance(env, str) else _importable(env)) is not None:
        overrides = [f"env.id={named}", *overrides]
    made = (
        files.load(config, overrides).config
        if isinstance(config, str)
        else set_values(config if isinstance(config, Config) else from_record(config), overrides)
    )
    trust.approve(*trust.names_in(made.env))
    if env is None or isinstance(env, str):
        files.check_environment(made.env.id)
    return made


def _importable(env: Any) -> str | None:
    """`module:Name` of a class or function of its own module that makes one environment; None for lambdas, scripts and vectors."""
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", "")
    there: Any = getattr(sys.modules.get(module or ""), name, None)
    if not callable(env) or module == "__main__" or not name.isidentifier() or there != env:
        return None
    vector = sys.modules.get("gymnasium.vector")
    makes_many = vector is not None and isinstance(env, type) and issubclass(env, vector.VectorEnv)
    return None if makes_many or "num_envs" in inspect.signature(env).parameters else f"{module}:{name}"
