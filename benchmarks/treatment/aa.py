"""Real trials of equal arms: how many are called different? At most 3 of 20 may be, and one is what 5 % comes to.

Both arms train the same settings on different fresh seeds; everything else is what `rlclinic trial` does. The task is CartPole
with a low threshold and a small budget, so that a trial of up to 64 runs takes well under a minute on two quiet cores.

    python -m benchmarks.treatment.aa [--trials 20] [--quick]
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks import provenance
from rlclinic.config import load
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.trial import arms, conduct
from rlclinic.treatment.trial.models import Trial

SETTINGS = ("run.max_env_steps=4096", "run.eval_every_env_steps=512", "run.eval_episodes=10", "spec.threshold=120")


def equal_arms(store: Store, jobs: int | None) -> Trial:
    """One trial of a config against itself."""
    config = load("CartPole-v1:ppo", SETTINGS).config
    return conduct.run(store, conduct.plan(arms.control(config), [arms.against(config, config, "same")], whole_budget=True), cores=jobs)


def to_row(found: list[Trial]) -> dict[str, Any]:
    """The line of the table."""
    called = [each.verdict for each in found].count("adopt") + [each.verdict for each in found].count("reject")
    return {
        "what": f"equal arms called different, of {len(found)} real trials",
        "value": called,
        "unit": "",
        "better": "lower",
        "bar": round(3 * len(found) / 20),
        "stretch": round(len(found) / 20),
        "verdicts": [each.verdict for each in found],
        "last_z": [round(each.effects[0].z, 3) for each in found],
        "looks": [len(each.looks) for each in found],
        "env_steps": sum(each.used_env_steps for each in found),
    }


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--trials", type=int, default=20, help="how many")
    parser.add_argument("--jobs", type=int, help="processes at a time (one per core)")
    parser.add_argument("--scratch", type=Path, default=provenance.SCRATCH / "aa", help="where the runs go; trials that are there count")
    args = parser.parse_args()
    wanted = 2 if args.quick else args.trials
    store = Store(args.scratch)
    for record in trials.trials(store):
        # Killed in the middle: the same verdict as if it had not been.
        if record.verdict is None:
            conduct.resume(store, record.id, cores=args.jobs)
    while len(done := trials.trials(store)) < wanted:
        found = equal_arms(store, args.jobs)
        for group in trials.groups(store, found.id):
            store.remove(group)  # twenty trials of 64 runs: the verdict and its numbers are kept
        print(json.dumps({"trial": found.id, "verdict": found.verdict, "z": found.effects[0].z, "of": len(done) + 1}), file=sys.stderr)
    results = [conduct.load(store, record.id) for record in trials.trials(store)[:wanted]]
    command = "python -m benchmarks.treatment.aa" + (" --quick" if args.quick else "")
    path = provenance.write("treatment_trials", [to_row(results)], provenance.provenance(command), args.quick)
    print(path)
    if not args.quick:
        shutil.rmtree(args.scratch)


if __name__ == "__main__":
    main()
