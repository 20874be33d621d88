"""How often the verdicts are wrong, how often they are right, and whether intervals hold what they promise.

    python -m benchmarks.proof                      all figures, 20,000 simulated cases each
    python -m benchmarks.proof --only compare       the figures of one room
    python -m benchmarks.proof --quick              200 cases each: shows that it works
    PROOF_WORKERS=4 python -m benchmarks.proof      on four cores (all of them); figures do not depend on it

Every figure comes from the product's own decision functions, on data drawn as benchmarks/proof/scenarios.py says. Each module beside this
one has `rows(simulations)`: one dict for each figure with `what`, `unit`, `value`, `interval`, `better`, `bar`, `stretch`.
"""

import importlib
import time
from typing import Final

from benchmarks import provenance

MODULES: Final = ("trials", "environments", "compare", "regress", "intervals", "sensitivity", "optimize", "race", "questions", "fresh")
SIMULATIONS: Final = 20_000
QUICK: Final = 200


def main() -> None:
    """Simulate what the command line asks for, and save the rows as benchmarks/results/proof.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--only", nargs="*", choices=MODULES, default=list(MODULES))
    parser.add_argument("--simulations", type=int)
    args = parser.parse_args()
    simulations = args.simulations or (QUICK if args.quick else SIMULATIONS)
    rows = []
    for name in args.only:
        began = time.monotonic()
        for row in importlib.import_module(f"benchmarks.proof.{name}").rows(simulations):
            rows.append({"simulations": simulations, **row})
            print(f"{row['what']}: {row['value']:.4g} (bar {row.get('bar', '–')})", flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    asked = "" if args.only == list(MODULES) else " --only " + " ".join(args.only)
    origin = provenance.provenance(f"python -m benchmarks.proof --simulations {simulations}{asked}")
    print(provenance.write("proof", rows, origin, args.quick))


if __name__ == "__main__":
    main()
