"""Three looks before anything is trained: at settings, at an environment, at a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlclinic import trust
from rlclinic.actions import Argument
from rlclinic.diagnosis.findings import Evidence
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import CodeLint, lint_code
from rlclinic.diagnosis.lint.config.linter import Lint, lint_config, lint_settings
from rlclinic.diagnosis.lint.env import EnvLint, source_lines
from rlclinic.errors import UsageError
from rlclinic.ops.diagnose import rule_selection
from rlclinic.report.models import Result
from rlclinic.runs.history import History

SECONDS = 20.0
"""How long an environment is looked at, at most."""


class LintReport(Result):
    """What settings show before anything is trained."""

    ref: str
    ours: bool = True
    """Whether the settings are written in our words, so that --set can change them."""
    lint: Lint
    more: tuple[Lint, ...] = ()
    """Of the other settings, where a folder holds runs of several."""


class EnvLintReport(Result):
    """What an environment shows before anything is trained on it."""

    target: str
    lint: EnvLint


class CodeLintReport(Result):
    """What a script shows without running it."""

    target: str
    lint: CodeLint


def lint(
    ref: str,
    changes: Sequence[str] = (),
    runs_dir: Path = Path("runs"),
    *,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
) -> LintReport:
    """Check settings: a variant, a YAML file, a run or group of ours, or another framework's folder."""
    from rlclinic.config import from_record
    from rlclinic.ops.runs.environments import show_config

    chosen = _chosen_settings(select, ignore)
    foreign = _foreign(ref, runs_dir)
    if foreign:
        if changes:
            raise UsageError(
                f"{ref} is another framework's run, whose settings cannot be changed here.\n  Try: without ",
                Argument("set"),
                ", or a YAML file of ours",
            )
        lints = [lint_settings(each.settings, each, select=chosen.select, ignore=chosen.ignore) for each in foreign]
        return LintReport(ref=ref, ours=False, lint=lints[0], more=tuple(lints[1:]))
    view = show_config(ref, changes, runs_dir)
    return LintReport(ref=ref, lint=lint_config(from_record(view.config), select=chosen.select, ignore=chosen.ignore))


def _chosen_settings(select: Sequence[str] | None, ignore: Sequence[str] | None) -> rule_selection.Chosen:
    """Settings are looked at by rules about runs and by checks of their own."""
    rules, more = rule_selection.chosen(select, ignore), _chosen("SET", None, None)
    wanted = list(select) if select else [*(rules.select or ()), *(more.select or ())]
    return rule_selection.Chosen(wanted or None, [*rules.ignore, *more.ignore], rules.switched)


def _foreign(ref: str, runs_dir: Path) -> list[History]:
    """One history for each config of a folder or file that is not ours; none if `ref` means something of ours."""
    path = Path(ref)
    ours = any((path / name).is_file() for name in ("group.json", "config.json")) and (
        (path / "status.json").is_file() or (path / "group.json").is_file()
    )
    if (
        not path.exists()
        or ours
        or (path.is_file() and path.suffix in (".yaml", ".yml"))
        or (runs_dir / path.name / "config.json").is_file()
    ):
        return []
    # Imported here: our own settings must not wait for the formats of others.
    from rlclinic import readers

    histories: dict[str, History] = {}
    for each in readers.read(ref):
        settings = {key: value for key, value in each.settings.items() if key != "seed"}
        histories.setdefault(json.dumps([each.algo, each.env_id, settings], sort_keys=True, default=str), each)
    return list(histories.values())


# ── environments ──


def lint_env(
    target: str,
    kwargs: dict[str, Any] | None = None,
    *,
    seconds: float = SECONDS,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
) -> EnvLintReport:
    """Look at an environment for some seconds, in a process of its own: it may block, print or crash.

    target: a Gymnasium id, module:Id, module:Class, or file.py:Class.
    """
    from rlclinic.diagnosis.lint.env import lint_facts
    from rlclinic.ops.diagnose.examine_env import facts_of

    if trust.names_code(target):
        trust.approve(target)
    chosen = _chosen("ENV", select, ignore)
    facts = facts_of(target, kwargs or {}, seconds)
    return EnvLintReport(target=target, lint=_name_lines(lint_facts(facts, select=chosen.select, ignore=chosen.ignore), target))


def _name_lines(lint: EnvLint, target: str) -> EnvLint:
    """The findings with the first line of the environment's own file that each may come from."""
    file, _, name = target.rpartition(":")
    try:
        source = Path(file).read_text("utf-8") if file.endswith(".py") else ""
    except (OSError, UnicodeDecodeError):
        source = ""
    named = []
    for finding in lint.findings if source else ():
        lines = source_lines.find_lines(source, name, source_lines.CAUSES.get(finding.rule, ""))[:1]
        seen = [Evidence(series=f"code:{file}:{line.number}", text=f"{line.look}: {line.text}") for line in lines]
        named.append(finding.model_copy(update={"evidence": (*finding.evidence, *seen)}))
    return lint.model_copy(update={"findings": tuple(named)}) if source else lint


def lint_env_object(
    env: Any, *, seconds: float = SECONDS, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None
) -> EnvLint:
    """Look at an environment of this program: an instance, a class, or a function that makes one."""
    from rlclinic.diagnosis.lint.env import lint_facts
    from rlclinic.ops.diagnose.examine_env import facts_in_process

    instance = hasattr(env, "reset") and hasattr(env, "step") and not isinstance(env, type)
    if not instance and not callable(env):
        raise UsageError(
            f"env is a {type(env).__name__}, which is neither an environment nor makes one.\n  There is nothing to look at.\n"
            "  Try: rlclinic.lint_env(MyEnv), rlclinic.lint_env(lambda: MyEnv(size=5)), or rlclinic.lint_env('CartPole-v1')"
        )
    name = type(env).__name__ if instance else getattr(env, "__name__", type(env).__name__)
    chosen = _chosen("ENV", select, ignore)
    facts = facts_in_process((lambda: env) if instance else env, name, seconds)
    return lint_facts(facts, select=chosen.select, ignore=chosen.ignore)


def lint_script(target: str, *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> CodeLintReport:
    """Check a script, a notebook, or all of them below a folder, without running anything."""
    chosen = _chosen("COD", select, ignore)
    return CodeLintReport(target=target, lint=lint_code(target, select=chosen.select, ignore=chosen.ignore))


def _chosen(kind: str, select: Sequence[str] | None, ignore: Sequence[str] | None) -> rule_selection.Chosen:
    """What was typed, and of the project's file what is about this kind of check."""
    here = rule_selection.switched_here()
    known = checks.checks(kind)
    mine = [each for each in here.ignore if checks.fits_any(known, each)] if here else []
    wanted = [each for each in here.select if checks.fits_any(known, each)] if here else []
    return rule_selection.Chosen(list(select) if select else wanted or None, [*(ignore or ()), *mine], here)
