"""What may be asked of training."""

from typing import Annotated, Final

from pydantic import Field

from rlclinic.ops.request import CHANGES, MOST_STEPS, OVERRIDES, RUN_STEPS, SET, STEPS, Cli, EnvSteps, Http, Mcp, Request

QUERIES: Final = r"^\d{1,9}(x\d{1,9})?$"


class TrainRequest(Request):
    """What to train."""

    ref: Annotated[
        str | None,
        Cli(argument=True, complete="reference"),
        Http(doc="CartPole-v1:ppo, an environment, a run or group to train anew, or RUN@STEP to fork.", max_length=200),
        Mcp("config_id", "ENV:VARIANT, Gymnasium id, project YAML, group to repeat, or RUN@STEP to fork."),
    ] = None
    """What to train: CartPole-v1:ppo, a Gymnasium id, a YAML file, a run or group to train anew, or RUN@STEP to fork."""
    seed: Annotated[int | None, Http(ge=0, le=2**31)] = Field(None, ge=0)
    """The first seed (0; a fork keeps its parent's)."""
    seeds: Annotated[int | None, Http(ge=1, le=256), Mcp(doc="", ge=1, le=64)] = Field(None, ge=1)
    """How many seeds: S ... S+N-1 (1)."""
    changes: Annotated[list[str], SET, CHANGES, OVERRIDES] = Field(default_factory=list)
    """KEY=VALUE settings."""
    rx: Annotated[
        int | None,
        Cli(metavar="N", help="Train GROUP anew with its prescription N, untried."),
        Http(ge=1, le=9),
        Mcp(doc="Prescription of the group, applied untried.", ge=1),
    ] = Field(None, ge=1)
    """A prescription for `ref`, by its number, untried."""
    max_env_steps: Annotated[EnvSteps | None, STEPS, MOST_STEPS, RUN_STEPS] = Field(None, ge=1)
    """Budget in env steps."""
    data: Annotated[str | None, Cli(metavar="DATA"), Http(max_length=1_000)] = None
    """Recorded data to learn from (bc): a folder of `data collect`, of Minari, an HDF5, .npz or .csv file."""
    then_online: Annotated[bool, Http()] = False
    """After the recorded data go on in the environment (cal_ql, rlpd, iql, awac, cql); data.offline_steps says when."""
    resume: Annotated[
        str | None, Cli(metavar="RUN|GROUP", complete="run"), Http(max_length=200), Mcp(doc="Run or group to go on with.")
    ] = None
    """Go on from the last checkpoint; with a larger budget, as a child."""
    init_from: Annotated[str | None, Cli(metavar="RUN", complete="run")] = None
    """Start from a run's weights."""
    expert: Annotated[str | None, Cli(metavar="RUN|FILE.py:FUNCTION|person")] = None
    """Who is asked what to do, by dagger and its relatives; also "command: PROGRAM", which answers JSON lines."""
    queries: Annotated[str | None, Cli(metavar="N|ROUNDSxSTEPS"), Http(max_length=40, pattern=QUERIES)] = Field(None, pattern=QUERIES)
    """The most questions to the expert: 1600, or 16x100 for 16 rounds of 100 steps of one env."""
    env_workers: int | None = Field(None, ge=0)
    """Processes that step Gymnasium environments."""
    device: str | None = None
    """cpu, cuda or auto."""
    engine: str | None = None
    """auto, eager, compiled or captured (eager; on a GPU auto)."""
    threads: int | None = Field(None, ge=1)
    """CPU threads per process (1; idle cores for large networks)."""
    data_parallel: Annotated[int | None, Cli(metavar="N"), Http(ge=1, le=256), Mcp(doc="Processes that train every run together.")] = Field(
        None, ge=1
    )
    """Processes that train every run together: a share of its environments and of every gradient each (PPO, A2C)."""
    scale_batch: Annotated[bool, Http()] = False
    """With data_parallel, N times the environments and minibatches, and a learning rate to match (docs/data-parallel.md)."""
    shard_optimizer: Annotated[bool, Http()] = False
    """With data_parallel, each process keeps a share of the optimizer's state."""
    shard_weights: Annotated[bool, Http()] = False
    """With data_parallel, each process keeps a share of the weights, their gradient and the optimizer's state."""
    force: Annotated[bool, Http()] = False
    """Train with data_parallel even where one process was measured to be faster."""
    jobs: int | None = Field(None, ge=1)
    """Processes at a time (one per core)."""
    detach: bool = False
    """Return at once; training outlives this terminal."""
    tensorboard: bool = False
    """Also write TensorBoard event files."""
    save_replay: bool = True
    """Keep the replay with the newest checkpoint, so that a resume is exact."""
    report: bool = True
    """Write the group's report and picture at the end."""
    name: Annotated[str | None, Http(max_length=100)] = None
    """A label of your own for the group."""
    lint_env: bool = True
    """Look at an environment of your own for two seconds first, and say what is wrong with it."""

    @property
    def configs(self) -> list[str]:
        """What is trained, or gone on with."""
        return [ref for ref in (self.ref, self.resume) if ref is not None]

    @property
    def patches(self) -> list[list[str]]:
        """With the recorded data, which names a file."""
        return [[*self.changes, *([] if self.data is None else [f"data.path={self.data}"])]]


class ProfileRequest(Request):
    """Measure where an iteration's time goes, and which settings would make it faster."""

    about_store = False

    ref: Annotated[str, Cli(argument=True, complete="reference")]
    """What to look into: CartPole-v1:ppo, a YAML file."""
    changes: Annotated[list[str], SET] = Field(default_factory=list)
    """KEY=VALUE settings."""
    members: Annotated[int, Cli("--seeds")] = Field(1, ge=1)
    """Seeds that train together."""
    device: str | None = None
    """cpu, cuda or auto."""
    seconds: float = Field(1.5, ge=0.1)
    """How long each measurement takes."""
    compiling: Annotated[bool, Cli("--compile")] = False
    """Also measure engines that take a minute to compile."""
