"""A question in plain words, answered: the guide, rule, metric, setting or command that is meant, with the numbers of the store.

Nothing is generated: what is not known is said to be unknown.
"""

import re
from pathlib import Path
from typing import Any, Final, get_args

from rlclinic.actions import Action
from rlclinic.errors import RlclinicError, UsageError
from rlclinic.ops.diagnose.ask import guides
from rlclinic.ops.diagnose.ask.search import Document, read_words, search
from rlclinic.ops.diagnose.requests import AskRequest
from rlclinic.ops.runs.requests import ExportFormat
from rlclinic.report.ask import AskAnswer, Nearby
from rlclinic.report.format import count, duration, number, percent, plural, short
from rlclinic.report.guide import Guide
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

EXAMPLE: Final = "why is my reward not going up"
_ID: Final = re.compile(r"\b[A-Za-z0-9][A-Za-z0-9._-]{2,63}\b")


def ask(request: AskRequest) -> AskAnswer:
    """Answer a question in words: what is meant, what the store says about it, and the command with the last group filled in."""
    if not request.question.strip():
        raise UsageError("the question is empty.\n  There is nothing to answer.\n  Type for example: ", Action("ask", EXAMPLE))
    group, run, named = _mentioned(request.question, request.runs_dir)
    # An id is no word: "what is wrong with g7k2" asks what "what is wrong with my run" asks.
    found = search(_ID.sub(lambda word: "my run" if word[0] in named else word[0], request.question))
    near = [_nearby(match.document, group) for match in found[1:4]]
    if not found:
        examples = [Nearby(title=guide.question, command=Action("guide", guide.name)) for guide in guides.list_guides().guides[:3]]
        return AskAnswer(question=request.question, known=False, nearby=examples)
    best = found[0].document
    subject = run.id if run is not None else group.id if group is not None else None
    if best.kind == "guide":
        guide = guides.get_guide(best.name).guide
        facts, change, rule = _facts(guide.name, group, run)
        commands = list(dict.fromkeys(_fill(text, group, run, request.question) for text in guide.type))
        if guide.name == "batch-size" and group is not None:
            commands = [text.replace("batch_size=1024", f"batch_size={_other_batch(group)}") for text in commands]
        calls = guide.call
        if rule is not None:
            calls = [re.sub(r'^explain_rule\(rule="[^"]+"\)$', f'explain_rule(rule="{rule}")', text) for text in calls]
            commands = [re.sub(r"^rlclinic rules \S+$", f"rlclinic rules {rule}", text) for text in commands]
        if change is not None and subject is not None and not any(" trial " in text for text in commands):
            commands.append(Action("trial", subject, rx=change))
        return AskAnswer(
            question=request.question,
            known=True,
            kind="guide",
            name=guide.name,
            title=guide.question,
            answer=_answer(guide, group),
            about=subject,
            facts=facts,
            steps=guide.steps,
            commands=[Action.quoted(text) for text in commands],
            calls=list(dict.fromkeys(_fill(text, group, run, request.question) for text in calls)),
            cannot=guide.cannot,
            nearby=near,
        )
    answer, command = _explain(best)
    if command.startswith("rlclinic compare ") and len(named) > 1:
        command = str(Action("compare", *named))
    return AskAnswer(
        question=request.question,
        known=True,
        kind=best.kind,
        name=best.name,
        title=best.name,
        answer=answer,
        about=subject,
        commands=[Action.quoted(_fill(command, group, run, request.question))],
        nearby=near,
    )


def _answer(guide: Guide, group: Group | None) -> str:
    """A guide's own answer, or what is said instead where the question is about runs in the store."""
    if group is not None and group.summary.verdict == "SOLVED" and guide.name in ("stuck", "not-solved"):
        return (
            f"{group.id} did what it should. If another group or run is meant, name it in the question (rlclinic runs table lists them); "
            "logs of another framework: rlclinic diagnose FOLDER."
        )
    return read_words()["answers"].get(guide.name, guide.answer) if group is not None else guide.answer


def _explain(document: Document) -> tuple[str, str]:
    """What a document that is no guide says, and what to type for the rest."""
    if document.kind == "command":
        return document.title, document.name
    if document.kind == "rule":
        return f"{document.name}: {document.title}", f"rlclinic rules {document.name}"
    if document.kind == "metric":
        return f"{document.name}: {document.title}", f"rlclinic runs metrics GROUP -m {document.name}"
    return f"{document.name}: {' '.join(document.title.split())}", "rlclinic config show GROUP --origins"


def _nearby(document: Document, group: Group | None) -> Nearby:
    if document.kind == "guide":
        return Nearby(title=document.title, command=Action("guide", document.name))
    answer, command = _explain(document)
    return Nearby(title=answer.split("\n")[0][:120], command=Action.quoted(_fill(command, group, None, "")))


# ── filling in what the store knows ──


def _mentioned(question: str, runs_dir: Path) -> tuple[Group | None, Run | None, list[str]]:
    """The first group (and run) that a question names, and all that it names; else the last group; None in an empty store."""
    store = Store(runs_dir)
    words = dict.fromkeys(_ID.findall(question))
    named = [
        word for word in words if any((store.root / place).is_file() for place in (f"{word}/config.json", f"@groups/{word}/group.json"))
    ]
    if named and (store.root / named[0] / "config.json").is_file():
        run = store.run(named[0])
        return run.group, run, named
    try:
        return store.group(named[0] if named else "@last"), None, named
    except RlclinicError:
        return None, None, []


def _fill(text: str, group: Group | None, run: Run | None, question: str) -> str:
    """A command with the group, the run and the environment in place of what stands for them."""
    path = next((word for word in question.split() if "/" in word and Path(word).exists()), None)
    format = next((name for name in get_args(ExportFormat) if re.search(rf"\b{name}\b", question, re.IGNORECASE)), "html")
    text = re.sub(r"\bhtml$", format, text) if text.startswith("rlclinic runs export ") else text
    if group is None:
        return re.sub(r"\bLOGS\b", path or "LOGS", text)
    threshold = number(group.threshold) if group.threshold is not None else "RETURN"
    subject = run.id if run is not None else group.id
    values = {"GROUP": group.id, "RUN": subject, "ENV": group.env_id, "LOGS": path or "LOGS", "RETURN": threshold}
    # A log of another framework is asked for where the question names one; else the last group is meant.
    if path is None and text.startswith("rlclinic diagnose LOGS"):
        return f"rlclinic diagnose {subject}"
    if path is None and text.startswith('diagnose_run(run_id="LOGS"'):
        return f'diagnose_run(run_id="{subject}")'
    filled = re.sub(r"\b(GROUP|RUN|ENV|LOGS|RETURN)\b", lambda found: values[found[0]], text)
    return filled.replace("@last", subject)


def _facts(name: str, group: Group | None, run: Run | None) -> tuple[list[str], int | None, str | None]:
    """What the store says about a question, in numbers; the prescription to try, if there is one; and the rule that says why."""
    if group is None:
        return [f"there are no runs in this store yet: {Action('train', 'CartPole-v1:ppo', seeds=4)}"], None, None
    try:
        if name == "in-progress":
            return _progress(group), None, None
        if name == "batch-size":
            return _batches(group), None, None
        if name in ("too-slow", "did-not-converge", "stuck", "not-solved", "crashes", "faster", "just-finished"):
            return _diagnosed(name, group, run)
    except RlclinicError as error:
        return [str(error).splitlines()[0]], None, None
    return [], None, None


def _progress(group: Group) -> list[str]:
    live = [run for run in group.runs if run.status.live]
    lines = []
    for run in live[:4]:
        status = run.status
        share = f" ({percent(status.env_steps / status.max_env_steps)})" if status.max_env_steps else ""
        goal = f" of {number(run.threshold)}" if run.threshold is not None else ""
        lines.append(f"{run.id}: {count(status.env_steps)} env steps{share}, return {number(status.eval_mean or status.return_mean)}{goal}")
    return lines or [f"nothing is training now; {group.id} ended {group.verdict}"]


def _diagnosed(name: str, group: Group, run: Run | None) -> tuple[list[str], int | None, str | None]:
    """Where the group stands, since when, why, what to change, and what the best group here needed."""
    from rlclinic.ops.diagnose.diagnose import diagnose

    summary = group.summary
    report = diagnose(run.id if run is not None else group.id, group.path.parent.parent, write=False)
    lines = [_standing(group)]
    if name in ("stuck", "not-solved") and summary.best is not None and summary.best_at is not None:
        lines.append(
            f"its best was {number(summary.best)} at {short(summary.best_at)}, of {short(summary.max_env_steps)} planned env steps a seed"
        )
    failed = [each for each in group.runs if each.status.reason and each.status.state in ("failed", "crashed")]
    if name == "crashes":
        lines += [f"{each.id} {each.status.state}: {each.status.reason}" for each in failed[:2]] or ["no run of it failed or crashed"]
    cause = report.diagnosis.causes[0]
    lines.append(f"first cause: {cause.title}, p {cause.probability:.2f}" + (f" ({cause.rules[0]})" if cause.rules else ""))
    advised = [] if cause.calm else report.recommendations
    if advised:
        lines.append(f"first change: {report.recommendations[0].change}")
    if name in ("faster", "too-slow"):
        lines += _speed(group)
    if report.comparable is not None:
        lines.append(f"best here: {report.comparable.group}, {report.comparable.said}")
    # Advice is no prescription that a trial could try.
    change = next((each.number for each in advised if each.prescribed and each.overrides), None)
    return lines, change, cause.rules[0] if cause.rules else None


def _standing(group: Group) -> str:
    summary = group.summary
    parts = [f"{group.id} {summary.verdict}"]
    if summary.threshold is not None and summary.seeds:
        asked = "" if summary.required_success is None else f" and {percent(summary.required_success)} success"
        parts.append(f"{summary.n_reached} of {plural(summary.n_seeds, 'seed')} reached {number(summary.threshold)}{asked}")
    if summary.score is not None:
        parts.append(f"return {number(summary.score.value)}")
    reached = [seed.reached_at for seed in summary.reached if seed.reached_at is not None]
    if reached:
        censored = summary.n_seeds - len(reached)
        more = f", {censored} not within {short(summary.max_env_steps)}" if censored else ""
        span = " – ".join(dict.fromkeys((short(min(reached)), short(max(reached)))))
        parts.append(f"threshold at {span} env steps{more}")
    elif summary.threshold is not None:
        parts.append(f"threshold not within {short(summary.max_env_steps)} env steps")
    return " · ".join(parts)


def _speed(group: Group) -> list[str]:
    """Where the wall time goes, and how soon other groups of the same kind got there."""
    from rlclinic.ops.diagnose import best_group
    from rlclinic.ops.runs.ranking import outcome

    summary, lines = group.summary, []
    if summary.fps is not None and summary.wall_seconds is not None:
        parts = " · ".join(f"{name} {percent(share)}" for name, share in list(summary.phases.items())[:3])
        lines.append(f"{count(summary.fps)} env steps/s, {duration(summary.wall_seconds)} a seed" + (f": {parts}" if parts else ""))
    others = [outcome(other) for other in best_group.candidates(group)]
    steps = [(other.steps, other.group.id) for other in others if other.steps is not None]
    if steps:
        soonest = min(steps)
        lines.append(f"soonest of {plural(len(others), 'other group')} here: {soonest[1]} after {short(soonest[0])} env steps")
    return lines


def _other_batch(group: Group) -> int:
    """A batch size that fits and that the group does not have: half of its own, or twice."""
    rows = group.config.batch_rows
    return rows // 2 if rows >= 64 and rows % 2 == 0 else 2 * rows


def _batches(group: Group) -> list[str]:
    """What follows from the batch size of a group, which sizes would fit, and how those that were tried did."""
    from rlclinic.config import describe
    from rlclinic.ops.diagnose import best_group
    from rlclinic.ops.runs.ranking import outcome
    from rlclinic.runs import coerce

    config = group.config
    numbers, rows = describe(config), config.batch_rows
    lines = []
    if "rollout_size" in numbers:
        rollout = int(numbers["rollout_size"])
        lines.append(
            f"{group.id}: batch {rows} of a rollout of {count(rollout)} = {config.env.n_envs} envs x {rollout // config.env.n_envs} steps: "
            f"{numbers['minibatches_per_epoch']} per epoch, {numbers['gradient_steps_per_rollout']} gradient steps on each rollout, "
            f"{count(numbers['iterations'])} rollouts in {short(config.run.max_env_steps)} env steps"
        )
        sizes = [size for size in (2**power for power in range(5, 16)) if size <= rollout and rollout % size == 0]
        epochs = int(numbers["gradient_steps_per_rollout"] / max(1, numbers["minibatches_per_epoch"]))
        usual = [size for size in sizes if 4 <= rollout // size * epochs <= 400]
        fitting = ", ".join(map(str, usual)) or "none"
        lines.append(f"sizes that divide it: {', '.join(map(str, sizes)) or rollout}; with 4 to 400 gradient steps a rollout: {fitting}")
    else:
        drawn = number(numbers["times_each_transition_is_drawn"])
        lines.append(
            f"{group.id}: batch {rows}, each transition is drawn {drawn} times, {count(numbers['gradient_steps'])} gradient steps in all"
        )
    tried: dict[int, list[Any]] = {}
    for other in [group, *best_group.candidates(group)]:
        size = coerce.whole(coerce.within(other.record, "algo", "batch_size"))
        if size is not None:
            tried.setdefault(size, []).append(outcome(other))
    for size, outcomes in sorted(tried.items()):
        seeds, kept = sum(each.seeds for each in outcomes), sum(each.kept for each in outcomes)
        steps = [each.steps for each in outcomes if each.steps is not None]
        soon = f", median {short(sorted(steps)[len(steps) // 2])} env steps" if steps else ""
        lines.append(
            f"tried here: batch {size} in {plural(len(outcomes), 'group')}, {kept} of {plural(seeds, 'seed')} reached the threshold{soon}"
        )
    return lines
