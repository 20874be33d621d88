"""How long `data check` takes for ten million transitions, and how much memory it needs.

python -m benchmarks.recorded_data.check
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import provenance
from rlclinic.datasets import Episode, Space, folder

LENGTH = 1_000


def episodes(count: int) -> Iterator[Episode]:
    """Walks of a thousand steps with 17 numbers and 6 actions, as in HalfCheetah."""
    draw = np.random.default_rng(0)
    for _ in range(count):
        observations = np.cumsum(draw.normal(0, 0.1, (LENGTH + 1, 17)).astype(np.float32), 0)
        actions = draw.uniform(-1, 1, (LENGTH, 6)).astype(np.float32)
        yield Episode(observations, actions, actions.sum(1), False, True)


def main() -> None:
    """Write the data, check it in a process of its own, and keep what it took."""
    quick = provenance.parser(__doc__).parse_args().quick
    transitions = 100_000 if quick else 10_000_000
    box = Space("box", (6,), low=(-1.0,) * 6, high=(1.0,) * 6)
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "data"
        folder.write(path, episodes(transitions // LENGTH), Space("box", (17,)), box, source="walks")
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rlclinic", "data", "check", str(path), "--json"], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
    # Pages of mapped files count, too, as far as they are in memory.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    rows = [
        {"what": f"{transitions:,} transitions: time", "unit": "s", "value": seconds, "better": "lower", "bar": 60, "stretch": 20},
        {"what": f"{transitions:,} transitions: memory", "unit": "GB", "value": peak, "better": "lower", "bar": 2, "stretch": None},
    ]
    for row in rows:
        print(f"{row['what']}: {row['value']:.2f} {row['unit']} (bar {row['bar']})")
    provenance.write("data_check", rows, provenance.provenance("python -m benchmarks.recorded_data.check"), quick)


if __name__ == "__main__":
    main()
