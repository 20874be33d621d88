"""The same data judged by others, as they are used in practice: Welch's t-test, rliable 1.2 and AdaStop 0.1.3, beside our trial.

    python -m venv build/peers && build/peers/bin/pip install adastop==0.1.3 rliable==1.2.0 "pandas<3"
    python -m benchmarks.proof.peers --peers-python build/peers/bin/python

They see returns: minus the steps, a run that never got there with the steps of its budget. Welch's test and rliable judge 32 seeds an
arm at once; AdaStop and we look four times, after 8 seeds each. rliable's users read two pictures: whether the intervals of the two
IQMs are apart, and whether that of P(improvement) leaves one half out; both are counted. A bootstrap takes a second: few cases.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.proof import race, trials
from benchmarks.proof.scenarios import Draws, draw_times
from benchmarks.proof.shares import describe_share
from rlclinic.treatment.trial import sequential

LOOKS, PER_LOOK = trials.RULE.looks, trials.RULE.per_look
BUDGET: Final = 5.0
"""Times the control's median: what is written down for a run that never got there."""
CASES: Final = 200
PEERS: Final = ("Welch", "rliable, IQMs apart", "rliable, P(improvement)", "AdaStop")


def scenarios() -> dict[str, tuple[str, trials.Draw]]:
    """What is asked (a wrong verdict, a wrong ADOPT, power) of each world, and how it is drawn."""
    nulls = {f"equal: {name}": ("different", draw) for name, draw in trials.NULLS.items()}
    falls = {f"faster but failing: {name}": ("adopted", draw) for name, (draw, _) in trials.COLLAPSES.items()}
    return nulls | falls | {"power: 30 % fewer steps": ("adopted", trials.draw_pair({}, {"median": 0.7}))}


def judge_ours(control: Draws, treatment: Draws) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Our calls (1: better, -1: worse) and the seeds an arm that they took."""
    calls, seeds = trials.carry_out(lambda rng, shape: (control, treatment), control.shape[1])
    return np.where(calls == sequential.BETTER, 1, np.where(calls == sequential.WORSE, -1, 0)), seeds


RACES: Final[dict[str, tuple[Draws, tuple[int, int]]]] = {
    "3 arms, the best takes 30 % fewer steps than each": (np.array([0.7, 1.0, 1.0]), (10, 4)),
    "3 equal arms": (np.ones(3), (20, 5)),
}
"""Median steps of the arms of a race, and its seeds."""
BATCH: Final = 20
RACED: Final = 100


def race_beside_adastop(python: Path, cases: int) -> Iterator[dict[str, Any]]:
    """The same runs raced by us, by AdaStop (5 looks of 8 seeds, 400 permutations), and judged by Welch's tests with Holm's correction."""
    for name, (medians, (first, last)) in RACES.items():
        verdicts: dict[str, list[tuple[list[int], int]]] = {"rlclinic": [], "AdaStop": [], "Welch with Holm": []}
        for batch in range(max(1, cases // BATCH)):
            rng = np.random.default_rng([20_261_118, first + batch, last])
            tables = [draw_times(rng, (len(medians), race.SEEDS)) * medians[:, None] for _ in range(BATCH)]
            verdicts["AdaStop"] += race.ask_adastop(tables, 400, python) or []
            boards = [race.race_table(table) for table in tables]
            verdicts["rlclinic"] += [(board.alive, sum(map(len, board.scores))) for board in boards]
            verdicts["Welch with Holm"] += [(race.name_by_welch(table), table.size) for table in tables]
        equal = bool(np.all(medians == medians[0]))
        for who, made in verdicts.items():
            hits = sum(len(alive) < len(medians) if equal else alive == [0] for alive, _ in made)
            what = f"race, {name}, {who}: {'any arm called worse' if equal else 'best arm named'}"
            shown = describe_share(what, hits, len(made), None, better="lower" if equal else "higher")
            yield shown | {"runs": float(np.mean([runs for _, runs in made]))}


def main() -> None:
    """Draw, let everybody judge, and save benchmarks/results/proof-peers.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--peers-python", type=Path, required=True, help="Python of an environment with adastop and rliable.")
    parser.add_argument("--cases", type=int, default=CASES)
    args = parser.parse_args()
    cases = 10 if args.quick else args.cases
    rows: list[dict[str, Any]] = []
    for name, (asked, draw) in scenarios().items():
        control, treatment = draw(np.random.default_rng(0), (LOOKS, cases, PER_LOOK))
        verdicts: dict[str, tuple[Any, Any]] = {"rlclinic": judge_ours(control, treatment)}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "draws.npz"
            np.savez(file, control=-np.minimum(control, BUDGET), treatment=-np.minimum(treatment, BUDGET))
            subprocess.run([args.peers_python, Path(__file__).parent / "peer_verdicts.py", file], check=True)
            made = np.load(file)
            verdicts |= {peer: (made[peer], made[f"{peer} seeds"]) for peer in PEERS}
        for who, (calls, seeds) in verdicts.items():
            value = float(np.mean(calls != 0 if asked == "different" else calls == 1))
            rows.append(
                {
                    "what": f"{name}, {who}: {'called different' if asked == 'different' else 'called better'}",
                    "unit": "",
                    "value": value,
                    "better": "higher" if name.startswith("power") else "lower",
                    "bar": None,
                    "seeds": float(np.mean(seeds)),
                    "simulations": cases,
                }
            )
            print(f"{rows[-1]['what']}: {value:.3f} ({np.mean(seeds):.1f} seeds an arm)", flush=True)
    for made_row in race_beside_adastop(args.peers_python, BATCH if args.quick else RACED):
        rows.append(made_row)
        print(f"{made_row['what']}: {made_row['value']:.3f} ({made_row['runs']:.0f} runs, {made_row['simulations']} races)", flush=True)
    origin = provenance.provenance(f"python -m benchmarks.proof.peers --peers-python PYTHON --cases {cases}")
    print(provenance.write("proof-peers", rows, origin, args.quick))


if __name__ == "__main__":
    main()
