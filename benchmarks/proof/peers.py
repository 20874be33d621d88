"""The same data judged by others, as they are used in practice: Welch's t-test, rliable 1.2 and AdaStop 0.1.3, beside our trial.

    python -m venv build/peers && build/peers/bin/pip install adastop==0.1.3 rliable==1.2.0 "pandas<3"
    python -m benchmarks.proof.peers --peers-python build/peers/bin/python

They see returns: minus the steps, a run that never got there with the steps of its budget. Welch's test and rliable judge 32 seeds an
arm at once; AdaStop and we look four times, after 8 seeds each. rliable's users read two pictures: whether the intervals of the two
IQMs are apart, and whether that of P(improvement) leaves one half out; both are counted. A bootstrap takes a second: few cases.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.proof import trials
from benchmarks.proof.scenarios import Draws
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
    origin = provenance.provenance(f"python -m benchmarks.proof.peers --peers-python PYTHON --cases {cases}")
    print(provenance.write("proof-peers", rows, origin, args.quick))


if __name__ == "__main__":
    main()
