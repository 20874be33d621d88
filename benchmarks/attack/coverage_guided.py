"""atheris over what reads strangers' bytes: YAML, changes of settings, and the readers of logs.

Each target runs in a process of its own for some minutes. Bytes are mutated towards code that no input has reached; an exception
that is not one of rlclinic's, an input that takes more than 10 s, or more than 2 GB of memory end it, and the input is printed.
atheris is a package of its own (`pip install 'rlclinic[attack]'`), with wheels for CPython 3.11 to 3.13; without it the hand-made and
mutated files of `benchmarks.attack.files` are what is left.
"""

import difflib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rlclinic.config import Config

SECONDS: Final = {"quick": 5, "bar": 60, "stretch": 1_800}
MEMORY: Final = Path("/dev/shm")
"""Two targets write a file for each input, which a disk would be the slower half of."""
INTERRUPTED: Final = 72
"""How libFuzzer ends when somebody ends it: no input did that."""
SUFFIXES: Final = (
    "progress.csv",
    "progress.json",
    "log.jsonl",
    "metrics.csv",
    "run.log",
    "monitor.csv",
    "events.out.tfevents.1.x",
    "run-x.wandb",
)


def rows(size: str) -> Iterator[dict[str, Any]]:
    """How many targets ended with an input that broke them."""
    if importlib.util.find_spec("atheris") is None:
        print("  atheris is not installed: pip install 'rlclinic[attack]'", flush=True)
        return
    broken, tried = [], []
    for target in TARGETS:
        runs, crash = attack(target, SECONDS[size])
        tried.append(f"{target} {runs:,}")
        if crash:
            broken.append(crash)
            print(f"  {target}: {crash}", flush=True)
    what = "inputs chosen by atheris: targets that one of them broke"
    note = f"inputs: {', '.join(tried)}"
    yield {"what": what, "unit": "targets", "value": len(broken), "better": "lower", "bar": 0, "stretch": 0, "note": note}


def attack(target: str, seconds: int) -> tuple[int, str]:
    """Fuzz one target; how many inputs were tried, and what broke it, if anything did."""
    with tempfile.TemporaryDirectory(prefix="rlclinic-guided-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number, sample in enumerate(_SAMPLES):
            (corpus / str(number)).write_bytes(sample)
        limits = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", f"-artifact_prefix={folder}/"]
        command = [sys.executable, "-m", "benchmarks.attack.coverage_guided", target, *limits, str(corpus)]
        stranger = {**os.environ, "RLCLINIC_TRUST": "", "RLCLINIC_STATE": str(Path(folder) / "state")}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=stranger, check=False)
        runs = re.findall(r"Done (\d+) runs|#(\d+)", done.stderr)
        count = int(next(filter(None, runs[-1]), "0")) if runs else 0
        if done.returncode in (0, INTERRUPTED):
            return count, ""
        inputs = [path.read_bytes() for path in Path(folder).glob("*-*") if path.is_file()]
        error = re.findall(r"^\w*(?:Error|Exception|Exit)\b.*", done.stderr, re.MULTILINE)
        return count, f"exit {done.returncode}, {(error or [done.stderr[-300:]])[-1][:200]}, input {inputs[:1]!r}"


# ── the process that is fuzzed ──


def _read_yaml(data: bytes) -> None:
    import yaml

    from rlclinic.config import yaml_text

    # What its callers are told to expect of a text that is no YAML.
    with suppress(yaml.YAMLError, ValueError):
        yaml_text.load(data, "fuzzed")
    with suppress(yaml.YAMLError, ValueError):
        yaml_text.compose(data.decode("utf-8", "replace"), "fuzzed", aliases=False)


def _read_change(data: bytes) -> None:
    from rlclinic.config import set_values

    set_values(_config(), [data.decode("utf-8", "replace")])


@cache
def _config() -> "Config":
    """What is changed: read once, since the file is no stranger's."""
    from rlclinic.config import files

    return files.load("CartPole-v1:ppo_zoo").config


def _read_config(data: bytes) -> None:
    from rlclinic.config import files

    path = _folder() / "fuzzed.yaml"
    path.write_bytes(data)
    files.load(str(path))


def _read_log(data: bytes) -> None:
    from rlclinic import readers

    name = SUFFIXES[data[0] % len(SUFFIXES)] if data else SUFFIXES[0]
    path = _folder() / name
    path.write_bytes(data[1:])
    try:
        readers.read(path)
    finally:
        path.unlink()


def _folder() -> Path:
    folder = Path(os.environ["RLCLINIC_STATE"])
    folder.mkdir(exist_ok=True)
    return folder


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "yaml": _read_yaml,
    "change": _read_change,
    "config": _read_config,
    "log": _read_log,
}
_SAMPLES: Final = (
    b"ppo:\n  env: {id: CartPole-v1, n_envs: 8}\n  algo: {name: ppo, n_steps: 32, learning_rate: {start: 1e-3, end: 0}}\n",
    b"a: &a [1, 2]\nb: *a\n<<: {c: 1}\nd: !!python/name:os.system x\n",
    b"algo.learning_rate={start: 1e-3, end: 0}",
    b"env.kwargs={a: [1, 2.5, yes, null]}",
    b"\x00time,total_timesteps,epoch,train/roll/ep_rew_mean\n1.0,100,1,2.5\n2.0,200,2,nan\n",
    b'\x02{"time/total_timesteps": 100, "rollout/ep_rew_mean": 1.5}\n{"time/total_timesteps": 200}\n',
    b'\x05#{"t_start": 1, "env_id": "CartPole-v1"}\nr,l,t\n10.0,10,0.1\n',
    b"\x04| rollout/ | |\n|    ep_rew_mean | 10 |\n| time/ | |\n| total_timesteps | 2048 |\n-----\n",
    b'\x06\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7fK"\t\x00\x00\x80\xe5\x0e\xd9\xd9A\x1a\rbrain.Event:2\xec\xf7\xc3\x9b',
    b"\x07:W&B\xe1\xbe\x00",
)


def _fuzz(target: str) -> None:
    import atheris

    # What is nearest to an unknown name is the standard library's work, and nine tenths of the time of most inputs.
    difflib.get_close_matches = lambda word, possibilities, n=3, cutoff=0.6: list(possibilities)[:n]
    with atheris.instrument_imports(include=["rlclinic"]):
        from rlclinic import readers  # noqa: F401
        from rlclinic.config import files, yaml_text  # noqa: F401
        from rlclinic.errors import RlclinicError

    def try_one(data: bytes) -> None:
        # Refusals are what is wanted; anything else ends the process.
        with suppress(RlclinicError):
            TARGETS[target](data)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    _fuzz(sys.argv[1])
