"""What `train` is going to do: configs, seeds, parents and cores, all checked before anything is created."""

import importlib.util
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from rlclinic import datasets, trust
from rlclinic.actions import Action, Argument
from rlclinic.config import ADVERSARIAL, Config, OffPolicyConfig, OnPolicyConfig, files
from rlclinic.config.corrections import refusal
from rlclinic.config.overrides import TYPED, set_values
from rlclinic.config.schedule import Schedule
from rlclinic.errors import ConfigError, NotFound, RunBusy, UsageError
from rlclinic.ops.train import suitability
from rlclinic.ops.train.machine import check_engine, idle_cores, usable_cores
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.report.format import count, frames, listed, plural, short
from rlclinic.runs import env_code, selector
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

ASK_ABOVE_ENV_STEPS = 1_000_000_000
"""From this many env steps over all seeds on, `train` asks first: hours of a whole machine."""
_YAML = (".yaml", ".yml")

Start = Literal["fork", "extend", "init"]


@dataclass(frozen=True)
class TrainPlan:
    """A checked request: either runs to create or runs to resume."""

    request: TrainRequest
    configs: list[Config] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    start: Start | None = None
    parents: list[str] = field(default_factory=list)
    """RUN@STEP for each config, or empty."""
    parent: str | None = None
    """What the group came from."""
    prescription: str | None = None
    """The prescription that was applied, in words."""
    repeats: str | None = None
    """The run or group whose config is trained anew: its weights are not taken over."""
    study: str | None = None
    """The study that the runs belong to."""
    resumed: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was assumed on the way."""
    unseen_code: bool = False
    """The code of an own environment that no run was trained on before, or that has changed since."""

    @property
    def question(self) -> str | None:
        """What to ask before so much is spent; None if it is little."""
        total = sum(config.run.max_env_steps for config in self.configs)
        if total < ASK_ABOVE_ENV_STEPS:
            return None
        each = count(self.configs[0].run.max_env_steps)
        games = frames(total, self.configs[0].env.frames_per_step)
        return f"This trains {plural(len(self.configs), 'seed')} x {each} = {short(total)} {self.configs[0].step_unit}{games}. Start?"


def plan_training(request: TrainRequest) -> TrainPlan:
    """Decide what to train, or say what is wrong with the request; nothing is written."""
    check_installed()
    planned = _plan(request, Store(request.runs_dir)) if request.rx is None else _plan_prescribed(request)
    for env_id in {config.env.id: None for config in planned.configs}:
        files.check_environment(env_id)
    trust.check_envs([*(config.env for config in planned.configs), *(run.config.env for run in planned.resumed)])
    configs = [*planned.configs, *(run.config for run in planned.resumed)]
    for config in configs[:1]:
        check_engine(config)
    check_data(configs[:1])
    if planned.origins.get("algo.name", "").startswith(files.DEFAULTS.name):
        check_actions(planned.configs[:1])
    for run in planned.resumed:
        trust.check(*_code_of(getattr(run.config.algo, "expert", "")))
    planned = replace(planned, configs=[_with_expert(config, Store(request.runs_dir)) for config in planned.configs])
    return _with_cores(planned)


def check_data(configs: Iterable[Config]) -> None:
    """UsageError where an algorithm that learns from recorded data has none; NotFound where it is not there, or what is wrong with it.

    Data of another environment than the one that is trained on, or of none that it names, is held to it before anything is spent. The
    environments' code must have been approved.
    """
    strangers: dict[tuple[str, str], Config] = {}
    for config in configs:
        if not (config.offline or config.algo.name in ADVERSARIAL):
            continue
        if config.data is None or not config.data.path:
            raise UsageError(
                f"{config.algo.name} learns from recorded data, and none is named.\n  Name it: ",
                Action("train", config.name or f"{config.env.id}:{config.algo.name}", data="DATA"),
                "\n  Collect some: ",
                Action("data collect", "RUN", episodes=100, noise=0.3),
            )
        path, named = datasets.formats.find(config.data.path), None
        if (path / datasets.folder.ABOUT).exists():  # it stays on disk: opening it costs nothing, and a damaged one need not cost a run
            named = datasets.folder.read(path).env_id
        env = config.env
        if named != env.id or env.wrappers or env.kwargs or env.frame_stack > 1 or env.time_in_obs:
            strangers.setdefault((config.env.id, str(path)), config)
    if strangers and (problem := suitability.find_problem(list(strangers.values()))) is not None:
        raise ConfigError(problem[1])


def check_actions(configs: Sequence[Config]) -> None:
    """ConfigError where an algorithm that nobody has set up for an environment cannot choose its actions: before a run is made.

    PPO and its relatives take any actions, so only algorithms with a replay or a table are held to their environment.
    """
    choosy = [config for config in configs if isinstance(config.algo, OffPolicyConfig)]
    if choosy and (problem := suitability.find_problem(choosy)) is not None:
        raise ConfigError(problem[1])


def _code_of(expert: str) -> list[str]:
    """The code that asking an expert runs."""
    return [expert] if expert.startswith(trust.COMMAND) or trust.names_code(expert) else []


def _with_expert(config: Config, store: Store) -> Config:
    """The config with its expert found: code that somebody has approved, or a checkpoint by its own name."""
    expert = getattr(config.algo, "expert", None)
    if expert is None or expert == "person":
        return config
    if not expert:
        raise UsageError(
            f"{config.algo.name} asks an expert what to do, and none is named.\n  There would be nobody to imitate.\n  Type: ",
            Action("train", config.name or f"{config.env.id}:{config.algo.name}", expert="RUN|my.py:function|person"),
        )
    if code := _code_of(expert):
        trust.check(*code)
        return config
    found = store.resolve(expert, prefer="run")
    checkpoint = found if isinstance(found, Checkpoint) else _best_or_last(store.run(expert))
    return config.model_copy(update={"algo": config.algo.model_copy(update={"expert": _name(checkpoint)})})


def _with_cores(planned: TrainPlan) -> TrainPlan:
    """Idle cores for new runs that can use them. Part of the config, so kept by every resume."""
    if not planned.configs or planned.start is not None or planned.parent is not None:
        return planned
    given = {"run.threads": planned.request.threads, "env.workers": planned.request.env_workers}
    free = {name for name, value in given.items() if value is None and planned.origins.get(name, "default") == "default"}
    configs, notes = share_out(planned.configs, usable_cores(), idle_cores(), free)
    return replace(planned, configs=configs, notes=[*planned.notes, *notes])


def _plan_prescribed(request: TrainRequest) -> TrainPlan:
    """A group trained anew with one of its prescriptions, untried."""
    from rlclinic.ops.diagnose.prescribe import prescribe  # a plain training need not wait for a diagnosis

    if request.ref is None or request.resume is not None or request.init_from is not None:
        raise UsageError(
            Argument("rx"),
            " is a prescription for a run or group, which is trained anew with it.\n  Without one there is nothing to change.\n  Type: ",
            Action("train", "GROUP", rx=1),
        )
    rx = prescribe(request.ref, request.runs_dir).find(request.rx or 1)
    if not rx.trialable:
        raise UsageError(f"prescription {rx.number} ({rx.title}) changes no setting.\n  It would only repeat the run.\n  {rx.rationale}")
    plan = _plan(request.model_copy(update={"changes": [*rx.overrides, *request.changes], "rx": None}), Store(request.runs_dir))
    return replace(plan, prescription=f"rx{rx.number} for {rx.cause}: {rx.title}", notes=[*plan.notes, f"rx {rx.number}: {rx.title}"])


def _plan(request: TrainRequest, store: Store) -> TrainPlan:
    if request.resume is not None:
        return _plan_resume(request, store)
    if request.ref is None and request.init_from is None:
        raise UsageError(
            "train needs something to train.\n  Type for example: ",
            Action("train", "CartPole-v1:ppo", seeds=8),
            "\n  See what there is: ",
            Action("envs"),
        )
    source = _selected(store, request.ref)
    if source is None:
        return _plan_fresh(request, store)
    if isinstance(source, list):
        return _plan_fork(request, source)
    return _plan_repeat(request, store, source)


def flag_changes(request: TrainRequest) -> list[str]:
    """--set values, then the flags that are settings too: a flag says it most plainly, so it wins."""
    flags: dict[str, Any] = {
        "algo.expert": request.expert,
        **_budget_of(request.queries),
        **({} if request.max_env_steps is None else {"run.max_env_steps": request.max_env_steps}),
        "data.path": None if request.data is None else str(datasets.formats.find(request.data).resolve()),
        "data.then_online": "true" if request.then_online else None,
        "env.workers": request.env_workers,
        "run.device": request.device,
        "run.engine": request.engine or engine_on(request.device, request.changes),
        "run.threads": request.threads,
        **({} if request.scale_batch else _ranks_of(request)),
        "run.tensorboard": "true" if request.tensorboard else None,
        "run.save_replay": None if request.save_replay else "false",
    }
    return [*request.changes, *(f"{key}={value}" for key, value in flags.items() if value is not None)]


def _ranks_of(request: TrainRequest) -> dict[str, Any]:
    """Settings of training with several ranks."""
    return {
        "run.data_parallel": request.data_parallel,
        "run.shard_optimizer": "true" if request.shard_optimizer else None,
        "run.shard_weights": "true" if request.shard_weights else None,
        "run.allow_slower": "true" if request.force else None,
    }


def _scale_batch(request: TrainRequest, config: Config) -> tuple[Config, list[str]]:
    """N times the environments and minibatches for N ranks, and a learning rate to match; also what was changed, in words.

    The learning rate grows with the root of the batch for rules that divide by the root of squared gradients, and with the batch for SGD.
    """
    if not request.scale_batch:
        return config, []
    ranks = request.data_parallel or config.run.data_parallel
    if ranks == 1 or not isinstance(config.algo, OnPolicyConfig):
        raise UsageError(
            Argument("scale_batch"),
            " takes N times the environments for N ranks, and there is one.\n  Nothing would change.\n  Type: ",
            Action("train", request.ref or "CartPole-v1:ppo", data_parallel=2, scale_batch=True),
        )
    factor = ranks if config.algo.optimizer == "sgd" else ranks**0.5
    changes = {"env.n_envs": str(config.env.n_envs * ranks)}
    if (size := getattr(config.algo, "batch_size", 1)) > 1:
        changes["algo.batch_size"] = str(int(size) * ranks)
    for name in ("learning_rate", "value_lr"):
        if (rate := getattr(config.algo, name)) is not None:
            changes[f"algo.{name}"] = json.dumps(rate * factor if isinstance(rate, float | int) else _scale_schedule(rate, factor))
    own = {key: str(value) for key, value in _ranks_of(request).items() if value is not None}
    made = set_values(config, [f"{key}={value}" for key, value in {**changes, **own}.items()])
    return made, [f"batch scaled for {ranks} ranks: " + ", ".join(f"{key}={value}" for key, value in changes.items())]


def _scale_schedule(rate: Schedule, factor: float) -> dict[str, Any]:
    """A schedule whose values are so many times as large, at the same times."""
    given = rate.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    scaled: dict[str, Any] = {name: given[name] * factor for name in ("start", "end", "min", "max") if name in given}
    points = {"points": [[at, value * factor] for at, value in rate.points]} if rate.points else {}
    return {**given, **scaled, **points}


def _budget_of(queries: str | None) -> dict[str, int]:
    """Settings for so many questions to an expert: 1600, or 16x100."""
    if queries is None:
        return {}
    rounds, _, steps = queries.partition("x")
    if not steps:
        return {"algo.max_queries": int(rounds)}
    total = int(rounds) * int(steps)
    if not total:
        raise UsageError(Argument("queries", queries), " is no question at all.\n  Type for example: ", Argument("queries", "16x100"))
    return {
        "env.n_envs": 1,
        "algo.train_freq": int(steps),
        "algo.max_queries": total,
        "run.max_env_steps": total,
        "run.eval_every_env_steps": int(steps),
    }


def _change(config: Config, changes: Sequence[str]) -> Config:
    """The config with changes; code that they name, rather than the run, is approved by whoever typed them."""
    changed = set_values(config, changes)
    trust.approve_new(config.env, changed.env)
    if (expert := getattr(changed.algo, "expert", "")) != getattr(config.algo, "expert", ""):
        trust.approve(*_code_of(expert))
    return changed


def engine_on(device: str | None, changes: Sequence[str]) -> str | None:
    """`auto` for who asks for a GPU and no engine: operation by operation it would mostly wait."""
    fast = device in ("cuda", "auto") and not any(change.startswith(("run.engine=", "engine=")) for change in changes)
    return "auto" if fast else None


def check_installed() -> None:
    """UsageError where a package that training needs is missing."""
    missing = [name for name in ("torch", "gymnasium") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"training needs {' and '.join(missing)}, which is not installed.\n  Type: pip install 'rlclinic[train]'")


def _selected(store: Store, ref: str | None) -> Run | Group | list[Checkpoint] | None:
    """The run, group or checkpoints that `ref` names; None if it is the name of a config."""
    if ref is None or ref.partition(":")[0].endswith(_YAML):
        return None
    if "@" in ref:
        return _checkpoints(store, ref) if selector.ID.match(ref) or "/" in ref else _run_or_group(store.resolve(ref))
    if not selector.has_slash(ref) and not selector.ID.fullmatch(ref):
        return None  # CartPole-v1:ppo
    try:
        return _run_or_group(store.resolve(ref))
    except NotFound:
        return None  # an unknown name is for the configs to explain


def _run_or_group(selected: Run | Group | Checkpoint) -> Run | Group | list[Checkpoint]:
    return [selected] if isinstance(selected, Checkpoint) else selected


def _checkpoints(store: Store, ref: str) -> Run | Group | list[Checkpoint]:
    """RUN@STEP; GROUP@last and GROUP@best mean every member's own."""
    parsed = selector.parse(ref)
    if parsed.checkpoint is not None and not parsed.base.startswith("@"):
        base = store.resolve(parsed.base)
        if isinstance(base, Group):
            return [run.checkpoint(parsed.checkpoint) for run in base.runs]
    return _run_or_group(store.resolve(ref))


def _seeds(request: TrainRequest, usual: Sequence[int]) -> list[int]:
    if request.seed is None and request.seeds is None:
        return list(usual)
    first = usual[0] if request.seed is None else request.seed
    return list(range(first, first + (request.seeds or 1)))


def _with_seeds(config: Config, seeds: Sequence[int]) -> list[Config]:
    return [config.model_copy(update={"seed": seed}) for seed in seeds]


def _plan_fresh(request: TrainRequest, store: Store) -> TrainPlan:
    """A new group of a config from a file (or, with --init-from alone, of the parent's config)."""
    if request.ref is None:
        config, origins, notes = _initial(store, request).run.config, {}, []
        config = _change(config, flag_changes(request))
    else:
        loaded = files.load(request.ref, flag_changes(request))
        trust.approve(*trust.names_in(loaded.config.env), *_code_of(getattr(loaded.config.algo, "expert", "")))
        config, origins, notes = loaded.config, dict(loaded.origins), list(loaded.notes)
    loaded_config, (config, scaled) = config, _scale_batch(request, config)
    origins, notes = {**origins, **(_changed(loaded_config, config) if scaled else {})}, [*_overruled(request), *notes, *scaled]
    if config.env.frames_per_step is not None:
        games = frames(config.run.max_env_steps, config.env.frames_per_step)
        notes.append(f"one env step is {plural(config.env.frames_per_step, 'frame')}: {count(config.run.max_env_steps)} env steps{games}")
    plan = _with_start(request, store, _with_seeds(config, _seeds(request, [config.seed])), origins)
    return replace(plan, notes=notes, unseen_code=trust.names_code(config.env.id))


def _overruled(request: TrainRequest) -> list[str]:
    """A budget that was set beside the flag for it, and is not what is trained."""
    typed = [change for change in request.changes if change.partition("=")[0] == "run.max_env_steps"]
    budget = request.max_env_steps
    return [] if not typed or budget is None else [f"{Argument('max_env_steps', budget)} stands; {typed[-1]} is not used"]


def _plan_repeat(request: TrainRequest, store: Store, source: Run | Group) -> TrainPlan:
    """A new group with the config of an old one, on the same seeds unless told otherwise."""
    runs = source.runs if isinstance(source, Group) else [source]
    config, scaled = _scale_batch(request, _change(source.config, flag_changes(request)))
    notes = scaled + _check_code(
        source, source.config, config, "this trains in another environment than {} did: returns may differ for that alone"
    )
    origins = {**(runs[0].record.get("origins") or {}), **_changed(source.config, config)}
    plan = _with_start(request, store, _with_seeds(config, _seeds(request, [run.seed for run in runs])), origins)
    return replace(plan, repeats=source.id, notes=[*plan.notes, *notes], unseen_code=len(notes) > len(scaled))


def _with_start(request: TrainRequest, store: Store, configs: list[Config], origins: dict[str, str]) -> TrainPlan:
    if request.init_from is None:
        return TrainPlan(request, configs, origins)
    source = _name(_initial(store, request))
    return TrainPlan(request, configs, origins, start="init", parents=[source] * len(configs), parent=source)


def _initial(store: Store, request: TrainRequest) -> Checkpoint:
    """The checkpoint that --init-from means: the best one unless another is named."""
    assert request.init_from is not None
    selected = store.resolve(request.init_from, prefer="run")
    if isinstance(selected, Checkpoint):
        return selected
    return _best_or_last(store.run(request.init_from))


def _best_or_last(run: Run) -> Checkpoint:
    kept = run.checkpoints
    best = next((checkpoint for checkpoint in kept if checkpoint.best), None)
    return best or run.checkpoint("@last")


def _plan_fork(request: TrainRequest, checkpoints: Sequence[Checkpoint]) -> TrainPlan:
    """Children that go on from checkpoints, with changes; without any they repeat their parents bit for bit."""
    if request.init_from is not None:
        raise UsageError(
            "a fork already starts from a checkpoint; ", Argument("init_from"), " would replace its weights.\n  Type one of the two"
        )
    changes = flag_changes(request)
    configs, parents = [], []
    notes: list[str] = []
    for checkpoint in checkpoints:
        _check_meaning(checkpoint.run)
        before = _as_adjusted(checkpoint)
        config = _change(before, changes)
        notes += _check_code(checkpoint.run, before, config, "it goes on in another environment, and repeats its parent no longer")
        if config.run.max_env_steps < checkpoint.step:
            raise UsageError(
                f"{_name(checkpoint)} lies behind a budget of {count(config.run.max_env_steps)} {config.step_unit}.\n"
                "  There would be nothing left to train, and schedules would be past their end.\n"
                "  Try: ",
                Argument("max_env_steps", 2 * checkpoint.step),
                ", or an earlier checkpoint: ",
                Action("runs checkpoints", checkpoint.run.id),
            )
        seeds = _seeds(request, [checkpoint.run.seed]) if len(checkpoints) == 1 else [checkpoint.run.seed]
        configs += _with_seeds(config, seeds)
        parents += [_name(checkpoint)] * len(seeds)
    source = parents[0] if len(set(parents)) == 1 else checkpoints[0].run.group_id
    origins = {**(checkpoints[0].run.record.get("origins") or {}), **_changed(checkpoints[0].run.config, configs[0])}
    return TrainPlan(request, configs, origins, start="fork", parents=parents, parent=source, notes=notes[:1], unseen_code=bool(notes))


def _plan_resume(request: TrainRequest, store: Store) -> TrainPlan:
    assert request.resume is not None
    if request.ref is not None or request.init_from is not None:
        other = Argument("init_from") if request.ref is None else request.ref
        raise UsageError(Argument("resume", request.resume), " goes on with what that is; leave out ", other)
    if request.changes or request.seed is not None or request.seeds is not None:
        raise UsageError(
            "a resumed run keeps its settings and seed, or it would be another run.\n  With other settings, fork it: ",
            Action("train", f"{request.resume}@last", set=request.changes),
        )
    runs = store.select(request.resume)
    if runs and runs[0].record.get("source"):
        raise UsageError(
            f"{request.resume} was imported: another framework trained it, and there is no state here to go on from.\n  Look at it: ",
            Action("diagnose", request.resume),
            "\n  Train with its settings: ",
            Action("train", request.resume),
        )
    ranks = runs[0].config.run.data_parallel if runs else 1
    if request.data_parallel not in (None, ranks) or request.scale_batch:
        raise UsageError(
            f"{request.resume} was begun with {plural(ranks, 'rank')}, and goes on with as many: sums in another order are another run.\n"
            "  With another number, fork it: ",
            Action("train", f"{request.resume}@last", data_parallel=request.data_parallel),
        )
    if busy := [run.id for run in runs if run.status.state == "running"]:
        raise RunBusy(
            f"{listed(busy)} is training now.\n  A second writer would mix two histories.\n  Watch it: ", Action("status", busy[0])
        )
    for run in runs:
        _check_meaning(run)
    if request.max_env_steps is not None:
        return _plan_extend(request, runs)
    open_runs = [run for run in runs if run.status.state != "finished"]
    if not open_runs:
        budget, unit = runs[0].config.run.max_env_steps, runs[0].config.step_unit
        raise UsageError(
            f"{request.resume} has finished its {count(budget)} {unit}: there is nothing to resume.\n  Train it further: ",
            Action("train", resume=request.resume, max_env_steps=2 * budget),
        )
    damaged = [checkpoint for run in open_runs for checkpoint in run.checkpoints if not checkpoint.valid]
    notes = [f"{checkpoint.run.id}@{checkpoint.step} is damaged (a checksum differs): it is passed over" for checkpoint in damaged]
    for run in open_runs:
        env_code.check_found(run)
    changed = env_code.describe_changes(open_runs[0], "it goes on in another environment than it began in, and its curve joins the two")
    return TrainPlan(request, resumed=open_runs, notes=[*notes, *([changed] if changed else [])], unseen_code=bool(changed))


def _check_code(owner: Run | Group, before: Config, after: Config, consequence: str) -> list[str]:
    """That the own environment of a run is there and unchanged, unless another one is trained on; what has changed is said."""
    if before.env.id != after.env.id:
        return []
    env_code.check_found(owner)
    changed = env_code.describe_changes(owner, consequence.format(owner.id))
    return [changed] if changed else []


def _check_meaning(run: Run) -> None:
    """Refuse to go on with a run that was begun under another meaning of the trainer, where the old one is no longer known.

    Whether its environments have steps that only reset is seen when they are made; training checks that itself.
    """
    if (reason := refusal(run.id, run.corrections, run.config, skips=False)) is not None:
        raise UsageError(*reason)


def _plan_extend(request: TrainRequest, runs: Sequence[Run]) -> TrainPlan:
    """Child runs with a larger budget, each from its parent's last checkpoint."""
    budget, wanted = runs[0].config.run.max_env_steps, request.max_env_steps
    assert wanted is not None
    if wanted <= budget:
        raise UsageError(
            Argument("max_env_steps", wanted),
            f" is no more than the {count(budget)} that {request.resume} has: there is nothing to extend.\n  Resume it as it is: ",
            Action("train", resume=request.resume),
        )
    for run in runs:
        env_code.check_found(run)
    changed = env_code.describe_changes(runs[0], "it goes on in another environment than it began in, and its curve joins the two")
    checkpoints = [run.checkpoint("@last") for run in runs]
    configs = [_change(_as_adjusted(checkpoint), flag_changes(request)) for checkpoint in checkpoints]
    parents = [_name(checkpoint) for checkpoint in checkpoints]
    source = parents[0] if len(parents) == 1 else runs[0].group_id
    origins = {**(runs[0].record.get("origins") or {}), "run.max_env_steps": str(Argument("max_env_steps"))}
    notes = [changed] if changed else []
    return TrainPlan(request, configs, origins, start="extend", parents=parents, parent=source, notes=notes, unseen_code=bool(changed))


def _as_adjusted(checkpoint: Checkpoint) -> Config:
    """The parent's config as it stood at the checkpoint: `adjust` may have changed numbers since the start."""
    config = checkpoint.run.config
    for change in checkpoint.run.interventions:
        if change.get("env_steps", 0) <= checkpoint.step:
            config = set_values(config, [f"{key}={_text(value)}" for key, value in change.get("set", {}).items()])
    return config


def _text(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)


def _changed(before: Config, after: Config) -> dict[str, str]:
    """The settings that --set changed, as origins."""
    from rlclinic.config.records import to_record
    from rlclinic.config.schema import flatten

    old, new = flatten(to_record(before)), flatten(to_record(after))
    return {key: TYPED for key, value in new.items() if old.get(key) != value and key != "seed"}


def _name(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.run.id}@{checkpoint.step}"


WIDE: Final = 512
"""Units of a layer from which a second core pays."""
MESSAGE_MICROSECONDS: Final = 100.0
"""What a step through worker processes costs beside the steps themselves, and as much again for each worker: telling, waking, copying."""


def share_out(configs: Sequence[Config], cores: int, idle: int, free: Collection[str]) -> tuple[list[Config], list[str]]:
    """The configs of runs that train side by side, `cores` at a time, with the idle ones given out, and a remark for each gift.

    free: run.threads and env.workers, where nobody has said what they should be.
    """
    config, each = configs[0], max(1, idle // min(cores, len(configs)))
    shared = list(configs)
    notes: list[str] = []
    if config.run.device != "cpu" or each == 1 or config.run.data_parallel > 1:
        return shared, notes
    if "run.threads" in free and config.run.threads == 1 and _is_wide(config):
        shared = [one.model_copy(update={"run": one.run.model_copy(update={"threads": each})}) for one in shared]
        notes.append(f"{each} CPU threads for each run, as cores are idle and its network is large; run.threads=1 uses one")
    workers = best_workers(config, each)
    if "env.workers" in free and not config.env.workers and workers:
        shared = [one.model_copy(update={"env": one.env.model_copy(update={"workers": workers})}) for one in shared]
        notes.append(f"{workers} {_why(config)}; env.workers=0 leaves it to the training process")
    return shared, notes


def _is_wide(config: Config) -> bool:
    """Whether a matrix product is so large that a second core helps: convolutions of games, or layers of WIDE units."""
    return config.env.frames_per_step is not None or max(config.net.hidden, default=0) >= WIDE


def best_workers(config: Config, cores: int) -> int:
    """How many processes should step a run's environments: 0 unless the steps they take over outweigh twice what messages cost.

    ALE steps its games in threads of its own, which need no messages.
    """
    env, step = config.env, config.spec.step_microseconds
    most = min(cores, env.n_envs)
    if env.atari and not env.wrappers and not env.kwargs:
        return most if most > 1 else 0
    if step is None or env.wrappers:
        return 0

    def gain(workers: int) -> float:
        return env.n_envs * step * (1 - 1 / workers) - 2 * MESSAGE_MICROSECONDS * (1 + workers)

    best = max(range(2, most + 1), key=gain, default=0)
    return best if best and gain(best) > 0 else 0


def _why(config: Config) -> str:
    if config.env.atari:
        return "threads step the games of each run, as cores are idle"
    took = config.env.n_envs * (config.spec.step_microseconds or 0.0) / 1000
    return f"processes step the environments of each run, as cores are idle and {config.env.n_envs} steps take {took:.1f} ms"
