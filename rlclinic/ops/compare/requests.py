"""What may be asked of comparisons and of the gate for CI."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from rlclinic.comparison.regression import GateOutcome
from rlclinic.ops.request import CHANGES, MAP, SET, STEPS, Cli, EnvSteps, Http, Mcp, Request


class CompareRequest(Request):
    """Compare configs and results side by side, with tests that say how sure a difference is."""

    targets: Annotated[
        list[str],
        Cli(argument=True, metavar="A B ...", complete="run"),
        Http("of", doc="Runs or groups; the first is what others are compared with.", min_length=2, max_length=12),
        Mcp("run_ids", "Runs, groups, variants or log folders; the first is A.", min_length=2, max_length=8),
    ]
    """Runs, groups, folders of other frameworks, YAML files, variants (CartPole-v1:ppo), or git:REV:FILE.yaml[:VARIANT]."""
    pairwise: Annotated[bool, Http()] = False
    """Every two of them, instead of all against the first."""
    threshold: float | None = None
    """The return that counts as solved, where the runs do not say."""
    budget: Annotated[EnvSteps | None, STEPS] = None
    """Planned env steps, where the log does not say."""
    mapping: Annotated[list[str], MAP] = Field(default_factory=list)
    """What a column of a foreign log is. Repeatable."""
    out: Annotated[Path | None, Cli(metavar="DIR")] = None
    """Write compare.md, compare.html and compare.json there."""


class RegressRequest(Request):
    """Fail if a candidate learns worse than a baseline: a gate for CI, with stated error rates."""

    baseline: Annotated[
        str | None, Cli(argument=True, complete="run"), Http(type=str, default=..., max_length=200, doc="A group or run.")
    ] = None
    """A file made by --save-baseline, a group, a run or a folder."""
    candidate: Annotated[
        str | None, Cli(argument=True, complete="run"), Http(type=str, default=..., max_length=200, doc="A config (CartPole-v1:ppo).")
    ] = None
    """A group, run or folder; or a config (CartPole-v1:ppo, FILE.yaml, git:REV:FILE.yaml), which is trained."""
    outcome: Annotated[GateOutcome | None, Http()] = None
    """What must not get worse (steps where a threshold is reached)."""
    margin: Annotated[float | None, Http(gt=0, lt=10)] = None
    """The loss that may pass: 0.1 (10 %) of returns and successes, 0.43 of steps and seconds, which 32 seeds can tell."""
    alpha: Annotated[float, Http(gt=0, lt=0.5)] = 0.05
    """False alarms, and wrong passes, in at most this share of all cases."""
    looks: Annotated[int, Http(ge=1, le=20)] = Field(4, ge=1, le=20)
    """How often a candidate that is trained is looked at."""
    per_look: Annotated[int, Cli("--seeds"), Http(ge=2, le=64)] = Field(8, ge=2)
    """Fresh seeds for each look."""
    seed0: int | None = Field(None, ge=0)
    """The first of them (unused ones)."""
    changes: Annotated[list[str], SET, CHANGES] = Field(default_factory=list)
    """KEY=VALUE settings."""
    resume: Annotated[str | None, Cli(metavar="GATE")] = None
    """Go on with a gate that was interrupted or killed, or show one that ended."""
    threshold: float | None = None
    """The return that counts as solved, where the runs do not say."""
    mapping: Annotated[list[str], MAP] = Field(default_factory=list)
    """What a column of a foreign log is. Repeatable."""

    @property
    def configs(self) -> list[str]:
        """What is trained."""
        return [self.candidate] if self.candidate is not None else []

    @property
    def environments(self) -> list[str]:
        """The baseline: runs or a group, and no file of this machine."""
        return [self.baseline] if self.baseline is not None else []
