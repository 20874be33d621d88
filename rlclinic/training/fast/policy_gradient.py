"""The loss of A2C, A3C, IMPALA, and of REINFORCE with a baseline, with its derivatives by hand: they differ in the advantages alone."""

from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch
from rlclinic.training.fast.gradients import Slopes
from rlclinic.training.maths import losses


def slopes(log_prob: Tensor, entropy: Tensor, value: Tensor, batch: Batch, hp: Hyperparameters) -> tuple[Slopes, dict[str, Tensor]]:
    """The derivatives of `algos.a2c.loss`, which `algos.reinforce.loss` equals with a baseline; and its readings."""
    count = log_prob.shape[1]
    error = value - batch.returns
    policy_loss, value_loss, entropy = losses.policy_gradient(log_prob, batch.advantage), losses.mean(error * error), losses.mean(entropy)
    total = policy_loss + hp.vf_coef * value_loss - hp.ent_coef * entropy
    by_entropy = -hp.ent_coef / count if hp.pays_entropy else None
    slopes = Slopes(batch.advantage * (-1.0 / count), error * (hp.vf_coef * (2.0 / count)), by_entropy)
    return slopes, {"policy": policy_loss, "value": value_loss, "entropy": -entropy, "total": total}
