"""How long a trial takes, from typing it to the prompt: 2 arms x 8 seeds, CartPole-v1, 100k env steps each, one look, 2 cores.

Measured twice: as it is by default, where a run ends when it reaches the threshold (its outcome is known), and with
--whole-budget, where all 1.6 million env steps are trained. The bar is for the second.

    python -m benchmarks.treatment.trial_speed [--repeats 3] [--quick]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
RLCLINIC = Path(sys.executable).with_name("rlclinic")
COMMAND = ("trial", "CartPole-v1:ppo_zoo", "--set", "learning_rate=2e-3", "--looks", "1", "--yes", "--quiet", "--json")
KINDS = {
    "all 100k steps": (("--whole-budget",), 70.0, 45.0),
    "runs end at the threshold": ((), None, None),
}


def once(more: tuple[str, ...], steps: int) -> tuple[float, int]:
    """Wall seconds and env steps of one trial in an empty store."""
    with tempfile.TemporaryDirectory(prefix="rlclinic-trial-") as folder:
        began = time.monotonic()
        words = [str(RLCLINIC), *COMMAND, *more, "--max-env-steps", str(steps), "--jobs", "2", "--runs-dir", str(Path(folder) / "runs")]
        done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
        return time.monotonic() - began, json.loads(done.stdout)["trial"]["used_env_steps"]


def measure(kind: str, repeats: int, steps: int) -> dict[str, Any]:
    """The line of the table: the median over repeats."""
    more, bar, stretch = KINDS[kind]
    found = [once(more, steps) for _ in range(repeats)]
    seconds = [each[0] for each in found]
    return {
        "what": f"trial of 2 arms x 8 seeds, CartPole-v1, 100k env steps each, whole command, {kind}",
        "value": float(np.median(seconds)),
        "unit": "s",
        "better": "lower",
        "bar": bar,
        "stretch": stretch,
        "seconds": seconds,
        "env_steps": [each[1] for each in found],
    }


def main() -> None:
    parser = provenance.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="how often each is timed")
    args = parser.parse_args()
    repeats, steps = (1, 5_000) if args.quick else (args.repeats, 100_000)
    rows = [measure(kind, repeats, steps) for kind in KINDS]
    for row in rows:
        print(f"{row['what']}: {row['value']:.1f} s ({', '.join(f'{each:.1f}' for each in row['seconds'])})", file=sys.stderr)
    command = "python -m benchmarks.treatment.trial_speed" + (" --quick" if args.quick else "")
    print(provenance.write("treatment_trials", rows, provenance.provenance(command), args.quick))


if __name__ == "__main__":
    main()
