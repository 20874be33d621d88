"""PPO as a module with manual optimization: rollouts are dictionaries of stacked tensors."""

import gymnasium as gym
import lightning as L
import torch
import torch.nn.functional as F
from torch.distributions import Normal
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


def mlp(sizes, act=torch.nn.Tanh):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(torch.nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(act())
    return torch.nn.Sequential(*layers)


def generalized_advantages(rollout, bootstrap, discount, lam):
    T = rollout["reward"].shape[0]
    adv = torch.zeros_like(rollout["reward"])
    running = torch.zeros_like(bootstrap)
    for step in range(T - 1, -1, -1):
        following = bootstrap if step == T - 1 else rollout["value"][step + 1]
        following = torch.where(rollout["cut"][step], rollout["final_value"][step], following)
        alive = 1.0 - rollout["terminal"][step].float()
        uncut = 1.0 - (rollout["terminal"][step] | rollout["cut"][step]).float()
        td = rollout["reward"][step] + discount * alive * following - rollout["value"][step]
        running = td + discount * lam * uncut * running
        adv[step] = running
    return adv


class PPOModule(L.LightningModule):
    def __init__(self, envs, discount=0.99, lam=0.95, eps_clip=0.2, vf_weight=0.5, bonus=0.01, horizon=128):
        super().__init__()
        self.automatic_optimization = False
        self.save_hyperparameters(ignore=["envs"])
        self.envs = envs
        n_obs = envs.single_observation_space.shape[0]
        n_act = envs.single_action_space.shape[0]
        self.pi = mlp([n_obs, 64, 64, n_act])
        self.v = mlp([n_obs, 64, 64, 1])
        self.log_scale = torch.nn.Parameter(torch.zeros(n_act))
        obs, _ = envs.reset(seed=7)
        self.current = torch.as_tensor(obs, dtype=torch.float32)

    def distribution(self, x):
        return Normal(self.pi(x), self.log_scale.exp())

    def baseline(self, x):
        return self.v(x).squeeze(-1)

    @torch.no_grad()
    def gather_rollout(self):
        store = {name: [] for name in ("x", "act", "logp", "reward", "value", "terminal", "cut", "final_value")}
        for _ in range(self.hparams.horizon):
            dist = self.distribution(self.current)
            act = dist.sample()
            nxt, reward, terminal, cut, _ = self.envs.step(act.clamp(-1, 1).cpu().numpy())
            nxt = torch.as_tensor(nxt, dtype=torch.float32)
            store["x"].append(self.current)
            store["act"].append(act)
            store["logp"].append(dist.log_prob(act).sum(-1))
            store["value"].append(self.baseline(self.current))
            store["reward"].append(torch.as_tensor(reward, dtype=torch.float32))
            store["terminal"].append(torch.as_tensor(terminal))
            store["cut"].append(torch.as_tensor(cut))
            store["final_value"].append(self.baseline(nxt))
            self.current = nxt
            if (terminal | cut).any():
                fresh, _ = self.envs.reset(options={"reset_mask": terminal | cut})
                self.current = torch.as_tensor(fresh, dtype=torch.float32)
        return {name: torch.stack(rows) for name, rows in store.items()}

    def policy_objective(self, x, act, logp_old, adv):
        logp = self.distribution(x).log_prob(act).sum(-1)
        ratio = torch.exp(logp - logp_old)
        clipped = torch.clip(ratio, 1 - self.hparams.eps_clip, 1 + self.hparams.eps_clip)
        return torch.minimum(ratio * adv, clipped * adv).mean()

    def training_step(self, _batch, _idx):
        opt = self.optimizers()
        rollout = self.gather_rollout()
        with torch.no_grad():
            last = self.baseline(self.current)
            adv = generalized_advantages(rollout, last, self.hparams.discount, self.hparams.lam)
        target = adv + rollout["value"]
        data = TensorDataset(*(part.flatten(0, 1) for part in (rollout["x"], rollout["act"], rollout["logp"], adv, target)))
        for _ in range(10):
            for rows in BatchSampler(RandomSampler(data), 64, drop_last=True):
                x, act, logp_old, a, ret = data[rows]
                a = (a - a.mean()) / (a.std() + 1e-8)
                pi_loss = -self.policy_objective(x, act, logp_old, a)
                v_loss = F.mse_loss(self.baseline(x), ret)
                entropy = self.distribution(x).entropy().sum(-1).mean()
                loss = pi_loss + self.hparams.vf_weight * v_loss - self.hparams.bonus * entropy
                opt.zero_grad()
                self.manual_backward(loss)
                self.clip_gradients(opt, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
                opt.step()
        self.log("rollout/reward", rollout["reward"].mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4, eps=1e-5)

    def train_dataloader(self):
        return DataLoader(torch.zeros(1, 1))


if __name__ == "__main__":
    L.seed_everything(7)
    mode = {"autoreset_mode": gym.vector.AutoresetMode.DISABLED}
    vec = gym.make_vec("Pendulum-v1", num_envs=8, vectorization_mode="sync", vector_kwargs=mode)
    L.Trainer(max_epochs=300, logger=False).fit(PPOModule(vec))
