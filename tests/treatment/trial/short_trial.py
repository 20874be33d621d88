"""`python -m tests.treatment.trial.short_trial STORE [resume | several]`: a trial of two arms with real training, to be killed."""

import sys

from rlclinic.config import load
from rlclinic.runs.store import Store
from rlclinic.treatment.trial import arms, conduct

if __name__ == "__main__":
    short = ["run.max_env_steps=1024", "run.eval_every_env_steps=256", "run.eval_episodes=2", "spec.threshold=60"]
    config = load("CartPole-v1:ppo", short).config
    plan = conduct.plan(arms.control(config), [arms.changed(config, ["learning_rate=1e-4"], "slow")], per_look=4, looks=2, seed0=40)
    if "several" in sys.argv:
        others = [load(f"{env}:ppo", short[:3]).config for env in ("CartPole-v1", "Acrobot-v1")]
        parts = [(arms.control(own), [arms.changed(own, ["learning_rate=1e-4"], "slow")]) for own in others]
        plan = conduct.plan_environments(parts, per_look=2, looks=2, seed0=40, outcome="return")
    store = Store(sys.argv[1])
    if "resume" in sys.argv:
        conduct.resume(store, "@last", cores=2)
    else:
        conduct.run(store, plan, cores=2)
