"""Runs that the old code stopped in the middle: what they end as when they are resumed."""

import csv
import hashlib
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

from tests.recorded import answers, faces

STOPPED = ("ppo", "dqn", "sac", "table")
EVALUATED = ("healthy", "dqn", "sac", "table")
# Weights that differ in the last bits make rows that differ a little more; those of a wrong resume are far away.
LIKE = 1e-4


def resume(name: str, folder: Path) -> dict[str, Any]:
    """Resume a stopped run in a copy of the recorded runs under `folder` (the working folder), and say what it ended as."""
    run = f"{answers.ids()[name]}-s0"
    code, _, err = faces.run_command("train", "--resume", run, "--quiet", "--json")
    assert code == 0, err
    path = folder / "runs" / run
    last = max((path / "checkpoints").iterdir(), key=lambda each: int(each.name) if each.name.isdigit() else -1)
    sums = {file: hashlib.sha256((last / file).read_bytes()).hexdigest() for file in ("policy.safetensors", "optimizer.safetensors")}
    return {"state": json.loads((path / "status.json").read_text())["state"], "step": int(last.name), **sums, "rows": rows(path)}


def rows(path: Path) -> dict[str, list[str]]:
    """The columns of metrics.csv that no clock decides."""
    with (path / "metrics.csv").open(newline="") as file:
        table = list(csv.reader(file))
    return {name: [row[place] for row in table[1:]] for place, name in enumerate(table[0]) if not name.startswith("time")}


def evaluate(name: str) -> dict[str, Any]:
    """What a checkpoint of the recorded runs (in the working folder) is worth."""
    code, out, err = faces.run_command("evaluate", f"{answers.ids()[name]}-s0", "--episodes", "4", "--json")
    assert code == 0, err
    return json.loads(out)


def fingerprint() -> str:
    """Machines with the same one compute the same bits: what a fixed net gives on this processor, and with which torch."""
    import torch

    numbers = torch.linspace(-2, 2, 96 * 64).reshape(96, 64).sin()
    product = numbers @ numbers[:64].T
    hidden = torch.baddbmm(product[:1].unsqueeze(0), product.unsqueeze(0), numbers[:64].unsqueeze(0)).tanh()
    parts = (product, hidden, hidden.exp().sum(-1), hidden.log_softmax(-1), hidden.square().mean().sqrt())
    digest = hashlib.sha256(b"".join(part.contiguous().numpy().tobytes() for part in parts)).hexdigest()
    return f"{platform.machine()} {torch.__version__.partition('+')[0]} {torch.backends.cpu.get_cpu_capability()} {digest[:16]}"


def record() -> None:
    """Resume every stopped run with the code that is checked out, and write what it ended as."""
    ends: dict[str, Any] = {"fingerprint": fingerprint()}
    for name in STOPPED:
        with tempfile.TemporaryDirectory() as folder:
            ends[name] = answers.in_copy(Path(folder), lambda here, name=name: resume(name, here))
    with tempfile.TemporaryDirectory() as folder:
        ends["evaluations"] = answers.in_copy(Path(folder), lambda _: {name: evaluate(name) for name in EVALUATED})
    answers.save("resumes", ends)


def expected() -> dict[str, Any]:
    """What was recorded."""
    return answers.load("resumes")


def alike(found: str, wanted: str) -> bool:
    """Two entries of a row that another machine may have computed."""
    try:
        return abs(float(found) - float(wanted)) <= LIKE * max(abs(float(found)), abs(float(wanted)), 1e-3)
    except ValueError:
        return found == wanted
