"""A row before it is written: its numbers are on their way from the GPU while the next iterations already run.

Writing a thousand rows takes the host as long as the GPU takes for several iterations. So a captured cohort leaves a row pending and
goes on; it is written before the next row is due, or at once where something depends on it: an evaluation, a checkpoint, the end.
Every other cohort writes its rows at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rlclinic.training import rows
from rlclinic.training.data.episodes import Ended


@dataclass
class CapturedOutcome:
    """What captured iterations leave for a row beside readings and sentinels."""

    alive: Tensor
    """[M, 1]: whose updates have been finite."""
    ended: Ended


@dataclass
class PendingRow:
    """Everything that a row says, as it was when the row was due."""

    env_steps: int
    iteration: int
    numbers: list[dict[str, float | None]]
    """Each member's numbers in the last iteration, as they were applied."""
    readings: list[dict[str, Tensor]]
    """[U, M] by name, of the iterations since the last row."""
    names: list[str]
    sentinels: Tensor
    """[K, M] of these names."""
    clock: dict[str, float]
    outcome: CapturedOutcome | None = None
    iterations: int = field(init=False)
    _arrived: Any = None

    def __post_init__(self) -> None:
        self.iterations = len(self.readings)
        if self.outcome is not None and self.outcome.alive.is_cuda:
            self._send(self.outcome)

    def _send(self, outcome: CapturedOutcome) -> None:
        """Ask for everything on the host. Nothing waits: copies come in line behind what the GPU has been asked for so far."""

        def fetched(tensor: Tensor) -> Tensor:
            return tensor.to("cpu", non_blocking=True)

        names = list(self.readings[0])
        table = torch.cat([torch.stack([reading[name] for name in names]) for reading in self.readings], 1)  # [K, U, M]
        self.readings = [dict(zip(names, fetched(table).unbind(0), strict=True))]
        self.sentinels = fetched(self.sentinels)
        self.outcome = CapturedOutcome(fetched(outcome.alive), Ended(*(fetched(each) for each in outcome.ended)))
        self._arrived = torch.cuda.Event()
        self._arrived.record()

    def wait(self) -> None:
        """Until everything is there."""
        if self._arrived is not None:
            self._arrived.synchronize()
            self._arrived = None

    def sentinel_cells(self) -> rows.Columns:
        """The sentinels, by column."""
        return rows.sentinel_cells(self.names, self.sentinels.cpu())


def make(
    env_steps: int,
    iteration: int,
    numbers: list[dict[str, float | None]],
    readings: list[dict[str, Tensor]],
    sentinels: Mapping[str, Tensor],
    clock: dict[str, float],
    outcome: CapturedOutcome | None,
) -> PendingRow:
    """The row that is due; sentinels are [M] by name."""
    return PendingRow(env_steps, iteration, numbers, readings, list(sentinels), rows.stack_by_name(sentinels), clock, outcome)
