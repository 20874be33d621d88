"""What is said of tasks: environments with tuned variants, whether exploration holds one back, what its reward pays for, curricula."""

from typing import Final

from rlclinic.report.document import Block, Card, Commands, Gap, Rows, Table, Text, Tone, Verdict
from rlclinic.report.format import count, number, percent, plural
from rlclinic.report.models import CurriculumReport, EnvironmentList, ExplorationReport, NewEnvironment, RewardBalanceReport, RewardReport

HARDLY: Final = 10
"""Lengths of a run in which novelty has to halve to be said to fall."""
FEW: Final = 3
"""Up to so many environments, what each is about is said as well."""
VERDICTS: Final[dict[str, Tone]] = {"BOTTLENECK": "bad", "NOT": "good", "NOT ASSESSABLE": "note"}
HELD_BACK: Final = {
    "BOTTLENECK": "exploration is what holds it back",
    "NOT": "exploration is not what holds it back",
    "NOT ASSESSABLE": "",
}
BALANCES: Final[dict[str, Tone]] = {
    "AGAINST THE TASK": "bad",
    "ONE TERM DECIDES": "warn",
    "CONFLICT": "warn",
    "BALANCED": "good",
    "NOT ASSESSABLE": "note",
}
LEVELS: Final[dict[str, Tone]] = {"error": "bad", "warning": "warn", "note": "note"}


def describe_environments(result: EnvironmentList) -> list[Block]:
    """`envs`: each with its threshold, its variants and what it is; of a few, what every variant was measured to do."""
    if len(result.environments) > FEW:
        rows = [[row.id, number(row.threshold, 4), ", ".join(row.variants), row.problem or row.description] for row in result.environments]
        return [Table(["environment", ">threshold", "variants", "what it is"], rows)]
    blocks: list[Block] = []
    for row in result.environments:
        threshold = "" if row.threshold is None else f" · threshold {number(row.threshold, 4)}"
        measured = [[f"{row.id}:{variant}", row.measured.get(variant, "nothing yet")] for variant in row.variants]
        blocks += [Text(f"{row.id}{threshold} · {row.problem or row.description}"), Table(["variant", "measured"], measured), Gap()]
    return blocks[:-1]


def describe_exploration(report: ExplorationReport) -> list[Block]:
    """The verdict, what each run met, and what to try."""
    cells = [
        [
            run.run,
            run.what or "not logged",
            "never" if run.first is None and run.what else "" if run.first is None else count(run.first),
            count(run.env_steps),
            "" if run.episodes is None else count(run.episodes),
            "" if run.bound is None else f"below {number(run.bound)}",
        ]
        for run in report.runs
    ]
    rows = [("exploration", report.reason)]
    if report.new_states is not None:
        rows.append(("new states", f"{number(report.new_states)} per 1,000 env steps at the end"))
    if report.half_life is not None:
        longest = max((run.env_steps for run in report.runs), default=0)
        falls = report.half_life <= HARDLY * longest
        rows.append(("half-life", f"novelty halves in {count(round(report.half_life))} env steps" if falls else "novelty hardly falls"))
    if report.prescription:
        rows.append(("try", ", ".join(f"{key}={value}" for key, value in report.prescription.items())))
    rows += [("note", note) for note in report.notes]
    heads = ["run", "what is wanted", ">first met", ">env steps", ">episodes", ">chance per episode"]
    verdict = Verdict(report.verdict, HELD_BACK[report.verdict], VERDICTS[report.verdict])
    blocks: list[Block] = [verdict, Rows(rows, 12), Table(heads, cells)]
    return blocks if report.next is None else [*blocks, Commands([("prove it", report.next)])]


def describe_curriculum(report: CurriculumReport) -> list[Block]:
    """Each run's way through the stages, and its success in each task."""

    def share(value: float | None) -> str:
        return "" if value is None else percent(value)

    ways, able = [], []
    for run in report.runs:
        way = " > ".join(
            f"{stay.name} ({count(stay.entered)}{'' if stay.how is None else f', {stay.how} at {count(stay.left or 0)}'})"
            for stay in run.stays
        )
        chosen = "" if run.spread is None else f"chosen among {len(report.tasks)} tasks, evenness {number(run.spread)}"
        ways.append([run.run, share(run.success), share(run.target_share), count(run.env_steps), way or chosen])
        for task in run.tasks:
            played = "" if task.episodes is None else count(task.episodes)
            able.append([run.run, task.name, share(task.threshold), played, share(task.training), share(task.evaluation), share(task.best)])
    blocks: list[Block] = [
        Rows([("curriculum", f"{report.kind}, {plural(len(report.tasks), 'task')}")], 12),
        Table(["run", ">success in the task", ">episodes in it", ">env steps", "way"], ways),
    ]
    heads = ["run", "task", ">threshold", ">episodes", ">in training", ">evaluated", ">best"]
    return [*blocks, Table(heads, able)] if able else blocks


def describe_reward(report: RewardReport) -> list[Block]:
    """The verdict, each term, and what was seen."""
    errors, warnings = (sum(remark.level == level for remark in report.remarks) for level in ("error", "warning"))
    verdict = Verdict("SOUND", "nothing was found that pays for something else", "good")
    if errors:
        verdict = Verdict("PAYS FOR SOMETHING ELSE", plural(errors, "error"), "bad")
    elif warnings:
        verdict = Verdict("LOOK AGAIN", plural(warnings, "warning"), "warn")
    played = f"{count(report.steps)} random steps in {plural(report.episodes, 'episode')}, {count(report.terminations)} terminated"
    paid = f"{percent(report.density)} of the steps pay; median {number(report.scale_median)}, at most {number(report.scale_max)}"
    blocks: list[Block] = [verdict, Rows([("looked at", f"{played}; gamma {report.gamma:g}"), ("paid", paid)], 12)]
    if report.terms:
        cells = [
            [
                term.name,
                term.potential,
                "" if term.residual is None else percent(term.residual),
                "" if term.best is None or term.kept is None else f"{number(term.kept)} of {number(term.best)}",
                term.why,
            ]
            for term in report.terms
        ]
        blocks.append(Table(["term", "potential?", ">unexplained", ">task's return kept", "why"], cells))
    cards = [
        Card(remark.level, remark.name, [("what", remark.what), ("do", remark.do)], tone=LEVELS[remark.level]) for remark in report.remarks
    ]
    return [*blocks, *cards]


def describe_new_environment(made: NewEnvironment) -> list[Block]:
    """The files, and what to do with them."""
    rows = [("environment", made.env), ("terms", ", ".join(made.terms)), *(("wrote", file) for file in made.files)]
    return [Rows(rows, 12), Commands(list(zip(("check it", "weigh it", "train it"), made.next, strict=True)))]


def describe_reward_balance(report: RewardBalanceReport) -> list[Block]:
    """The verdict, each term over training, and which of them pull against each other."""

    def share(value: float | None) -> str:
        return "" if value is None else percent(value)

    verdict = Verdict(report.verdict, "", BALANCES[report.verdict])
    facts = [("balance", report.reason), ("the task", report.truth or "no success was logged")]
    if report.rest is not None:
        beside = f"{number(report.rest)} an episode: a term that came later, changed its name or was never told"
        facts.append(("untold", beside))
    blocks: list[Block] = [verdict, Rows(facts, 12)]
    if report.terms:
        cells = [
            [
                f"{term.name} (a potential)" if term.potential else term.name,
                share(term.first_share),
                share(term.last_share),
                number(term.first_return),
                number(term.last_return),
                number(term.with_truth, 2),
            ]
            for term in report.terms
        ]
        heads = ["term", ">share at first", ">share at the end", ">return at first", ">return at the end", ">with success"]
        blocks.append(Table(heads, cells))
    if report.conflicts:
        rows = [
            [f"{pair.first} and {pair.second}", number(pair.correlation, 2), f"{count(pair.start)} to {count(pair.end)}"]
            for pair in report.conflicts
        ]
        blocks.append(Table(["pull against each other", ">correlation", "strongest in env steps"], rows))
    return blocks if report.next is None else [*blocks, Commands([("try both", report.next)])]
