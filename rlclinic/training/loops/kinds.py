"""What either loop works with: the types of code that serves both."""

from collections.abc import Mapping

from rlclinic.training.loops import off_policy, on_policy
from rlclinic.training.nets.mlp import ActorCritic
from rlclinic.training.nets.q_nets import Net

AnyPlan = on_policy.Plan | off_policy.Plan
AnyLearner = on_policy.Learner | off_policy.Learner
Static = ActorCritic | Mapping[str, Net]
"""The half of a policy that is not learned."""
