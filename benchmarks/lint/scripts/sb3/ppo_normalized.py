from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

SEED = 11


def train(path):
    venv = VecNormalize(make_vec_env("BipedalWalker-v3", n_envs=16, seed=SEED), norm_obs=True, norm_reward=True, gamma=0.99)
    model = PPO("MlpPolicy", venv, n_steps=2048, batch_size=64, gae_lambda=0.95, gamma=0.99, n_epochs=10, ent_coef=0.0, learning_rate=3e-4, seed=SEED)
    model.learn(5_000_000)
    model.save(f"{path}/model")
    venv.save(f"{path}/normalizer.pkl")
    venv.close()


def test(path):
    venv = make_vec_env("BipedalWalker-v3", n_envs=1, seed=SEED + 100)
    venv = VecNormalize.load(f"{path}/normalizer.pkl", venv)
    venv.training = False
    venv.norm_reward = False
    model = PPO.load(f"{path}/model", env=venv)
    return evaluate_policy(model, venv, n_eval_episodes=20, deterministic=True)


if __name__ == "__main__":
    train("out")
    print(test("out"))
