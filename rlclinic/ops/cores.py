"""Cores that no seed needs: whom they go to, and why."""

from collections.abc import Collection, Sequence
from typing import Final

from rlclinic.config import Config

WIDE: Final = 512
"""Units of a layer from which a second core pays."""
MESSAGE_MICROSECONDS: Final = 100.0
"""What a step through worker processes costs beside the steps themselves, and as much again for each worker: telling, waking, copying."""


def share_out(configs: Sequence[Config], cores: int, idle: int, free: Collection[str]) -> tuple[list[Config], list[str]]:
    """The configs of runs that train side by side, `cores` at a time, with the idle ones given out, and a remark for each gift.

    free: run.threads and env.workers, where nobody has said what they should be.
    """
    config, each = configs[0], max(1, idle // min(cores, len(configs)))
    found = list(configs)
    notes: list[str] = []
    if config.run.device != "cpu" or each == 1:
        return found, notes
    if "run.threads" in free and config.run.threads == 1 and _is_wide(config):
        found = [one.model_copy(update={"run": one.run.model_copy(update={"threads": each})}) for one in found]
        notes.append(f"{each} CPU threads for each run, as cores are idle and its network is large; --threads 1 uses one")
    workers = best_workers(config, each)
    if "env.workers" in free and not config.env.workers and workers:
        found = [one.model_copy(update={"env": one.env.model_copy(update={"workers": workers})}) for one in found]
        notes.append(f"{workers} {_why(config)}; --env-workers 0 leaves it to the training process")
    return found, notes


def _is_wide(config: Config) -> bool:
    """Whether a matrix product is so large that a second core helps: convolutions of games, or layers of WIDE units."""
    return config.env.frames_per_step is not None or max(config.net.hidden, default=0) >= WIDE


def best_workers(config: Config, cores: int) -> int:
    """How many processes should step a run's environments: 0 unless the steps they take over outweigh twice what messages cost.

    ALE steps its games in threads of its own, which need no messages.
    """
    env, step = config.env, config.spec.step_microseconds
    most = min(cores, env.n_envs)
    if env.atari and not env.wrappers and not env.kwargs:
        return most if most > 1 else 0
    if step is None or env.wrappers:
        return 0

    def gain(workers: int) -> float:
        return env.n_envs * step * (1 - 1 / workers) - 2 * MESSAGE_MICROSECONDS * (1 + workers)

    best = max(range(2, most + 1), key=gain, default=0)
    return best if best and gain(best) > 0 else 0


def _why(config: Config) -> str:
    if config.env.atari:
        return "threads step the games of each run, as cores are idle"
    took = config.env.n_envs * (config.spec.step_microseconds or 0.0) / 1000
    return f"processes step the environments of each run, as cores are idle and {config.env.n_envs} steps take {took:.1f} ms"
