"""What happened in which order: for each likely cause, what moved first, what came with it, and what the config has to do with it."""

import statistics
from collections.abc import Mapping, Sequence

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.causes import Weights
from rlclinic.diagnosis.findings import Cause, Finding, GroupFinding
from rlclinic.diagnosis.registry import CONFIG, say
from rlclinic.diagnosis.signals import detect

ByRun = Mapping[str, Mapping[str, Finding]]
"""By rule and run: the clearest finding of each."""


def tell(cause: Cause, row: Weights | None, findings: Sequence[GroupFinding], by_run: ByRun, cases: Sequence[Case]) -> Cause:
    """The cause with its story: that of the run in which its key finding is the clearest.

    What only other runs show is told with their seeds. Otherwise one sentence would hold the numbers of several runs, which may
    contradict each other: a policy that made huge steps in one seed, and stands still in another.
    """
    by_rule = {finding.rule: finding for finding in findings}
    speaking = [by_rule[rule] for rule in cause.rules]
    observed = [finding for finding in speaking if not is_config(finding)]
    config = [finding for finding in speaking if is_config(finding)]
    brought = [by_rule[rule] for rule in sorted((row.explains if row else frozenset()) & by_rule.keys()) if rule not in cause.rules]
    runs = by_run.get(observed[0].rule, {}) if observed else {}
    main = max(runs, key=lambda run: (runs[run].strength, run), default=None)
    # The key finding leads, then what the same run shows, then other runs; each in the order in which it began, what was there from
    # the start first.
    rest = sorted(
        [*observed[1:], *brought],
        key=lambda finding: (main not in by_run.get(finding.rule, {main: None}), finding.onset or 0.0, -finding.strength),
    )
    told = [_of_run(finding, main, by_run, cases) for finding in rest]
    return cause.model_copy(
        update={
            "moved_first": _first(observed[0], cases) if observed else "",
            "with_it": " · ".join([text for text in told if not observed or not _repeats(text, observed[0].text)][:3]),
            "because": " · ".join(list(dict.fromkeys(finding.text for finding in config))[:2]),
        }
    )


def _repeats(text: str, told: str) -> bool:
    """Whether two rules read the same number: "KL 1e-6 per update (median)" after "KL 1e-6 per update at learning_rate 1e-5"."""
    return text.split()[:4] == told.split()[:4]


def _of_run(finding: GroupFinding, run: str | None, by_run: ByRun, cases: Sequence[Case]) -> str:
    """What a finding says of this run; where it was made in others only, what it says of the clearest of them, and which they are."""
    runs = by_run.get(finding.rule)
    if run is None or runs is None:
        return finding.text
    if run in runs:
        return runs[run].text
    clearest = max(runs, key=lambda other: (runs[other].strength, other))
    seeds = {case.id: case.history.seed for case in cases}
    return f"{finding.text} (in {clearest if seeds[clearest] is None else f'seed {seeds[clearest]}'})"


def _first(finding: GroupFinding, cases: Sequence[Case]) -> str:
    began = "" if finding.onset is None else f", from {say(finding.onset)} env steps on"
    fell = _return_fell(cases)
    if fell is None:
        return finding.text + began
    later = fell - (finding.onset or 0.0)
    after = (
        f"; the return fell {say(later)} steps later"
        if finding.onset is not None and later > 0
        else f"; the return fell from {say(fell)} on"
    )
    return finding.text + began + after


def _return_fell(cases: Sequence[Case]) -> float | None:
    """The median env step from which the return fell for good, if it did in half of the runs."""
    falls = [detect.collapse(case.signal(columns.RETURN)) if case.improved else None for case in cases if case.has(columns.RETURN)]
    known = [fall.peak_at for fall in falls if fall is not None]
    return statistics.median(known) if 2 * len(known) > len(falls) else None


def is_config(finding: GroupFinding) -> bool:
    """Whether a finding is about the config alone."""
    return bool(finding.evidence) and all(part.series.startswith(CONFIG) for part in finding.evidence)
