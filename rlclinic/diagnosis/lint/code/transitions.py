"""Checks that a critic learns about what was done, in the units in which it was done, and over as many steps as it says."""

from collections.abc import Iterator

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.checks import check
from rlclinic.diagnosis.lint.code.reading.script import Script, Spot


@check("COD551", Severity.HIGH, ["lillicrap2016ddpg"])
def trained_on_another_action(script: Script) -> Iterator[Spot]:
    """A critic's error is about an action that a network has just answered, not about the one that was taken.

    ## Why it hurts
    The reward and the next observation followed from the stored action. Put down to another one, they say nothing about it, and the
    critic never learns that actions differ.

    ## When it is fine
    Where rewards come from a model that is asked about that very action.

    ## Fix
    critic(obs, stored action) in the critic's error; critic(obs, policy(obs)) in the actor's loss.

    ## Wrong
    ```python
    import gymnasium as gym
    import numpy as np
    import torch
    from torch import nn

    env = gym.make("Pendulum-v1")
    actor, critic, slow = nn.Linear(3, 1), nn.Linear(4, 1), nn.Linear(4, 1)
    slow.load_state_dict(critic.state_dict())
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    memory = []
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.append((obs, action, reward, next_obs, float(terminated)))
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
        rows = [memory[i] for i in np.random.randint(len(memory), size=64)]
        s, a, r, s2, end = (torch.as_tensor(np.array(part), dtype=torch.float32) for part in zip(*rows))
        with torch.no_grad():
            target = r + 0.99 * (1 - end) * slow(torch.cat([s2, actor(s2)], 1)).squeeze(1)
        loss = nn.functional.mse_loss(critic(torch.cat([s, actor(s).detach()], 1)).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for old, new in zip(slow.parameters(), critic.parameters()):
            old.data.lerp_(new.data, 0.005)
    ```

    ## Right
    ```python
    import gymnasium as gym
    import numpy as np
    import torch
    from torch import nn

    env = gym.make("Pendulum-v1")
    actor, critic, slow = nn.Linear(3, 1), nn.Linear(4, 1), nn.Linear(4, 1)
    slow.load_state_dict(critic.state_dict())
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    memory = []
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.append((obs, action, reward, next_obs, float(terminated)))
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
        rows = [memory[i] for i in np.random.randint(len(memory), size=64)]
        s, a, r, s2, end = (torch.as_tensor(np.array(part), dtype=torch.float32) for part in zip(*rows))
        with torch.no_grad():
            target = r + 0.99 * (1 - end) * slow(torch.cat([s2, actor(s2)], 1)).squeeze(1)
        loss = nn.functional.mse_loss(critic(torch.cat([s, a], 1)).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for old, new in zip(slow.parameters(), critic.parameters()):
            old.data.lerp_(new.data, 0.005)
    ```
    """
    yield from ()


@check("COD552", Severity.HIGH, ["fujimoto2018td3"])
def actions_in_two_units(script: Script) -> Iterator[Spot]:
    """Actions of one policy have the scale of the network in one place and that of the action space in another.

    ## Why it hurts
    A critic that learned about torques from -2 to 2 is asked about numbers from -1 to 1, or the environment gets half of what the policy
    meant: what was learned does not hold where it is used.

    ## When it is fine
    Where the action space lies between -1 and 1 anyway.

    ## Fix
    Scale in one place: in the actor, or in front of every step; and store what the critics are asked about.

    ## Wrong
    ```python
    import gymnasium as gym
    import torch

    env, test_env = gym.make("Pendulum-v1"), gym.make("Pendulum-v1")
    actor = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = actor(torch.as_tensor(obs)).detach().numpy()
        obs, reward, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            obs, _ = env.reset()
    obs, _ = test_env.reset(seed=1)
    over = False
    while not over:
        action = actor(torch.as_tensor(obs)).detach().numpy()
        obs, reward, terminated, truncated, _ = test_env.step(action * test_env.action_space.high)
        over = terminated or truncated
    ```

    ## Right
    ```python
    import gymnasium as gym
    import torch

    env, test_env = gym.make("Pendulum-v1"), gym.make("Pendulum-v1")
    actor = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = actor(torch.as_tensor(obs)).detach().numpy()
        obs, reward, terminated, truncated, _ = env.step(action * env.action_space.high)
        if terminated or truncated:
            obs, _ = env.reset()
    obs, _ = test_env.reset(seed=1)
    over = False
    while not over:
        action = actor(torch.as_tensor(obs)).detach().numpy()
        obs, reward, terminated, truncated, _ = test_env.step(action * test_env.action_space.high)
        over = terminated or truncated
    ```
    """
    yield from ()


@check("COD553", Severity.HIGH, ["sutton2018book"])
def steps_mixed_up(script: Script) -> Iterator[Spot]:
    """A return over several steps is put down to another step, counts one too few, or runs into the next episode.

    ## Why it hurts
    The return of n steps is what followed the first of them. Beside another observation, with a discount of another length or with rewards
    of the next episode in it, it is the return of nothing that happened.

    ## When it is fine
    Never.

    ## Fix
    Take the first step out, after the steps were counted; empty the queue where an episode ends.

    ## Wrong
    ```python
    from collections import deque

    import gymnasium as gym
    import numpy as np
    import torch
    from torch import nn

    env = gym.make("CartPole-v1")
    net, slow = nn.Linear(4, 2), nn.Linear(4, 2)
    slow.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    memory, recent = deque(maxlen=50_000), deque()
    obs, _ = env.reset(seed=0)
    for step in range(50_000):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        recent.append((obs, action, reward))
        if len(recent) == 3:
            total = 0.0
            for _, _, r in reversed(recent):
                total = r + 0.99 * total
            first_obs, first_action, _ = recent.pop()
            memory.append((first_obs, first_action, total, next_obs, float(terminated)))
        obs = next_obs
        if terminated or truncated:
            recent.clear()
            obs, _ = env.reset()
        if len(memory) > 1000:
            rows = [memory[i] for i in np.random.randint(len(memory), size=64)]
            s, a, r, s2, end = (torch.as_tensor(np.array(part)) for part in zip(*rows))
            with torch.no_grad():
                target = r.float() + 0.99**3 * (1 - end.float()) * slow(s2).max(1).values
            loss = nn.functional.mse_loss(net(s).gather(1, a[:, None]).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 500 == 0:
            slow.load_state_dict(net.state_dict())
    ```

    ## Right
    ```python
    from collections import deque

    import gymnasium as gym
    import numpy as np
    import torch
    from torch import nn

    env = gym.make("CartPole-v1")
    net, slow = nn.Linear(4, 2), nn.Linear(4, 2)
    slow.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    memory, recent = deque(maxlen=50_000), deque()
    obs, _ = env.reset(seed=0)
    for step in range(50_000):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        recent.append((obs, action, reward))
        if len(recent) == 3:
            total = 0.0
            for _, _, r in reversed(recent):
                total = r + 0.99 * total
            first_obs, first_action, _ = recent.popleft()
            memory.append((first_obs, first_action, total, next_obs, float(terminated)))
        obs = next_obs
        if terminated or truncated:
            recent.clear()
            obs, _ = env.reset()
        if len(memory) > 1000:
            rows = [memory[i] for i in np.random.randint(len(memory), size=64)]
            s, a, r, s2, end = (torch.as_tensor(np.array(part)) for part in zip(*rows))
            with torch.no_grad():
                target = r.float() + 0.99**3 * (1 - end.float()) * slow(s2).max(1).values
            loss = nn.functional.mse_loss(net(s).gather(1, a[:, None]).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 500 == 0:
            slow.load_state_dict(net.state_dict())
    ```
    """
    yield from ()


@check("COD554", Severity.HIGH, ["fujimoto2018td3"])
def noise_of_one_sign(script: Script) -> Iterator[Spot]:
    """The noise that is added to an action is never below 0.

    ## Why it hurts
    Exploration pushes every action to the same side: what is tried is not around what the policy does, and smoothing a target this way
    values other actions than the policy's.

    ## When it is fine
    Never.

    ## Fix
    Noise around 0: torch.randn_like, np.random.normal, uniform(-a, a).

    ## Wrong
    ```python
    import gymnasium as gym
    import numpy as np
    import torch

    env = gym.make("Pendulum-v1")
    actor = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = 2.0 * actor(torch.as_tensor(obs)).detach().numpy() + 0.2 * np.random.rand(1)
        obs, reward, terminated, truncated, _ = env.step(np.clip(action, -2.0, 2.0))
        if terminated or truncated:
            obs, _ = env.reset()
    ```

    ## Right
    ```python
    import gymnasium as gym
    import numpy as np
    import torch

    env = gym.make("Pendulum-v1")
    actor = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        action = 2.0 * actor(torch.as_tensor(obs)).detach().numpy() + 0.2 * np.random.randn(1)
        obs, reward, terminated, truncated, _ = env.step(np.clip(action, -2.0, 2.0))
        if terminated or truncated:
            obs, _ = env.reset()
    ```
    """
    yield from ()


@check("COD555", Severity.HIGH, ["mnih2015dqn"])
def parts_do_not_add_up(script: Script) -> Iterator[Spot]:
    """The parts of a dueling network do not add up to values.

    ## Why it hurts
    Q = V + A - mean(A): with another sign a better state lowers every value in it, and advantages less themselves leave nothing that tells
    actions apart.

    ## When it is fine
    Never.

    ## Fix
    value + advantage - advantage.mean(dim=-1, keepdim=True)

    ## Wrong
    ```python
    import gymnasium as gym
    import torch
    from torch import nn


    class Dueling(nn.Module):
        def __init__(self):
            super().__init__()
            self.value, self.advantage = nn.Linear(4, 1), nn.Linear(4, 2)

        def forward(self, x):
            advantage = self.advantage(x)
            return advantage - self.value(x) - advantage.mean(dim=1, keepdim=True)


    env = gym.make("CartPole-v1")
    net = Dueling()
    optimizer = torch.optim.Adam(net.parameters())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        q = net(torch.as_tensor(obs)[None])
        obs, reward, terminated, truncated, _ = env.step(int(q.argmax()))
        loss = (q.max() - reward) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if terminated or truncated:
            obs, _ = env.reset()
    ```

    ## Right
    ```python
    import gymnasium as gym
    import torch
    from torch import nn


    class Dueling(nn.Module):
        def __init__(self):
            super().__init__()
            self.value, self.advantage = nn.Linear(4, 1), nn.Linear(4, 2)

        def forward(self, x):
            advantage = self.advantage(x)
            return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)


    env = gym.make("CartPole-v1")
    net = Dueling()
    optimizer = torch.optim.Adam(net.parameters())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        q = net(torch.as_tensor(obs)[None])
        obs, reward, terminated, truncated, _ = env.step(int(q.argmax()))
        loss = (q.max() - reward) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if terminated or truncated:
            obs, _ = env.reset()
    ```
    """
    yield from ()


@check("COD556", Severity.HIGH, ["mnih2015dqn"])
def random_action_left_out(script: Script) -> Iterator[Spot]:
    """Random actions are drawn among fewer than there are, or among one that does not exist.

    ## Why it hurts
    np.random.randint(n), randrange(n) and integers(n) leave n out; random.randint(0, n) does not. An action that is never tried is never
    learned about, and one that does not exist ends the run.

    ## When it is fine
    Never.

    ## Fix
    env.action_space.sample(), or the number of actions as the bound.

    ## Wrong
    ```python
    import random

    import gymnasium as gym
    import torch

    env = gym.make("CartPole-v1")
    n_actions = env.action_space.n
    net = torch.nn.Linear(4, n_actions)
    optimizer = torch.optim.Adam(net.parameters())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        q = net(torch.as_tensor(obs))
        if random.random() < max(0.05, 1.0 - step / 5_000):
            action = random.randrange(n_actions - 1)
        else:
            action = int(q.argmax())
        obs, reward, terminated, truncated, _ = env.step(action)
        loss = (q[action] - reward) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if terminated or truncated:
            obs, _ = env.reset()
    ```

    ## Right
    ```python
    import random

    import gymnasium as gym
    import torch

    env = gym.make("CartPole-v1")
    n_actions = env.action_space.n
    net = torch.nn.Linear(4, n_actions)
    optimizer = torch.optim.Adam(net.parameters())
    obs, _ = env.reset(seed=0)
    for step in range(10_000):
        q = net(torch.as_tensor(obs))
        if random.random() < max(0.05, 1.0 - step / 5_000):
            action = random.randrange(n_actions)
        else:
            action = int(q.argmax())
        obs, reward, terminated, truncated, _ = env.step(action)
        loss = (q[action] - reward) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if terminated or truncated:
            obs, _ = env.reset()
    ```
    """
    yield from ()
