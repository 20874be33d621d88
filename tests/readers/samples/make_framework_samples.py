"""Makes the samples of other frameworks: run it with a Python that has the framework, each in an environment of its own.

    pip install torch gymnasium d3rlpy && python tests/readers/samples/make_framework_samples.py d3rlpy

and likewise for the other names at the end of this file. Each trains a run that is as it should be and one or two with a planted
fault, a few thousand steps each, and keeps what the framework wrote, without checkpoints. Not run by the tests: they read the result.
Names after the framework's make those runs alone, and leave the other samples as they are (tianshou, skrl, torchrl, imitation).
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parent


def is_wanted(name: str) -> bool:
    """Whether a run is among those that were asked for; all are where none was named."""
    return not sys.argv[2:] or name in sys.argv[2:]


def make_faulty(fault: str) -> Any:
    """CartPole with a fault of the environment, as a user might have written it."""
    import gymnasium
    import numpy

    class Faulty(gymnasium.Wrapper):  # type: ignore[type-arg]
        rng = numpy.random.default_rng(1)

        def see(self, obs: Any) -> Any:
            return (obs * numpy.float32(1e4)).astype(numpy.float32) if fault == "scale" else obs

        def reset(self, **options: Any) -> Any:
            obs, info = self.env.reset(**options)
            return self.see(obs), info

        def step(self, action: Any) -> Any:
            if fault == "ignored":
                action = int(self.rng.integers(2))
            obs, reward, terminated, truncated, info = self.env.step(action)
            return self.see(obs), -reward if fault == "sign" else reward, terminated, truncated, info

    env = gymnasium.make("CartPole-v1")
    return Faulty(env) if fault else env


def keep(work: Path, name: str, *patterns: str) -> None:
    """The files of a framework's folder that a reader looks at."""
    for pattern in patterns:
        for file in sorted(work.glob(pattern)):
            target = SAMPLES / name / file.relative_to(work)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


def thin(path: Path, every: int) -> None:
    """Of a file of events every so-many-th number of the tags that have a hundred of them, as they were written."""
    from tensorboard.compat.proto.event_pb2 import Event

    data, place, records, kept = path.read_bytes(), 0, [], bytearray()
    totals: dict[str, int] = {}
    while place < len(data):
        end = place + 16 + int.from_bytes(data[place : place + 8], "little")
        tag = next((value.tag for value in Event.FromString(data[place + 12 : end - 4]).summary.value), "")
        totals[tag] = totals.get(tag, 0) + 1
        records.append((tag, totals[tag], data[place:end]))
        place = end
    for tag, number, record in records:
        if totals[tag] < 100 or number % every == 0:
            kept += record
    path.write_bytes(kept)


def make_d3rlpy(work: Path) -> None:
    """DQN on CartPole while it explores; SAC, CQL, IQL, AWAC, TD3+BC and cloning on recorded transitions of Pendulum."""
    import d3rlpy
    import gymnasium

    for name, changes in {"healthy": {}, "rate": {"learning_rate": 0.3}}.items():
        d3rlpy.seed(1)
        settings: dict[str, Any] = {"learning_rate": 1e-3, "batch_size": 64, "gamma": 0.99, "target_update_interval": 200, **changes}
        dqn = d3rlpy.algos.DQNConfig(**settings).create(device=False)
        env, eval_env = gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1")
        dqn.fit_online(
            env,
            d3rlpy.dataset.create_fifo_replay_buffer(limit=20_000, env=env),
            d3rlpy.algos.ConstantEpsilonGreedy(0.1),
            n_steps=4_000,
            n_steps_per_epoch=200,
            update_interval=2,
            update_start_step=400,
            save_interval=1_000,
            eval_env=eval_env,
            experiment_name=f"dqn_{name}",
            with_timestamp=False,
            logger_adapter=d3rlpy.logging.FileAdapterFactory(root_dir=str(work)),
            show_progress=False,
        )
    env = gymnasium.make("Pendulum-v1")
    buffer = d3rlpy.dataset.create_fifo_replay_buffer(limit=5_000, env=env)
    d3rlpy.algos.RandomPolicyConfig().create().collect(env, buffer, n_steps=1_000, show_progress=False)
    algos = d3rlpy.algos
    small = d3rlpy.models.VectorEncoderFactory([32, 32])
    nets = {"actor_encoder_factory": small, "critic_encoder_factory": small, "batch_size": 64}
    configs = {
        "sac": algos.SACConfig(batch_size=64),
        "iql": algos.IQLConfig(weight_temp=0.001, value_encoder_factory=small, **nets),
        "cql": algos.CQLConfig(conservative_weight=100.0, n_action_samples=4, **nets),
        "td3_bc": algos.TD3PlusBCConfig(alpha=1e5, **nets),
        "awac": algos.AWACConfig(**nets),
        "bc": algos.BCConfig(batch_size=64, encoder_factory=small),
    }
    for name, config in configs.items():
        steps = 600 if name == "sac" else 300
        judges = {"environment": d3rlpy.metrics.EnvironmentEvaluator(env, n_trials=2 if name == "sac" else 1)}
        if name not in ("sac", "bc"):
            judges["average_value"] = d3rlpy.metrics.AverageValueEstimationEvaluator()
        config.create(device=False).fit(
            buffer,
            n_steps=steps,
            n_steps_per_epoch=steps // 10,
            save_interval=1_000,
            evaluators=judges,
            experiment_name=f"{name}_offline",
            with_timestamp=False,
            logger_adapter=d3rlpy.logging.FileAdapterFactory(root_dir=str(work)),
            show_progress=False,
        )
    # Of most, without the gradients of each layer (`*_grad.csv`).
    keep(work, "d3rlpy", "dqn*/*.csv", "sac*/*.csv", "*/*[!d].csv", "*/params.json")


def make_rllib(work: Path) -> None:
    """DQN and SAC of the new API stack: rows as Tune writes them, without timers and hosts, and the config in params.json."""
    import json

    from ray.air._internal.json import SafeFallbackEncoder
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.algorithms.sac import SACConfig

    def configure(config: Any, env: str) -> Any:
        return config.environment(env).env_runners(num_env_runners=0).learners(num_learners=0).debugging(seed=1)

    dqn = {"train_batch_size_per_learner": 32, "num_steps_sampled_before_learning_starts": 300, "target_network_update_freq": 100}
    dqn |= {"replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 10_000}, "epsilon": [[0, 1.0], [1500, 0.05]], "n_step": 1}
    sac = {"train_batch_size_per_learner": 64, "num_steps_sampled_before_learning_starts": 300, "n_step": 1}
    sac |= {
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 10_000},
        "actor_lr": 3e-4,
        "critic_lr": 3e-4,
        "alpha_lr": 3e-4,
    }
    trials = {
        "dqn_healthy": configure(DQNConfig(), "CartPole-v1").training(lr=1e-3, gamma=0.99, **dqn),
        "dqn_rate": configure(DQNConfig(), "CartPole-v1").training(lr=0.5, gamma=0.99, **dqn),
        "sac_healthy": configure(SACConfig(), "Pendulum-v1").training(gamma=0.98, **sac),
        "sac_discount": configure(SACConfig(), "Pendulum-v1").training(gamma=0.2, **sac),
        "sac_rate": configure(SACConfig(), "Pendulum-v1").training(gamma=0.98, **sac | {"actor_lr": 0.3, "critic_lr": 0.3}),
    }
    for name, config in trials.items():
        if not is_wanted(name):
            continue
        config = config.rl_module(model_config={"fcnet_hiddens": [32], "head_fcnet_hiddens": []}).reporting(
            min_sample_timesteps_per_iteration=150, min_time_s_per_iteration=0
        )
        algorithm = config.build_algo()
        rows = [slim(algorithm.train()) for _ in range(8)]
        algorithm.stop()
        target = SAMPLES / "rllib" / name
        target.mkdir(parents=True, exist_ok=True)
        params = {key: value for key, value in config.to_dict().items() if isinstance(value, bool | int | float | str | list | dict | None)}
        # As Tune's logger writes them, with its own encoder.
        (target / "params.json").write_text(json.dumps(params, cls=SafeFallbackEncoder))
        (target / "result.json").write_text("".join(json.dumps(row, cls=SafeFallbackEncoder) + "\n" for row in rows))


LEFT_OUT = (
    "timers",
    "perf",
    "config",
    "hostname",
    "node_ip",
    "pid",
    "trial_id",
    "date",
    "timestamp",
    "fault_tolerance",
    "env_runner_group",
)
PASSED_OVER = ("timer", "throughput", "connector", "duration", "time_between")


def slim(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: slim(each) for key, each in value.items() if key not in LEFT_OUT and not any(part in key for part in PASSED_OVER)}


def make_tianshou(work: Path) -> None:
    """PPO and DQN on CartPole with its own writer of events; the settings as the text that its examples write."""
    from argparse import Namespace

    import gymnasium
    import numpy
    import torch
    from tianshou.algorithm import DQN, PPO
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
    from tianshou.utils import TensorboardLogger
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
    from torch.utils.tensorboard import SummaryWriter

    from rlclinic.sentinels.tianshou import SentinelHook

    def train(name: str, algo: str, fault: str = "", **changes: Any) -> None:
        if not is_wanted(f"{algo}_{name}"):
            return
        args = Namespace(task="CartPole-v1", algo_name=algo, seed=1, gamma=0.98, lr=1e-3, training_num=8, batch_size=256, epoch=6)
        args.__dict__ |= {"step_per_epoch": 2_048, "step_per_collect": 1_024, "hidden_sizes": [64, 64], **changes}
        numpy.random.seed(1)  # noqa: NPY002 — what Tianshou draws from
        torch.manual_seed(1)
        envs = DummyVectorEnv([lambda: make_faulty(fault)] * 8)
        tests = DummyVectorEnv([lambda: make_faulty(fault)] * 4)
        envs.seed(1)
        tests.seed(2)
        space = gymnasium.make("CartPole-v1").action_space
        writer = SummaryWriter(str(work / "CartPole-v1" / algo / name))
        writer.add_text("args", str(args))
        logger = TensorboardLogger(writer, training_interval=1, update_interval=1)
        shared: dict[str, Any] = {
            "max_epochs": args.epoch,
            "epoch_num_steps": args.step_per_epoch,
            "test_step_num_episodes": 5,
            "verbose": False,
        }
        shared |= {
            "collection_step_num_env_steps": args.step_per_collect,
            "batch_size": args.batch_size,
            "logger": logger,
            "show_progress": False,
        }
        if algo == "ppo":
            net = Net(state_shape=4, hidden_sizes=[64, 64])
            actor, critic = DiscreteActor(preprocess_net=net, action_shape=2), DiscreteCritic(preprocess_net=net)
            policy = ProbabilisticActorPolicy(
                actor=actor, dist_fn=torch.distributions.Categorical, action_space=space, action_scaling=False
            )
            algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=args.lr), gamma=args.gamma, ent_coef=0.0)
            collector = Collector(algorithm, envs, VectorReplayBuffer(2_048, 8))
            params = OnPolicyTrainerParams(
                training_collector=collector,
                test_collector=Collector(algorithm, tests),
                update_step_num_repetitions=args.repeat_per_collect,
                **shared,
            )
        else:
            net = Net(state_shape=4, action_shape=2, hidden_sizes=[64, 64])
            q = DiscreteQLearningPolicy(model=net, action_space=space, eps_training=args.eps_train)
            algorithm = DQN(policy=q, optim=AdamOptimizerFactory(lr=args.lr), gamma=args.gamma, target_update_freq=args.target_update_freq)
            hook = SentinelHook(writer, env=envs, policy=q, every=256)
            collector = Collector(algorithm, envs, VectorReplayBuffer(args.buffer_size, 8), exploration_noise=True, on_step_hook=hook)
            params = OffPolicyTrainerParams(
                training_collector=collector,
                test_collector=Collector(algorithm, tests),
                update_step_num_gradient_steps_per_sample=args.update_per_step,
                **shared,
            )
        algorithm.run_training(params)
        writer.close()

    ppo = {"repeat_per_collect": 8, "step_per_epoch": 3_072, "epoch": 5}
    train("healthy", "ppo", **ppo)
    train("rate", "ppo", lr=0.3, **ppo)
    dqn = {
        "step_per_collect": 8,
        "step_per_epoch": 512,
        "batch_size": 64,
        "buffer_size": 10_000,
        "update_per_step": 0.25,
        "target_update_freq": 100,
    }
    train("healthy", "dqn", eps_train=0.1, **dqn)
    train("rate", "dqn", eps_train=0.1, **{**dqn, "lr": 0.5})
    train("ignored", "dqn", "ignored", eps_train=0.1, **{**dqn, "epoch": 12})
    for file in work.glob("**/dqn/*/events*"):
        thin(file, 6)
    keep(work, "tianshou", "**/events*")


def make_skrl(work: Path) -> None:
    """PPO and DQN on CartPole by its own trainer; the settings in a file beside the events, as its users' scripts keep them."""
    import gymnasium
    import torch
    import yaml
    from skrl.agents.torch.dqn import DQN, DQN_CFG
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
    from skrl.trainers.torch import SequentialTrainer
    from skrl.utils import set_seed

    from rlclinic.sentinels.skrl import watch

    def layers(size: int) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, size))

    class Policy(CategoricalMixin, Model):
        def __init__(self, obs: Any, action: Any, device: Any) -> None:
            Model.__init__(self, observation_space=obs, action_space=action, device=device)
            CategoricalMixin.__init__(self, unnormalized_log_prob=True)
            self.net = layers(2)

        def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
            return self.net(inputs["observations"]), {}

    class Value(DeterministicMixin, Model):
        def __init__(self, obs: Any, action: Any, device: Any, size: int = 1) -> None:
            Model.__init__(self, observation_space=obs, action_space=action, device=device)
            DeterministicMixin.__init__(self)
            self.net = layers(size)

        def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
            return self.net(inputs["observations"]), {}

    def train(name: str, kind: str, timesteps: int, fault: str = "", **settings: Any) -> None:
        if not is_wanted(name):
            return
        set_seed(1)
        made = gymnasium.make_vec("CartPole-v1", num_envs=8, vectorization_mode="sync")
        env = wrap_env(gymnasium.vector.SyncVectorEnv([lambda: make_faulty(fault)] * 8) if fault else made)
        experiment = {
            "directory": str(work),
            "experiment_name": name,
            "checkpoint_interval": 0,
            "write_interval": settings.pop("write_interval"),
        }
        spaces = (env.observation_space, env.action_space, env.device)
        memory = RandomMemory(memory_size=settings.get("rollouts", 1_250), num_envs=8, device=env.device)
        if kind == "ppo":
            models: dict[str, Any] = {"policy": Policy(*spaces), "value": Value(*spaces)}
            cfg: Any = PPO_CFG(**settings)
        else:
            models = {"q_network": Value(*spaces, size=2), "target_q_network": Value(*spaces, size=2)}
            cfg = DQN_CFG(**settings, exploration_scheduler=lambda step, steps: max(0.05, 1 - 2 * step / steps))
        for key, value in experiment.items():
            setattr(cfg.experiment, key, value)
        agent = (PPO if kind == "ppo" else DQN)(
            models=models,
            memory=memory,
            cfg=cfg,
            observation_space=env.observation_space,
            state_space=None,
            action_space=env.action_space,
            device=env.device,
        )
        if kind == "dqn" or fault:
            watch(agent, env=env)  # the other runs are as skrl leaves them
        SequentialTrainer(env=env, agents=agent, cfg={"timesteps": timesteps, "headless": True, "disable_progressbar": True}).train()
        written = {
            "env": "CartPole-v1",
            "num_envs": 8,
            "agent": {"class": kind.upper(), **settings},
            "trainer": {"timesteps": timesteps},
            "seed": 1,
        }
        if kind == "ppo" and not fault:
            (work / name / "config.yaml").write_text(yaml.safe_dump(written))

    ppo = {"rollouts": 64, "learning_epochs": 8, "mini_batches": 2, "discount_factor": 0.98, "gae_lambda": 0.9, "learning_rate": 1e-3}
    ppo |= {"entropy_loss_scale": 0.01, "value_loss_scale": 0.5, "ratio_clip": 0.2, "grad_norm_clip": 0.5, "write_interval": 64}
    train("ppo_healthy", "ppo", 2_048, **ppo)
    train("ppo_rate", "ppo", 2_048, **{**ppo, "learning_rate": 0.3})
    train("ppo_sign", "ppo", 2_048, "sign", **ppo)
    dqn = {"batch_size": 64, "discount_factor": 0.98, "learning_rate": 1e-3, "polyak": 0.01, "learning_starts": 50, "write_interval": 25}
    train("dqn_healthy", "dqn", 800, **dqn)
    keep(work, "skrl", "*/events*", "*/config.*")


def make_torchrl(work: Path) -> None:
    """PPO on CartPole as its example scripts are written, once into CSV files and once into events."""
    import json

    import gymnasium
    import torch
    from tensordict.nn import TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
    from torchrl.envs import GymWrapper, RewardSum, StepCounter, TransformedEnv
    from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE
    from torchrl.record.loggers import CSVLogger, TensorboardLogger

    from rlclinic.sentinels.torchrl import SentinelHook

    def train(name: str, rate: float, gamma: float, make_logger: Any, fault: str = "") -> None:
        if not is_wanted(name):
            return
        logger = make_logger(name, log_dir=str(work))
        torch.manual_seed(1)
        env = TransformedEnv(GymWrapper(make_faulty(fault)))
        env.append_transform(RewardSum())
        env.append_transform(StepCounter())
        env.set_seed(1)
        net = TensorDictModule(MLP(in_features=4, out_features=2, num_cells=[64]), in_keys=["observation"], out_keys=["logits"])
        actor = ProbabilisticActor(
            net, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True, spec=env.action_spec
        )
        critic = ValueOperator(MLP(in_features=4, out_features=1, num_cells=[64]), in_keys=["observation"])
        loss_module = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.5)
        advantage = GAE(gamma=gamma, lmbda=0.9, value_network=critic)
        optimizer = torch.optim.Adam(loss_module.parameters(), lr=rate)
        collector = Collector(env, actor, frames_per_batch=512, total_frames=6_144)
        buffer = ReplayBuffer(storage=LazyTensorStorage(512), sampler=SamplerWithoutReplacement(), batch_size=128)
        hook = SentinelHook(action_space=gymnasium.spaces.Discrete(2), parameters=loss_module.parameters())
        frames = 0
        for data in collector:
            frames += data.numel()
            for key, value in hook(data).items():
                logger.log_scalar(key, value, step=frames)
            losses = []
            for _ in range(4):
                with torch.no_grad():
                    advantage(data)
                buffer.empty()
                buffer.extend(data.reshape(-1))
                for batch in buffer:
                    loss = loss_module(batch)
                    (loss["loss_objective"] + loss["loss_critic"] + loss["loss_entropy"]).backward()
                    norm = torch.nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
                    optimizer.step()
                    optimizer.zero_grad()
                    losses.append(
                        {**{key: float(value.detach()) for key, value in loss.items() if value.numel() == 1}, "grad_norm": float(norm)}
                    )
            ended = data["next", "done"].squeeze(-1)
            row = {key: sum(each[key] for each in losses) / len(losses) for key in losses[0]}
            if ended.any():
                row["reward"] = float(data["next", "episode_reward"][ended].mean())
                row["episode_length"] = float(data["next", "step_count"][ended].float().mean())
            for key, value in {**row, "lr": rate}.items():
                logger.log_scalar(f"train/{key}", value, step=frames)
        (work / name).mkdir(parents=True, exist_ok=True)
        config = {
            "env_name": "CartPole-v1",
            "seed": 1,
            "lr": rate,
            "gamma": gamma,
            "gae_lambda": 0.9,
            "clip_epsilon": 0.2,
            "frames_per_batch": 512,
        }
        config |= {
            "mini_batch_size": 128,
            "ppo_epochs": 4,
            "entropy_coef": 0.01,
            "critic_coef": 0.5,
            "max_grad_norm": 0.5,
            "total_frames": 6_144,
        }
        (work / name / "config.json").write_text(json.dumps({"algorithm": "ppo", **config}))

    train("ppo_healthy", 1e-3, 0.98, CSVLogger)
    train("ppo_rate", 0.3, 0.98, CSVLogger)
    train("ppo_discount", 1e-3, 0.2, TensorboardLogger)
    train("ppo_ignored", 1e-3, 0.98, TensorboardLogger, "ignored")
    keep(work, "torchrl", "*/scalars/**/*.csv", "*/events*", "*/config.json")


def make_rsl_rl(work: Path) -> None:
    """PPO on Pendulum by its own runner; the settings in params/*.yaml, where Isaac Lab keeps them."""
    import copy

    import gymnasium
    import torch
    import yaml
    from rsl_rl.env import VecEnv
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict

    class Pendulum(VecEnv):
        def __init__(self) -> None:
            self.envs = gymnasium.make_vec("Pendulum-v1", num_envs=16, vectorization_mode="sync")
            self.num_envs, self.num_actions, self.max_episode_length, self.device, self.cfg = 16, 1, 200, "cpu", {}
            self.episode_length_buf = torch.zeros(16, dtype=torch.long)
            self.obs = self.envs.reset(seed=1)[0]

        def get_observations(self) -> TensorDict:
            return TensorDict({"policy": torch.as_tensor(self.obs, dtype=torch.float32)}, batch_size=[16])

        def step(self, actions: torch.Tensor) -> Any:
            self.obs, reward, terminated, truncated, _ = self.envs.step(actions.clamp(-2, 2).numpy())
            ended = torch.as_tensor(terminated | truncated)
            extras = {"time_outs": torch.as_tensor(truncated)}
            return self.get_observations(), torch.as_tensor(reward, dtype=torch.float32), ended.long(), extras

    for name, rate in {"healthy": 1e-3, "rate": 0.3}.items():
        torch.manual_seed(1)
        model = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "elu"}
        agent = {
            "seed": 1,
            "num_steps_per_env": 64,
            "max_iterations": 20,
            "save_interval": 1_000,
            "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
            "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
            "critic": model,
            "algorithm": {
                "class_name": "PPO",
                "num_learning_epochs": 5,
                "num_mini_batches": 4,
                "clip_param": 0.2,
                "gamma": 0.95,
                "lam": 0.95,
                "value_loss_coef": 1.0,
                "entropy_coef": 0.005,
                "learning_rate": rate,
                "max_grad_norm": 1.0,
                "schedule": "fixed",
                "desired_kl": 0.01,
            },
        }
        folder = work / "rsl_rl" / "pendulum" / name
        (folder / "params").mkdir(parents=True)
        (folder / "params" / "agent.yaml").write_text(yaml.safe_dump(agent))
        (folder / "params" / "env.yaml").write_text(yaml.safe_dump({"seed": 1, "scene": {"num_envs": 16}, "episode_length_s": 10.0}))
        OnPolicyRunner(Pendulum(), copy.deepcopy(agent), log_dir=str(folder), device="cpu").learn(agent["max_iterations"])
    keep(work / "rsl_rl", "rsl_rl", "**/events*", "**/params/*.yaml")


def make_imitation(work: Path) -> None:
    """Behavioural cloning and GAIL on CartPole; both write through SB3's logger."""
    import numpy
    from imitation.algorithms import bc
    from imitation.algorithms.adversarial.gail import GAIL
    from imitation.data import rollout
    from imitation.data.wrappers import RolloutInfoWrapper
    from imitation.rewards.reward_nets import BasicRewardNet
    from imitation.util import logger as imitation_logger
    from imitation.util.util import make_vec_env
    from stable_baselines3 import PPO

    rng = numpy.random.default_rng(1)
    venv = make_vec_env("CartPole-v1", rng=rng, n_envs=8, post_wrappers=[lambda env, _: RolloutInfoWrapper(env)])
    settings: dict[str, Any] = {
        "n_steps": 128,
        "batch_size": 256,
        "n_epochs": 10,
        "gamma": 0.98,
        "gae_lambda": 0.8,
        "learning_rate": 1e-3,
        "seed": 1,
    }
    expert = PPO("MlpPolicy", venv, device="cpu", **settings).learn(2_048)
    shown = rollout.rollout(expert, venv, rollout.make_sample_until(min_episodes=8), rng=rng)
    log = imitation_logger.configure(work / "bc", ["csv"])
    cloned = bc.BC(
        observation_space=venv.observation_space,
        action_space=venv.action_space,
        demonstrations=rollout.flatten_trajectories(shown),
        rng=rng,
        device="cpu",
        custom_logger=log,
    )
    cloned.train(n_epochs=2, log_interval=5, log_rollouts_venv=venv, log_rollouts_n_episodes=4)
    for name, changes in {"gail": {}, "gail_rate": {"learning_rate": 0.3}}.items():
        trainer = GAIL(
            demonstrations=shown,
            demo_batch_size=256,
            venv=venv,
            gen_algo=PPO("MlpPolicy", venv, device="cpu", **{**settings, **changes}),
            reward_net=BasicRewardNet(venv.observation_space, venv.action_space),
            custom_logger=imitation_logger.configure(work / name, ["csv"]),
            allow_variable_horizon=True,
        )
        trainer.train(4_096 if name == "gail" else 16_384)
    keep(work, "imitation", *(f"{name}/**/progress.csv" for name in ("bc", "gail", "gail_rate") if is_wanted(name)))


def make_cartpole(env_id: str, *_: Any, **__: Any) -> Any:
    """As Sample Factory asks for it; a name that its processes find."""
    import gymnasium

    return gymnasium.make(env_id)


def make_sample_factory(work: Path) -> None:
    """APPO on CartPole, asynchronous in one process."""
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import run_rl

    register_env("CartPole-v1", make_cartpole)
    for name, rate in {"healthy": 1e-3, "rate": 0.3}.items():
        given = [f"--train_dir={work}", f"--experiment={name}", "--env=CartPole-v1", "--algo=APPO", "--device=cpu", "--serial_mode=True"]
        given += [
            "--async_rl=False",
            "--num_workers=1",
            "--num_envs_per_worker=8",
            "--worker_num_splits=2",
            "--rollout=32",
            "--batch_size=256",
        ]
        given += [
            "--num_batches_per_epoch=4",
            "--num_epochs=4",
            f"--learning_rate={rate}",
            "--gamma=0.98",
            "--train_for_env_steps=20000",
            "--seed=1",
        ]
        given += ["--use_rnn=False", "--encoder_mlp_layers", "64", "64", "--experiment_summaries_interval=1", "--stats_avg=20"]
        parser, _ = parse_sf_args(given)
        run_rl(parse_full_cfg(parser, given))
    keep(work, "sample_factory", "*/config.json", "*/.summary/**/events*")


MAKERS = {
    "d3rlpy": make_d3rlpy,
    "rllib": make_rllib,
    "tianshou": make_tianshou,
    "skrl": make_skrl,
    "torchrl": make_torchrl,
    "rsl_rl": make_rsl_rl,
    "sample_factory": make_sample_factory,
    "imitation": make_imitation,
}

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    if not sys.argv[2:]:
        shutil.rmtree(SAMPLES / sys.argv[1], ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        MAKERS[sys.argv[1]](Path(folder))
