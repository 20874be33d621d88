"""`SentinelCallback` for Stable-Baselines3: model.learn(100_000, callback=SentinelCallback())."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rlclinic.errors import UsageError

if TYPE_CHECKING:
    from stable_baselines3.common.callbacks import BaseCallback
else:
    try:
        from stable_baselines3.common.callbacks import BaseCallback
    except ModuleNotFoundError:
        BaseCallback = object

__all__ = ["SentinelCallback"]

_CONSOLE: Final = ("stdout", "log")
_DEFAULT_FOLDER: Final = Path("rlclinic-sentinels")


class SentinelCallback(BaseCallback):
    """Writes our sentinel columns into the log of a PPO, A2C, DQN, SAC, TD3 or DDPG run, and its settings beside it.

    Columns go through the model's logger (progress.csv, TensorBoard; the console's table stays as it is). Where the model logs to
    no file, a progress.csv is made: in `folder`, or beside the monitor files, or in rlclinic-sentinels/. The settings go into
    sentinels.json in the same folder; `rlclinic diagnose FOLDER` reads both.

    It only looks: weights, random numbers and logged values of a run are the same with it and without it.

    threshold: the return that counts as solved, where the environment does not name one.
    """

    def __init__(self, *, threshold: float | None = None, folder: str | Path | None = None, verbose: int = 0) -> None:
        if BaseCallback is object:
            raise UsageError(
                "stable-baselines3 is not installed.\n  The callback has nothing to attach to.\n  Type: pip install stable-baselines3"
            )
        super().__init__(verbose)
        self._threshold = threshold
        self._folder = None if folder is None else Path(folder)
        self._watch: Any = None
        self._opened: Any = None
        self._content: dict[str, Any] = {}
        self._place = Path()

    @property
    def folder(self) -> Path:
        """Where the settings (and the columns, unless the logger has another place for them) are."""
        return self._place

    def _on_training_start(self) -> None:
        from rlclinic.sentinels import sb3_settings

        self._place, self._opened = _open_log(self.model, self._folder)
        callbacks = list(sb3_settings.list_nested(self.locals.get("callback")))
        self._content = {
            "settings": sb3_settings.collect(self.model, callbacks, self._threshold),
            "about": sb3_settings.describe(self.model),
        }
        sb3_settings.write(self._place, self._content)
        self._watch = self._follow()

    def _follow(self) -> Any:
        from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
        from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

        left = int(self.model._total_timesteps) - int(self.model.num_timesteps)
        interval = self.locals.get("log_interval")
        if isinstance(self.model, OnPolicyAlgorithm):
            from rlclinic.sentinels.sb3_on_policy import OnPolicyWatch

            return OnPolicyWatch(self.model, left, interval)
        if isinstance(self.model, OffPolicyAlgorithm):
            from rlclinic.sentinels.sb3_off_policy import OffPolicyWatch

            return OffPolicyWatch(self.model, left)
        raise UsageError(
            f"{type(self.model).__name__} learns in a way that SentinelCallback does not know.\n"
            "  No column could be written.\n  Use it with PPO, A2C, DQN, SAC, TD3 or DDPG"
        )

    def _on_rollout_start(self) -> None:
        self._record(self._watch.rollout_start())

    def _on_step(self) -> bool:
        self._watch.step(self.locals)
        if self._watch.not_finite is not None and "not_finite" not in self._content:
            from rlclinic.sentinels import sb3_settings

            # Written at once: the next pass through the network usually ends the run with an error.
            self._content["not_finite"] = {"env_steps": int(self.num_timesteps), **self._watch.not_finite}
            sb3_settings.write(self._place, self._content)
        return True

    def _on_rollout_end(self) -> None:
        self._watch.rollout_end()

    def _on_training_end(self) -> None:
        self._watch.close()
        if self._opened is not None:
            self.logger.output_formats.remove(self._opened)
            self._opened.close()

    def _record(self, row: dict[str, float]) -> None:
        for name, value in row.items():
            self.logger.record(name, value, exclude=_CONSOLE)


def _open_log(model: Any, wanted: Path | None) -> tuple[Path, Any]:
    """The folder for the settings, and the log that was opened there because the logger has no file that can be read back (or None)."""
    from stable_baselines3.common import logger

    kept = (logger.CSVOutputFormat, logger.JSONOutputFormat, logger.TensorBoardOutputFormat)
    if any(isinstance(output, kept) for output in model.logger.output_formats):
        return Path(wanted or model.logger.dir), None
    folder = wanted or _find_monitor_folder(model) or _find_free_folder(_DEFAULT_FOLDER, type(model).__name__)
    folder.mkdir(parents=True, exist_ok=True)
    opened = logger.CSVOutputFormat(str(folder / "progress.csv"))
    model.logger.output_formats.append(opened)
    return folder, opened


def _find_monitor_folder(model: Any) -> Path | None:
    """The folder in which the first environment's monitor writes its episodes, unless a log lies there already."""
    for env in getattr(model.get_env().unwrapped, "envs", None) or ():
        while env is not None:
            writer = env.__dict__.get("results_writer")
            if writer is not None:
                folder = Path(writer.file_handler.name).parent
                return None if (folder / "progress.csv").exists() else folder
            env = env.__dict__.get("env")
    return None


def _find_free_folder(parent: Path, name: str) -> Path:
    return next(folder for count in itertools.count(1) if not (folder := parent / f"{name}_{count}").exists())
