"""How long a run is, when it is evaluated and saved, and on what it runs."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rlclinic.actions import Change
from rlclinic.config.schema import Count, Shape, Strict, refusal

__all__ = ["RunConfig"]


class RunConfig(Strict):
    """Budget, evaluation, checkpoints and machine."""

    max_env_steps: Shape = Field(1_000_000, ge=1)
    """The budget: agent steps over all copies of the environment; for a run on recorded data, gradient steps. Schedules are stretched
    over it."""
    eval_every_env_steps: Annotated[Count, Field(ge=1)] | None = None
    """Env steps (on recorded data: gradient steps) between evaluations; none: only one, at the end. More often finds the threshold's
    crossing more exactly and costs time. Usual: 2-5 % of the budget."""
    eval_episodes: Count = Field(20, ge=0)
    """Episodes per evaluation, always from the same start states; 0: never evaluate. More gives a steadier mean. Usual: 10-100."""
    eval_deterministic: bool = True
    """Evaluate with the most likely action (the mean of a continuous one). False samples, as training does."""
    stop_at_threshold: bool = False
    """End the run at the first evaluation that reaches `spec.threshold` and `spec.success`. Saves time; what comes after is unknown."""
    checkpoint_every_env_steps: Annotated[Count, Field(ge=1)] | None = None
    """Env steps between checkpoints; none: at each evaluation. More often loses less to a crash and writes more."""
    save_replay: bool = True
    """Keep what is remembered with the newest checkpoint (DQN, TD3, DDPG, SAC). False saves disk and time; a resume then starts
    with an empty replay, and is no longer the same as never having stopped."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Where it is computed. A GPU pays for many runs or thousands of envs at once, in environments that it can step itself;
    others are faster on the CPU, unless the network is large. `auto`: cuda if there is one."""
    engine: Literal["auto", "eager", "compiled", "captured", "reference", "autograd"] = "eager"
    """How the arithmetic is carried out. `eager`: operation by operation; a seed gets the same bits in any group. `compiled`: acting
    and learning compiled (takes a minute, once for each shape of run; then two to three times as fast on a CPU). `captured`: one
    GPU program per iteration, for native environments. `auto`: whichever pays; what `--device cuda` takes.
    `reference`: the losses as they are written, differentiated by PyTorch (slower; what every other engine is held to, and what trains
    an algorithm of another package). `autograd`: eager with networks differentiated by PyTorch; the older reference. Decided once and
    kept by every resume, because engines differ in the last bits."""
    precision: Literal["float32", "tf32"] = "float32"
    """Of convolutions and of the gradient's matrix products on a GPU. `tf32`: numbers of 10 bits, about 1e-3 off, in half the time (what
    JAX does unless told otherwise); of products, for the captured and compiled engines and with data_parallel."""
    threads: Count = Field(1, ge=1)
    """CPU threads of a training process. More pays only for wide networks and convolutions, which `train` gives the idle cores unless
    told otherwise; small ones lose more to waiting than they gain, and other seeds can use the other cores. Usual: 1."""
    data_parallel: Shape = Field(1, ge=1, le=256)
    """Processes (ranks) that train every run together: each has its share of the environments and of every minibatch, and gradients are
    averaged (PPO, A2C). Same rollouts and minibatches as one process, so the same run to rounding. Pays for large networks and slow
    environments; small ones lose more to waiting than they gain, which is measured first and refused. Must divide env.n_envs and
    minibatches. Kept by every resume. Usual: 1; the number of cores or GPUs for one large run."""
    shard_optimizer: bool = False
    """With data_parallel, each rank keeps the optimizer's state of its share of the weights alone, and steps that share: 8 bytes a weight
    less on N - 1 of N ranks, for two more messages a gradient step. Pays from some ten million weights on."""
    shard_weights: bool = False
    """With data_parallel, each rank keeps its share of the weights, of their gradient and of the optimizer's state alone; a layer at a
    time is put together while it learns, and all of them while it plays. Only rank 0 keeps a whole copy. For networks whose gradient and
    moments do not fit beside them: three messages a layer and gradient step."""
    allow_slower: bool = False
    """Train with data_parallel even where it was measured to be slower than one process."""
    film_every_env_steps: Annotated[Count, Field(ge=1)] | None = None
    """Env steps between episodes that are recorded while it trains, as a film where the environment has pictures and in numbers
    (observations, actions, rewards, `info["reward_terms"]`); none: never. Each takes about as long as an episode that is drawn, of
    up to eight seeds at once. Usual: a tenth of the budget."""
    histograms_every_env_steps: Annotated[Count, Field(ge=1)] | None = None
    """Env steps between histograms of returns, advantages, actions, observations and of each layer's weights and steps; none: never.
    They cost a few milliseconds and kilobytes each. Usual: 2-5 % of the budget."""
    tensorboard: bool = False
    """Also write TensorBoard event files beside metrics.csv."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.stop_at_threshold and (self.eval_every_env_steps is None or self.eval_episodes == 0):
            raise refusal(
                f"stop_at_threshold=true, but there are no evaluations while training (eval_every_env_steps={self.eval_every_env_steps}, "
                f"eval_episodes={self.eval_episodes}).",
                "The threshold would never be looked at, and the run would use its whole budget.",
                Change("run.eval_every_env_steps", max(1, self.max_env_steps // 20)).also("run.eval_episodes", self.eval_episodes or 20),
            )
        if (self.shard_optimizer or self.shard_weights) and self.data_parallel == 1:
            raise refusal(
                f"run.{'shard_weights' if self.shard_weights else 'shard_optimizer'}=true, but run.data_parallel=1.",
                "There is nobody to share the optimizer's state with.",
                Change("run.data_parallel", 2),
            )
        return self

    @property
    def cores(self) -> int:
        """CPU cores that a training process keeps busy, with the ranks that it starts."""
        return self.threads * self.data_parallel
