"""What may be asked of recorded data."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from rlclinic.ops.request import SELECTOR, SET, Cli, Http, Mcp, Request

DATA = Cli(argument=True, metavar="DATA")
DATA_HTTP = Http(max_length=1_000)


class CollectRequest(Request):
    """Record episodes of a trained policy, of a function of yours, or at random."""

    selector: Annotated[str, SELECTOR] = "@last"
    """A run, group or checkpoint (its policy acts), or an environment for another one to act in."""
    out: Annotated[Path | None, Cli("--out", "-o")] = None
    """The dataset's folder; without it a name is made from the run's."""
    episodes: Annotated[int, Cli("--episodes", "-n")] = Field(100, ge=1)
    """How many."""
    noise: float = Field(0.0, ge=0.0, le=1.0)
    """Share of steps in which an action is drawn at random: data with some noise teaches more."""
    deterministic: Annotated[
        bool, Cli("--sampled", default=False, read=lambda sampled: not sampled, help="Sample the policy's actions.")
    ] = True
    """Take the most likely actions, instead of sampling as in training."""
    policy: Annotated[str | None, Cli(metavar="random|FILE.py:FUNCTION")] = None
    """Who acts instead of a run's policy: random, or your function, called with an observation."""
    changes: Annotated[list[str], SET] = Field(default_factory=list)
    """KEY=VALUE settings of an environment in which another one acts: env.action_mask=true. A run's policy acts where it was trained."""
    replay: bool = False
    """Nobody acts: keep what the run itself met while it learned, all that its replay still holds."""
    seed: int = Field(0, ge=0)
    """Of the starts and of the noise."""


class CheckRequest(Request):
    """Say what is in recorded data, what is wrong with it and what it is good for."""

    data: Annotated[str, DATA, DATA_HTTP]
    """A folder of rlclinic, Minari or LeRobot; HDF5 of D4RL or d3rlpy; .npz or .csv; the id of a dataset of Minari's."""
    random_return: Annotated[float | None, Http()] = None
    """Return of a policy that acts at random, to measure the data's quality by."""
    good_return: Annotated[float | None, Http()] = None
    """Return of a good policy."""
    beside: Annotated[str | None, DATA_HTTP] = None
    """Other data of the same task, such as the replay of a run: how many distinct state-actions there are for one of its, and what is in
    both."""
    seed: Annotated[int, Http(ge=0)] = Field(0, ge=0)
    """Of the samples that are looked at closely."""


class ConvertRequest(Request):
    """Write data in another format: a folder that stays on disk while it is learned from, or what other programs read."""

    data: Annotated[str, DATA]
    """A dataset of any format that is read."""
    to: Literal["rlclinic", "minari", "d4rl", "npz", "csv"] = "rlclinic"
    """The format: a folder of rlclinic's or Minari's, D4RL's HDF5, or one row a step in .npz or .csv."""
    out: Annotated[Path | None, Cli("--out", "-o")] = None
    """Where; without it beside the data."""


class EvaluateRequest(Request):
    """Say what a trained policy would earn, from recorded data alone."""

    data: Annotated[str, DATA, DATA_HTTP]
    """A dataset that somebody else's policy recorded in the same environment."""
    policy: Annotated[str, Cli("--policy", "-p", metavar="RUN"), Http(max_length=200)] = "@last"
    """A run, group or checkpoint."""
    beside: Annotated[list[str], Cli(metavar="RUN"), Http(max_length=16)] = Field(default_factory=list)
    """Another one, to choose between them without playing: all are ranked by fitted Q. Repeatable."""
    steps: Annotated[int, Http(ge=1, le=20_000)] = Field(5_000, ge=1)
    """Gradient steps of fitted Q evaluation."""
    seed: Annotated[int, Http(ge=0)] = Field(0, ge=0)
    """Of its critics and of resampling."""


class AdviseRequest(Request):
    """Say which way suits recorded data: imitation, offline RL, online RL, or both."""

    data: Annotated[str, DATA, DATA_HTTP, Mcp(doc="Dataset.")]
    """A dataset of any format that is read."""
    env: Annotated[str | None, Cli(metavar="ENV"), Http(max_length=200), Mcp(doc="Its simulator, if any.")] = None
    """The environment, if it can be acted in: it is played at random for a few seconds."""
    budget: Annotated[int | None, Cli(steps=True), Http(ge=0), Mcp(doc="Env steps allowed in it.")] = Field(None, ge=0)
    """Env steps that may be taken in it."""
    expert_seconds: Annotated[float | None, Cli(metavar="SECONDS"), Http(ge=0)] = Field(None, ge=0)
    """Seconds that an expert takes for one answer, where one can be asked."""
    random_return: Annotated[float | None, Http()] = None
    """Return of a policy that acts at random; with an environment it is measured."""
    good_return: Annotated[float | None, Http()] = None
    """Return that is wanted; without it the environment's threshold, where one is known."""
    steps: Annotated[int, Cli("--fqe-steps"), Http(ge=0, le=20_000)] = Field(1_000, ge=0)
    """Gradient steps of what judges a copy of the data; 0: it is not judged."""
    seed: Annotated[int, Http(ge=0)] = Field(0, ge=0)
    """Of random play, samples and critics."""

    @property
    def environments(self) -> list[str]:
        """The one that is played."""
        return [] if self.env is None else [self.env]
