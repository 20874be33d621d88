"""Pure functions of tensors, compiled once and kept between runs.

On a CPU a unit becomes a small library (PyTorch's ahead-of-time Inductor): the next run loads it in milliseconds, without the
compiler and without tracing. On a GPU it goes through torch.compile, whose own cache lies in the same folder. What a unit was made
from is in its name: PyTorch's version, the processor, this package's training code, the settings and the shapes. A changed one is
another unit.
"""

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from rlclinic.actions import Change
from rlclinic.errors import RunError

Named = dict[str, Tensor]
Function = Callable[[Named], Named]
Positional = Callable[..., tuple[Tensor, ...]]
CACHE: Final = "RLCLINIC_CACHE"
"""Environment variable: where compiled units are kept, instead of the user's cache folder."""
LOADED: Final = ("model", True, 1, -1)
"""How a library is loaded: its name in the package, on one thread, for one caller, on the CPU."""
ARITHMETIC: Final = (
    "algos",
    "maths",
    "nets",
    "envs/native",
    "data",
    "loops/on_policy.py",
    "engines/eager.py",
    "fast",
    "fast/offline",
    "optim.py",
    "rng.py",
)
"""The code that units are made of."""


class Unit:
    """A function of named tensors to named tensors, compiled for the names and shapes of its first call.

    The function must not look at values (no branch on a tensor, no `.item()`); `settings` holds whatever else its code depends on.
    """

    def __init__(self, name: str, function: Function, settings: str) -> None:
        self.name, self.function, self.settings = name, function, settings
        self._run: Callable[[list[Tensor]], Sequence[Tensor]] | None = None
        self._names: list[str] = []

    def __call__(self, given: Named) -> Named:
        """The function's outputs. Inputs are made contiguous: a compiled unit knows one memory layout."""
        inputs = [each if each.is_contiguous() else each.contiguous() for each in given.values()]
        if self._run is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch's words to itself while it compiles
                self._run = self._build(list(given), inputs)
                return dict(zip(self._names, self._run(inputs), strict=True))
        return dict(zip(self._names, self._run(inputs), strict=True))

    def path(self, names: list[str], inputs: Sequence[Tensor]) -> Path:
        """Where the compiled unit lies, or would lie."""
        shapes = [(tuple(each.shape), str(each.dtype), str(each.device)) for each in inputs]
        facts = (self.name, self.settings, names, shapes, torch.__version__, processor(inputs[0].device), source())
        return folder() / f"{self.name}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}.pt2"

    def _build(self, names: list[str], inputs: list[Tensor]) -> Callable[[list[Tensor]], Sequence[Tensor]]:
        # Once as it is written: what comes out is named there, and the library knows no names.
        self._names = list(self.function(dict(zip(names, inputs, strict=True))))

        def positional(*tensors: Tensor) -> tuple[Tensor, ...]:
            return tuple(self.function(dict(zip(names, tensors, strict=True))).values())

        if inputs[0].is_cuda:
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder() / "inductor"))
            compiled = torch.compile(_traced(positional, inputs), dynamic=False, fullgraph=True)
            return lambda tensors: compiled(*tensors)  # type: ignore[no-untyped-call]
        path = self.path(names, inputs)
        try:
            if not path.exists():
                _package(positional, inputs, path)
            loader = torch._C._aoti.AOTIModelPackageLoader(str(path), *LOADED)
        except Exception as error:  # PyTorch's and the compiler's errors have no type in common
            raise RunError(
                f"run.engine=compiled: {self.name} could not be compiled with PyTorch {torch.__version__} and {compiler()}: "
                f"{_find_reason(error)}.\n  Nothing could be trained with it.\n  Try: ",
                Change("run.engine", "eager"),
            ) from error
        return lambda tensors: loader.boxed_run(tensors)


def _traced(function: Positional, inputs: list[Tensor]) -> Any:
    """The function's operations on tensors as a graph; Python's part of it is done with."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)(*inputs)


def _package(function: Positional, inputs: list[Tensor], path: Path) -> None:
    """Compile and write the library; a name appears only with everything in it, whoever else compiles the same."""
    from torch._inductor import aoti_compile_and_package

    path.parent.mkdir(parents=True, exist_ok=True)
    with torch.no_grad(), tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        exported = torch.export.export(_traced(function, inputs), tuple(inputs))
        made = aoti_compile_and_package(exported, package_path=str(Path(scratch) / path.name))
        _load_elsewhere(made)
        Path(made).replace(path)


def _load_elsewhere(package: str) -> None:
    """Load a new library in a process of its own first: where PyTorch's loader crashes (2.11 on some machines), training must not."""
    code = f"import torch; torch._C._aoti.AOTIModelPackageLoader({package!r}, *{LOADED!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if ended.returncode:
        how = signal.Signals(-ended.returncode).name if ended.returncode < 0 else f"exit code {ended.returncode}"
        raise OSError(f"error: PyTorch's loader ended with {how} on the compiled library {ended.stderr.strip()[-200:]}".rstrip())


def _find_reason(error: Exception) -> str:
    """The line that says why: the compiler's own where there is one, else the first of PyTorch's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    reason = next((line for line in lines if "error:" in line), lines[0])
    return f"{type(error).__name__}: {reason[:300]}".removesuffix(".")


def ready(settings: str) -> bool:
    """Whether a cohort of these settings has been compiled here before."""
    return _marker(settings).exists()


def mark(settings: str) -> None:
    """Remember that a cohort of these settings has all its units."""
    _marker(settings).parent.mkdir(parents=True, exist_ok=True)
    _marker(settings).touch()


def _marker(settings: str) -> Path:
    facts = (settings, torch.__version__, processor(torch.device("cpu")), source())
    return folder() / f"ready-{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}"


def folder() -> Path:
    """The user's cache folder for compiled units."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlclinic" / "units"


def compiler() -> str | None:
    """The C++ compiler that would be used; None if there is none."""
    return next((found for name in (os.environ.get("CXX"), "g++", "clang++") if name and (found := shutil.which(name))), None)


@lru_cache(maxsize=1)
def source() -> str:
    """A digest of this package's training code: units made from other code are not reused."""
    root = Path(__file__).parent.parent
    files = [file for part in ARITHMETIC for file in (sorted((root / part).glob("*.py")) if (root / part).is_dir() else [root / part])]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def processor(device: torch.device) -> str:
    """What a compiled unit runs on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    flags = Path("/proc/cpuinfo")
    told = next((line for line in flags.read_text().splitlines() if line.startswith("flags")), "") if flags.exists() else ""
    threads = torch.get_num_threads()  # generated code is cut for so many
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {threads} {hashlib.sha256(told.encode()).hexdigest()[:12]}"
