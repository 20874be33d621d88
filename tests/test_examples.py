"""The examples run as they stand, with a small budget, and say what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "train_cartpole.py": "one episode with the policy",
    "data_parallel.py": "ranks whose weights differ from rank 0's: 0",
    "find_the_fault.py": "policy step too large",
    "own_environment.py": "-s1",
    "watch_and_stop.py": "greedy return over 20 episodes",
    "ask_an_expert.py": "DAgger: 256 labels, the policy alone returns",
    "recorded_then_online.py": "going online cost",
    "shaped_reward.py": "a potential: potential-based: yes; 100.0% of the task's return is kept",
}
TRAINS = set(SAYS) - {"shaped_reward.py"}


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_the_example_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / name), "4096"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
    assert (tmp_path / "runs" / "@last").exists() == (name in TRAINS)
