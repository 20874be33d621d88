"""The cheapest experiment that tells two causes apart: what is changed, what each cause predicts, and which of them gained.

An experiment trains a few short runs, or none, and reads one number. Six kinds:

cures   the same seeds from the start, each with the cure of one cause: the runs themselves are the control, since without a
        change they would repeat bit for bit
fork    the same from the best checkpoint on, before things went wrong; a control fork repeats the original
task    the same settings on a task so small that any sound learner masters it: is it the learner, or the environment?
noise   the gradient of whole rollouts beside that of quarters, with the policy held still: how much of it is noise?
critic  the policy held still while its critic learns, and the critic frozen while the policy does: which of them fails?
baselines  the environment played at random, with actions that never change, and by hand: does it matter what is done?
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from rlclinic.actions import Action
from rlclinic.config import A2CConfig, Config, PPOConfig, from_record, to_record
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.causes import UNKNOWN
from rlclinic.diagnosis.findings import Cause, Diagnosis
from rlclinic.errors import UsageError
from rlclinic.launch import batch
from rlclinic.launch.batch import Study
from rlclinic.runs import studies
from rlclinic.runs.history import of_run
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription.prescribe import make_prescriptions
from rlclinic.treatment.prescription.prescription import Prescription, changed
from rlclinic.treatment.probe import baselines
from rlclinic.treatment.probe.models import Arm, Experiment, Kind, Probed
from rlclinic.treatment.probe.readings import MASTERED, concluded

CLOSE: Final = 0.8
"""A first cause that is at least this likely needs no experiment."""
SEEDS: Final = 2
SHARE: Final = 0.4
"""Of a run that an experiment trains."""
TASK_ROLLOUTS: Final = 40
TASK_REPLAY_STEPS: Final = 4_000
"""Env steps of a learner with a replay on a task with a known answer."""
NOISE_ROLLOUTS: Final = 10
BASELINE_EPISODES: Final = 40
"""Of each baseline, about: those that always do the same are several."""
LONGEST_EPISODE: Final = 2_000
"""Of a task without a time limit."""
STILL: Final = 1e-9
"""A learning rate that leaves the policy where it is."""
_BY_HAND: Final = frozenset({UNKNOWN, "budget-too-small", "unlucky-seed"})


@cache
def table() -> dict[str, Kind]:
    """The experiment for a pair of causes, by "a | b" in alphabetic order; "a | *" for a cause with any other."""
    raw = json.loads((files("rlclinic.treatment.probe") / "probes.json").read_text("utf-8"))
    return {" | ".join(sorted(part.strip() for part in pair.split("|"))): kind for pair, kind in raw["pairs"].items()}


def kind_for(first: str, second: str) -> Kind:
    """What separates two causes: their own entry, one of either with any other, else their cures."""
    pairs = table()
    for pair in ((first, second), ("*", first), ("*", second)):
        found = pairs.get(" | ".join(sorted(pair)))
        if found is not None:
            return found
    return "cures"


def propose(diagnosis: Diagnosis, group: Group, config: Config) -> Experiment | None:
    """The experiment for the two likeliest causes of a group; None if one of them is likely enough, or none separates them."""
    causes = [cause for cause in diagnosis.causes if cause.consequence_of is None and (cause.rules or cause.id == UNKNOWN)]
    if len(causes) < 2 or causes[0].probability >= CLOSE:
        return None
    first, second = causes[0], causes[1]
    given = make_prescriptions(diagnosis, [of_run(run) for run in group.runs], config, most=12, together=False)
    cures = {id: rx for id in (first.id, second.id) if (rx := _cure(given, id)) is not None}
    kind = kind_for(first.id, second.id)
    arms = [Arm(name=f"cure of {id}", cause=id, changes=rx.changes) for id, rx in cures.items() if id not in _BY_HAND]
    if kind == "baselines":
        return _baselines(first, second, group, config)
    if kind == "critic" and isinstance(config.algo, PPOConfig | A2CConfig) and not config.net.shared:
        return _critic(first, second, group, config)
    if kind == "noise" and isinstance(config.algo, PPOConfig) and config.rollout_size % 4 == 0:
        return _noise(first, second, group, config)
    if config.offline and not arms:
        return None  # on a task with a known answer nothing was recorded
    if (kind == "task" and not config.offline) or not arms:
        return _task(first, second, group, config)
    runs = group.runs[:SEEDS]
    parents = _checkpoints(runs, config, arms) if kind == "fork" else ()
    return _cures(first, second, group, config, arms, runs, parents)


def _cure(given: Sequence[Prescription], cause: str) -> Prescription | None:
    return next((rx for rx in given if rx.cause == cause and rx.trialable and not any(key.startswith("run.") for key in rx.changes)), None)


def _checkpoints(runs: Sequence[Run], config: Config, arms: Sequence[Arm]) -> tuple[str, ...]:
    """The best checkpoint of each run, if enough of the run lies behind it and only numbers change.

    Learners with a replay keep theirs with the newest checkpoint only: from an older one nothing would repeat.
    """
    if config.algo.loop == "off_policy" or any(not setting.startswith("algo.") for arm in arms for setting in arm.changes):
        return ()
    found = [next((checkpoint for checkpoint in run.checkpoints if checkpoint.best and checkpoint.valid), None) for run in runs]
    enough = all(each is not None and each.step <= (1 - SHARE / 2) * config.run.max_env_steps for each in found)
    return tuple(f"{each.run.id}@{each.step}" for each in found if each is not None) if enough else ()


def _cures(
    first: Cause, second: Cause, group: Group, config: Config, arms: Sequence[Arm], runs: Sequence[Run], parents: Sequence[str]
) -> Experiment:
    begun = max((int(parent.partition("@")[2]) for parent in parents), default=0)
    span = int(SHARE * config.run.max_env_steps)
    until = min(begun + span, config.run.max_env_steps)
    tried = " against ".join(" and ".join(f"{key.partition('.')[2]}={_short(value)}" for key, value in arm.changes.items()) for arm in arms)
    start = "from the best checkpoint" if parents else f"for the first {SHARE:.0%} of a run"
    control = (Arm(name="control", cause="", changes={}),) if parents else ()
    return Experiment(
        kind="fork" if parents else "cures",
        causes=(first.id, second.id),
        titles=(first.title, second.title),
        before=(first.probability, second.probability),
        question=f"does {tried} help, {start}, on the same seeds?",
        group=group.id,
        arms=(*control, *arms),
        seeds=tuple(run.seed for run in runs),
        parents=tuple(parents),
        until_env_steps=until,
        run_env_steps=until - begun,
        config=to_record(config),
    )


def _short(value: Any) -> str:
    return f"{value['start']:g}…" if isinstance(value, Mapping) and "start" in value else json.dumps(value)


def _task(first: Cause, second: Cause, group: Group, config: Config) -> Experiment:
    """The settings as they are on a task with a known answer."""
    continuous = any(Case(of_run(run)).has("train/sentinel/action_std_max") for run in group.runs[:1])
    task = "probe:continuous" if continuous else "probe:5"
    record = to_record(config)
    steps = TASK_ROLLOUTS * config.rollout_size
    if config.algo.loop == "off_policy":
        # The same settings on a shorter run: random actions, and copies of the target, must fit into it.
        steps = TASK_REPLAY_STEPS
        record["algo"]["learning_starts"] = min(record["algo"]["learning_starts"], steps // 20)
        if "target_update_interval" in record["algo"]:
            share = steps / config.run.max_env_steps
            record["algo"]["target_update_interval"] = max(1, round(record["algo"]["target_update_interval"] * min(share, 1.0)))
    record["env"] = {"id": task, "n_envs": config.env.n_envs}
    record["spec"] = {"threshold": MASTERED}
    record["run"] |= {"max_env_steps": steps, "eval_every_env_steps": max(1, steps // 4), "eval_episodes": 40, "stop_at_threshold": False}
    return Experiment(
        kind="task",
        causes=(first.id, second.id),
        titles=(first.title, second.title),
        before=(first.probability, second.probability),
        question=f"do these settings master {task}, whose answer is known?",
        group=group.id,
        arms=(Arm(name=task, cause="", changes={}),),
        seeds=tuple(range(SEEDS)),
        until_env_steps=steps,
        run_env_steps=steps,
        config=to_record(from_record(record)),
    )


def _noise(first: Cause, second: Cause, group: Group, config: Config) -> Experiment:
    """Gradients of two batch sizes at one policy: the last that was saved, or the first."""
    runs = group.runs[:SEEDS]
    saved = [next((checkpoint for checkpoint in run.checkpoints if checkpoint.last and checkpoint.valid), None) for run in runs]
    parents = tuple(f"{each.run.id}@{each.step}" for each in saved if each is not None)
    parents = parents if len(parents) == len(runs) else ()
    span = NOISE_ROLLOUTS * config.rollout_size
    until = max((int(parent.partition("@")[2]) for parent in parents), default=0) + span
    record = to_record(config)
    record["run"] |= {"max_env_steps": until, "eval_every_env_steps": None, "eval_episodes": 0, "stop_at_threshold": False}
    record["algo"] |= {"learning_rate": STILL, "value_lr": None, "n_epochs": 1, "target_kl": None}
    return Experiment(
        kind="noise",
        causes=(first.id, second.id),
        titles=(first.title, second.title),
        before=(first.probability, second.probability),
        question="how much of the gradient is noise: whole rollouts beside quarters of them, with the policy held still",
        group=group.id,
        arms=(
            Arm(name="whole", cause="", changes={"algo.batch_size": 1.0}),
            Arm(name="quarter", cause="", changes={"algo.batch_size": 0.25}),
        ),
        seeds=tuple(run.seed for run in runs),
        parents=parents,
        until_env_steps=until,
        run_env_steps=span,
        config=to_record(from_record(record)),
    )


def _critic(first: Cause, second: Cause, group: Group, config: Config) -> Experiment:
    """The same seeds from the start, with one of the two networks left as it begins."""
    span = int(SHARE * config.run.max_env_steps)
    algo = to_record(config)["algo"]
    rate = algo["value_lr"] if algo["value_lr"] is not None else algo["learning_rate"]
    return Experiment(
        kind="critic",
        causes=(first.id, second.id),
        titles=(first.title, second.title),
        before=(first.probability, second.probability),
        question="can the critic learn the values of a policy that stands still, and does the policy learn better without it?",
        group=group.id,
        arms=(
            Arm(name="critic alone", cause="", changes={"algo.learning_rate": STILL, "algo.value_lr": rate}),
            Arm(name="frozen critic", cause="", changes={"algo.value_lr": STILL}),
        ),
        seeds=tuple(run.seed for run in group.runs[:SEEDS]),
        until_env_steps=span,
        run_env_steps=span,
        config=to_record(config),
    )


def _baselines(first: Cause, second: Cause, group: Group, config: Config) -> Experiment:
    """Policies that learn nothing, on the environment as it is."""
    limit = config.env.max_episode_steps or config.spec.max_episode_steps or LONGEST_EPISODE
    return Experiment(
        kind="baselines",
        causes=(first.id, second.id),
        titles=(first.title, second.title),
        before=(first.probability, second.probability),
        question=f"does it matter what is done in {config.env.id}, and does what was learned beat doing it at random?",
        group=group.id,
        arms=tuple(Arm(name=name, cause="", changes={}) for name in ("random", "always the same", "by hand")),
        seeds=(0,),
        until_env_steps=0,
        run_env_steps=BASELINE_EPISODES * min(limit, LONGEST_EPISODE),
        config=to_record(config),
    )


# ── carrying it out ──


def run(
    store: Store,
    experiment: Experiment,
    *,
    watch: Callable[[batch.Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    cores: int | None = None,
) -> Probed:
    """Train the experiment's runs and say which cause gained; batch.Interrupted if `stop` says so, batch.Killed if the machine does."""
    if experiment.kind == "baselines":
        return baselines.run(store, experiment)
    id = studies.reserve(store, "probe")
    work = Study(store, "probe", id, **({"cores": cores} if cores else {}), watch=watch, stop=stop)
    base = from_record(experiment.config)
    cells = {arm.name: changed(base, arm.changes) if arm.changes else base for arm in experiment.arms}
    pruner = None if experiment.kind in ("task", "noise") else _stop_at(experiment.until_env_steps)
    groups = batch.train(work, cells, experiment.seeds, pruner, experiment.parents)
    batch.check_ended([run for group in groups.values() for run in group.runs if run.id not in work.pruned], f"probe {id}")
    found = concluded(store, id, experiment, groups)
    studies.write(store, "probe", id, found.model_dump(mode="json"))
    return found


def _stop_at(env_steps: int) -> batch.Pruner:
    """Stops runs that have gone far enough: their schedules belong to the whole budget."""

    def choose(groups: Mapping[str, Group]) -> Sequence[Run]:
        return [run for group in groups.values() for run in group.runs if run.status.live and run.status.env_steps >= env_steps]

    return choose


def diagnosed(group: Group) -> Diagnosis:
    """The diagnosis that an experiment starts from; UsageError without a run."""
    if not group.runs:
        raise UsageError(f"{group.id} has no run to probe.\n  See what there is: ", Action("runs list"))
    return engine.diagnose([of_run(run) for run in group.runs])
