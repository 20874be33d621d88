"""Is this installation and machine fit to train, and if not, what to type."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from rlclinic.actions import Action, Change
from rlclinic.config import Config
from rlclinic.errors import ConfigError
from rlclinic.launch import places
from rlclinic.report.format import plural, size
from rlclinic.report.models import Check, Diagnostics

BASE = ("numpy", "pydantic", "pyyaml", "safetensors", "typer", "rich")
TRAIN = ("torch", "gymnasium", "matplotlib")
# Optional packages: what each is for, and what to type.
EXTRAS = {
    "box2d": ("LunarLander, BipedalWalker, CarRacing", "pip install 'gymnasium[box2d]'"),
    "mujoco": ("HalfCheetah, Hopper and the other MuJoCo tasks", "pip install 'gymnasium[mujoco]'"),
    "ale-py": ("Atari", "pip install ale-py"),
    "mcp": ("rlclinic mcp: tools for coding agents", "pip install 'rlclinic[mcp]'"),
    "tensorboard": ("looking at what training writes for TensorBoard", "pip install tensorboard"),
    "imageio-ffmpeg": ("a video of an evaluation as out.mp4 (GIFs need only Pillow)", "pip install 'imageio[ffmpeg]'"),
}
LOW_DISK_BYTES = 1_000_000_000
# A child process asks torch, so that a broken installation cannot take this process down with it.
_ASK_TORCH = """
import json, torch
names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
torch.zeros(2) @ torch.zeros(2)
print(json.dumps({"version": torch.__version__, "cuda": names}))
"""


def doctor(runs_dir: Path = Path("runs")) -> Diagnostics:
    """Check versions, torch, cores, memory, disk, permissions and extras."""
    checks = [_python(), _rlclinic()]
    checks += [_package(name, "pip install rlclinic") for name in BASE]
    checks += [_package(name, "pip install 'rlclinic[train]'") for name in TRAIN]
    if importlib.util.find_spec("torch"):
        checks.append(_torch_works())
    checks += [_cores(), _memory(), _disk(runs_dir), _permissions(runs_dir)]
    checks += [_extra(name, use, fix) for name, (use, fix) in EXTRAS.items()]
    return Diagnostics(checks=checks, healthy=all(check.status in ("ok", "warning") for check in checks))


def usable_cores() -> int:
    """Cores that this process may use: the affinity mask and a container's CPU quota both bind."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def idle_cores() -> int:
    """Cores of these that nobody uses now, by the load of the last minute; at least one.

    Threads that share a core wait for each other by spinning: two on a busy machine are several times slower than one.
    """
    busy = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    return max(1, round(usable_cores() * (1 - min(busy, 1.0))))


def has_gpu() -> bool:
    """Whether an NVIDIA driver is loaded; torch, which would know best, takes seconds to import."""
    return any(Path(sign).exists() for sign in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"))


_VERBS = {"captured": "capture", "compiled": "compile"}


def check_device(device: str | None) -> None:
    """Refuse a GPU that is not there before folders are made for it."""
    if device == "cuda" and not has_gpu() and not places.on_ray():
        raise ConfigError(
            "run.device=cuda, but there is no NVIDIA driver on this machine.\n  Nothing could be computed.\n  Try: ",
            Change("run.device", "cpu", option="device"),
            " (auto takes a GPU where there is one), or: ",
            Action("doctor"),
        )


def check_engine(config: Config) -> None:
    """Refuse an engine that this machine or this config cannot have; what only the environment tells, training finds out."""
    check_device(config.run.device)
    engine, algo = config.run.engine, config.algo
    others: tuple[str, ...] = ()
    if engine == "captured" and (config.run.device == "cpu" or not (has_gpu() or places.on_ray())):
        reason = f"run.device is {config.run.device}"
        others = (", or ", Change("run.device", "cuda", option="device"), " on a machine that has one")
    elif engine == "captured" and algo.loop == "offline":
        reason = f"{algo.name} learns from recorded data: no environment is stepped that could be captured"
    elif engine == "compiled" and algo.loop != "on_policy":
        reason = f"{algo.name} trains with the eager engine on a CPU, and captured on a GPU"
    elif engine in ("compiled", "captured") and config.env.atari:
        reason = f"{config.env.id} gives images, whose convolutions would not get faster"
    else:
        return
    raise ConfigError(
        f"run.engine={engine}, but {reason}.\n  There would be nothing to {_VERBS[engine]}.\n  Try: ",
        Change("run.engine", "auto", option="engine"),
        *others,
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python() -> Check:
    return Check(name="python", status="ok", found=f"{platform.python_version()} ({sys.executable})")


def _rlclinic() -> Check:
    version = _version("rlclinic")
    return Check(name="rlclinic", status="ok", found=version or "from a checkout, not installed")


def _package(name: str, fix: str) -> Check:
    version = _version(name)
    return Check(name=name, status="ok", found=version) if version else Check(name=name, status="missing", found="not installed", fix=fix)


def _extra(name: str, use: str, fix: str) -> Check:
    # Box2D is published under two names.
    version = _version(name) or (_version("box2d-py") if name == "box2d" else None)
    if version:
        return Check(name=name, status="ok", found=f"{version} · {use}")
    return Check(name=name, status="warning", found=f"not installed · needed for {use}", fix=fix)


def _torch_works() -> Check:
    try:
        answer = subprocess.run([sys.executable, "-c", _ASK_TORCH], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return Check(name="torch import", status="failed", found="no answer within 60 s", fix=f'{sys.executable} -c "import torch"')
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
        return Check(name="torch import", status="failed", found=last, fix="pip install --force-reinstall torch")
    facts = json.loads(answer.stdout.splitlines()[-1])
    devices = ", ".join(facts["cuda"]) or "CPU only"
    return Check(name="torch import", status="ok", found=f"works · {devices}")


def _cores() -> Check:
    usable, present = usable_cores(), os.cpu_count() or 1
    note = "" if usable == present else f" of {present}"
    return Check(name="cores", status="ok", found=f"{usable}{note} · {plural(usable, 'cohort')} at a time")


def _memory() -> Check:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return Check(name="memory", status="ok", found="not known on this system")
    free = kilobytes * 1024
    if free < LOW_DISK_BYTES:
        return Check(name="memory", status="warning", found=f"{size(free)} available", fix="train one job at a time, or end other programs")
    return Check(name="memory", status="ok", found=f"{size(free)} available")


def _existing(path: Path) -> Path:
    """The folder itself, or the nearest parent that exists."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _disk(runs_dir: Path) -> Check:
    free = shutil.disk_usage(_existing(runs_dir)).free
    status: Literal["ok", "warning"] = "warning" if free < LOW_DISK_BYTES else "ok"
    fix = Action("runs list").then(Action("runs rm", "RUN")) if status == "warning" else None
    return Check(name="disk", status=status, found=f"{size(free)} free at {runs_dir}", fix=fix)


def _permissions(runs_dir: Path) -> Check:
    folder = _existing(runs_dir)
    try:
        # Only a real write tells: permission bits know nothing of read-only mounts and quotas.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        problem = f"{folder} is not writable: {error.strerror}"
        return Check(name="runs folder", status="failed", found=problem, fix="--runs-dir FOLDER, or export RLCLINIC_RUNS=FOLDER")
    state = "writable" if folder == runs_dir.absolute() else "will be created"
    return Check(name="runs folder", status="ok", found=f"{runs_dir} {state}")
