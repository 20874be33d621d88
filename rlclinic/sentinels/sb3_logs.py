"""Where the log of a Stable-Baselines3 run goes, and a place for it where there is none."""

import itertools
from pathlib import Path
from typing import Any, Final

DEFAULT: Final = Path("rlclinic-sentinels")


def prepare(model: Any, wanted: Path | None) -> tuple[Path, Any]:
    """The folder for the settings, and the log that was opened there because the logger has no file that can be read back (or None)."""
    from stable_baselines3.common import logger

    kept = (logger.CSVOutputFormat, logger.JSONOutputFormat, logger.TensorBoardOutputFormat)
    if any(isinstance(output, kept) for output in model.logger.output_formats):
        return Path(wanted or model.logger.dir), None
    folder = wanted or _beside_monitors(model) or _fresh(DEFAULT, type(model).__name__)
    folder.mkdir(parents=True, exist_ok=True)
    opened = logger.CSVOutputFormat(str(folder / "progress.csv"))
    model.logger.output_formats.append(opened)
    return folder, opened


def _beside_monitors(model: Any) -> Path | None:
    """The folder in which the first environment's monitor writes its episodes, unless a log lies there already."""
    for env in getattr(model.get_env().unwrapped, "envs", None) or ():
        while env is not None:
            writer = env.__dict__.get("results_writer")
            if writer is not None:
                folder = Path(writer.file_handler.name).parent
                return None if (folder / "progress.csv").exists() else folder
            env = env.__dict__.get("env")
    return None


def _fresh(parent: Path, name: str) -> Path:
    return next(folder for count in itertools.count(1) if not (folder := parent / f"{name}_{count}").exists())
