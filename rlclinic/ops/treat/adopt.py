"""`adopt`: the winner of a trial or race becomes a variant of the user's own YAML file, with its evidence above it."""

import difflib
import operator
import time
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from rlclinic import plain_files
from rlclinic.actions import Action, Argument, ForPeople
from rlclinic.config import Config, files, from_record, to_record
from rlclinic.errors import UsageError
from rlclinic.report.models import Result
from rlclinic.report.race import describe_verdict, measure_text, summary
from rlclinic.report.trial import effect_text, headline, seeds_text
from rlclinic.runs import disk, studies
from rlclinic.runs.store import Store
from rlclinic.treatment.race.conduct import load_race
from rlclinic.treatment.race.models import Race
from rlclinic.treatment.trial import variant_file
from rlclinic.treatment.trial.conduct import load
from rlclinic.treatment.trial.models import ArmResult, Effect, Trial


class Adopted(Result):
    """What was written (or would be): the file, the difference, and the evidence."""

    trial: str
    """Or race."""
    ref: str
    """As `train` takes it; of several environments, as it was given."""
    refs: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    """Of several environments: what was written, as `train` takes it."""
    file: str
    diff: list[str]
    """Of the file, line by line."""
    changes: list[str]
    """Against the trial's control: `key: old -> new`."""
    evidence: list[str]
    written: bool


def adopt(
    tid: str, ref: str, runs_dir: Path = Path("runs"), *, force: bool = False, dry_run: bool = False, folder: Path | None = None
) -> Adopted:
    """Write the winner of a trial or race as ENV:VARIANT into ./config/environments/<env>.yaml; it loads at once.

    A trial over several environments keeps it as VARIANT of every one of them, or with ENV of that one alone.
    Refused without `force`: a verdict other than adopt (of a race: that one arm is best), and a variant that is already there.
    """
    store, folder = Store(runs_dir), folder or files.user_folder()
    if _is_race(store, tid):
        env_id, variant = _named(ref)
        return _write_variant(_keep_raced(load_race(store, tid), force), env_id, variant, force, dry_run, folder)
    trial = load(store, tid)
    if trial.environments:
        return _adopt_everywhere(trial, ref, force, dry_run, folder)
    env_id, variant = _named(ref)
    return _adopt_one(trial, _winner(trial, force), env_id, variant, force, dry_run, folder)


def _adopt_everywhere(trial: Trial, ref: str, force: bool, dry_run: bool, folder: Path) -> Adopted:
    """The winner as a variant of every environment of the trial; or of the one that `ref` names. All are checked before one is written.

    A change that helps here and hurts there can be kept where it was shown to help, by name.
    """
    env_id, separator, variant = ref.rpartition(":")
    parts = [part for part in trial.parts if not separator or part.env_id == env_id]
    if not parts:
        known = ", ".join(part.env_id for part in trial.parts)
        raise UsageError(
            f"trial {trial.id} was made on {known}; {env_id} was not tried.\n  Its evidence would not hold there.\n  Type: ",
            Action("adopt", trial.id, as_=variant or "mine"),
        )
    variant_file.check_variant(variant)
    helped = [each for each in parts[0].effects if each.verdict == "adopt"] if separator and trial.verdict == "mixed" else []
    effect = max(helped, key=lambda each: each.z) if helped else _winner(trial, force)
    own = [next(each for each in part.effects if each.arm == effect.arm) for part in parts]
    for really in (False, True):
        made = [
            _adopt_one(part, one, part.env_id, variant, force, dry_run or not really, folder, whole=trial)
            for part, one in zip(parts, own, strict=True)
        ]
    return made[0].model_copy(
        update={
            "ref": ref,
            "refs": [each.ref for each in made],
            "file": ", ".join(each.file for each in made),
            "diff": [line for each in made for line in each.diff],
            "evidence": [line for each in made for line in each.evidence],
        }
    )


def _adopt_one(
    trial: Trial, effect: Effect, env_id: str, variant: str, force: bool, dry_run: bool, folder: Path, whole: Trial | None = None
) -> Adopted:
    """One variant of one environment; `whole` is the trial of which this environment is a part."""
    arm = next(arm for arm in trial.arms if arm.name == effect.arm)
    config = _find_config("trial", trial.id, arm, trial.context.get("run"))
    kept = Kept("trial", trial.id, config, _changes(trial, effect), evidence_lines(trial, effect, whole))
    return _write_variant(kept, env_id, variant, force, dry_run, folder)


class Kept(NamedTuple):
    """What is kept, and why."""

    kind: str
    id: str
    config: Config
    changes: list[str]
    evidence: list[str]


def _write_variant(kept: Kept, env_id: str, variant: str, force: bool, dry_run: bool, folder: Path) -> Adopted:
    config = kept.config
    if config.env.id != env_id:
        raise UsageError(
            f"{kept.kind} {kept.id} was made on {config.env.id}; {env_id} was not tried.\n  Its evidence would not hold there.\n  Type: ",
            Action("adopt", kept.id, as_=f"{config.env.id}:{variant}"),
        )
    path = variant_file.file_for(env_id, folder)
    before = plain_files.read_text(path) if path.exists() else ""
    if variant_file.has_variant(before, variant) and not force:
        raise UsageError(
            f"{env_id}:{variant} is already in {path}.\n  It would be overwritten.\n  Give another name",
            ForPeople(f", or: {Action('adopt', kept.id, as_=f'{env_id}:{variant}', force=True)}"),
        )
    after = variant_file.written(before, config, variant, kept.evidence, env_id)
    if not dry_run:
        with disk.guarded(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        disk.write(path, after)
    return Adopted(
        trial=kept.id,
        ref=f"{env_id}:{variant}",
        file=str(path),
        diff=list(difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=1)),
        changes=kept.changes,
        evidence=kept.evidence,
        written=not dry_run,
    )


def _find_config(kind: str, id: str, arm: ArmResult, run: Any) -> Config:
    """The config of an arm, without what only the trial or race needed."""
    if arm.config is None:
        raise UsageError(
            f"{kind} {id} tried your own command: there is no config of ours to keep.\n  Nothing would be trained by it.\n"
            f"  Put it into your script: {' '.join(arm.changes)}"
        )
    return variant_file.adopted_config(arm.config, run, arm.changes)


def _is_race(store: Store, id: str) -> bool:
    """Whether an id, or the beginning of one, is a race's."""
    return id != "@last" and any(known.startswith(id) for known in studies.ids(store, "race"))


def _keep_raced(race: Race, force: bool) -> Kept:
    if race.state != "finished":
        raise UsageError(f"race {race.id} has not ended.\n  There is no winner to keep.\n  Type: ", Action("race", resume=race.id))
    if race.verdict != "best" and not force:
        raise UsageError(
            f"race {race.id} ended with {describe_verdict(race)}: {summary(race)}.\n  No arm was shown to be better than all others",
            ForPeople(f"\n  To keep {race.arms[0].arm.name} all the same: --force"),
        )
    first = race.arms[0]
    config = _find_config("race", race.id, first.arm, race.plan.trial.context.get("run"))
    settings = [f"{key}: {value}" for key, _, value in (change.partition("=") for change in first.arm.changes)]
    lines = [
        f"{variant_file.RACED.removeprefix('# ')}{race.id} on {time.strftime('%Y-%m-%d')}: {describe_verdict(race)}",
        f"settings: {'; '.join(settings) or 'those of the first config'}",
        f"{summary(race)}; {measure_text(race, first)} {race.outcome}, {first.arrived} of {first.arm.n} runs arrived",
    ]
    return Kept("race", race.id, config, settings, [" ".join(line.split()) for line in lines])


def _named(ref: str) -> tuple[str, str]:
    env_id, separator, variant = ref.rpartition(":")
    if not separator or not env_id:
        raise UsageError(
            Argument("as", ref), " is not ENV:VARIANT.\n  It cannot be told where to write.\n  Type: ", Argument("as", "CartPole-v1:mine")
        )
    return env_id, variant_file.check_variant(variant)


def _winner(trial: Trial, force: bool) -> Effect:
    if trial.state != "finished" or trial.leading is None:
        raise UsageError(f"trial {trial.id} has not ended.\n  There is no verdict to keep.\n  Type: ", Action("trial", resume=trial.id))
    if trial.verdict != "adopt" and not force:
        raise UsageError(
            f"trial {trial.id} ended with {headline(trial)}.\n  It does not show that the change helps.\n  Try it on more seeds: ",
            Action("trial", "…", per_look=8),
            ForPeople("\n  To keep it all the same: --force"),
        )
    return trial.leading


def evidence_lines(trial: Trial, effect: Effect, whole: Trial | None = None) -> list[str]:
    """What stands above the variant: trial, verdict, interval, seeds, date, change; `whole`: of several environments, also over all."""
    treated = next(arm for arm in trial.arms if arm.name == effect.arm)
    changes = "; ".join(_changes(trial, effect))
    control = trial.context.get("control") or trial.control.name
    lines = [
        f"{variant_file.ADOPTED.removeprefix('# ')}{trial.id} on {time.strftime('%Y-%m-%d')}: {headline(whole or trial)}",
        f"change against {control}: {changes or 'none'}",
        f"effect: {effect_text(trial, effect)} (95 %, valid after stopping early)",
    ]
    if whole is not None:
        everywhere = whole.effect(effect.arm)
        places = ", ".join(part.env_id for part in whole.parts)
        lines.append(f"over {places}: {effect_text(whole, everywhere)}; intervals hold in all environments at once")
    if trial.threshold is not None:
        seen = f"{treated.reached} of {treated.n} runs reached {trial.threshold:g}"
        lines.append(f"{seen}, {trial.control.reached} of {trial.control.n} without it; {seeds_text(trial)}")
    else:
        lines.append(seeds_text(trial))
    if effect.worse:
        lines.append(f"worse: {', '.join(effect.worse)}")
    return [" ".join(line.split()) for line in lines]


def _changes(trial: Trial, effect: Effect) -> list[str]:
    control, treated = trial.control.config, next(arm for arm in trial.arms if arm.name == effect.arm).config
    if control is None or treated is None:
        return []
    return variant_file.difference(to_record(from_record(control)), to_record(from_record(treated)))


def trial_of(ref: str, folder: Path | None = None) -> str | None:
    """The trial that ENV:VARIANT was adopted from; None if it is no such variant."""
    env_id, separator, variant = ref.rpartition(":")
    if not separator:
        return None
    path = variant_file.file_for(env_id, folder or files.user_folder())
    if not path.exists():
        raise UsageError(
            f"{ref}: there is no {path}.\n  Nothing tells what it is made of.\n  Give the trial that it was adopted from: ",
            Argument("ablate", "TRIAL"),
        )
    found = variant_file.trial_of(plain_files.read_text(path), variant)
    if found is None:
        raise UsageError(
            f"{ref} was not adopted from a trial ({path} has no such comment above it).\n"
            "  Nothing tells which changes it is made of.\n"
            "  Give two configs instead: ",
            Action("trial", "OLD", "NEW"),
        )
    return found
