"""What names mean in training scripts: the same few words for the same few things, in many spellings."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

Meaning = Callable[[str], bool]


def _word(pattern: str, but: str = "") -> Meaning:
    wanted, unwanted = re.compile(pattern), re.compile(but) if but else None
    return lambda name: bool(wanted.search(name.lower())) and not (unwanted and unwanted.search(name.lower()))


END: Final = _word(
    r"(^|_)(next_?)?(dones?|terminals?|terminated|terminations?|truncated|truncations?|finished|ended|term)($|_)|^ds?$",
    r"not_|non_|mask|^no_",
)
NOT_ENDED: Final = _word(r"non_?term|non_?final|non_?end|not_?done|not_?term|not_?end|(^|_)alive($|_)|(^|_)continues?($|_)")
KEPT: Final = _word(r"^(b_|batch_)?masks?(_b|_batch|_t)?$")
"""A mask that multiplies what comes next, without a word of what it marks."""
COMBINED: Final = _word(r"(^|_)(next_?)?(dones?|terminals?|over|finished|ended|ends)($|_)", r"not_|non_")
TERMINATED: Final = _word(r"terminat|terminal|(^|_)term($|_)")
TRUNCATED: Final = _word(r"trunc|time_?out|timelimit|time_limit")
MASK: Final = _word(
    r"dones?|termin|(^|_)term($|_)|trunc|mask|final|alive|continu|not_?end|ended|finished|discounts($|_)|(^|_)ends?($|_)|^ds?$"
)
LOG_PROB: Final = _word(r"log_?(p|pi|prob|probs|pis|pi_a|policy|likelihood)($|_|\d|s$)|log_?prob|logpac", r"old_approx")
ADVANTAGE: Final = _word(r"(^|_)(adv|advs|advantages?|gaes?|td_errors?|deltas?|psi)($|_)")
RETURN: Final = _word(r"(^|_)(returns?|rets?|rewards?|rews?|rtg|rtgs|discounted\w*|gt|weights?)($|_)|^[gr]s?$|^qvals?$")
REWARD: Final = _word(r"(^|_)(rewards?|rews?|r|rs)($|_)")
VALUE: Final = _word(r"(^|_)(new)?(values?|vals?|vpreds?|v|vs|baselines?|state_values?|critic_values?)($|_)", r"loss|coef|max|next_value_")
ENTROPY: Final = _word(r"entrop", r"target|coef|weight|beta|scale|bonus_|max_")
RATIO: Final = _word(r"(^|_)(ratios?|rho|rhos|importance\w*)($|_)", r"log_?ratio")
GAMMA: Final = _word(r"gamma|(^|_)discount($|_|ing|_factor)")
LAMBDA: Final = _word(r"lambda|(^|_)lam($|_|da)|(^|_)tau($|_)|gae_?l")
LOSS: Final = _word(r"loss|objective|cost($|_)")
LOGITS: Final = _word(r"logit|action_scores?|(^|_)scores?($|_)")
PROBS: Final = _word(r"(^|_)(probs?|probabilities|pi|action_probs?)($|_)", r"log")
NETWORK: Final = _word(
    r"net($|_|work)|model|critic|actor|policy|agent|(^|_)qf?\d?($|_)|qnet|(^|_)v(f)?($|_)|value_?(fn|func|function|head)|mlp|dqn$"
)
TARGET: Final = _word(r"target|(^|_)tgt|_targ($|_)|_old($|_)")
EPSILON: Final = _word(
    r"(^|_)(epsilon|eps|exploration_rate|explore_rate|exploration_prob)($|_|_greedy|_start|_threshold)",
    r"adam|clip|_end|_min|_decay|_final",
)
CHANCE: Final = _word(r"epsilon|(^|_)eps($|_)|noise|explor|temperature|boltzmann")
BUFFER: Final = _word(r"buffer|memory|replay|(^|_)rb($|_)|(^|_)storage($|_)")
OBSERVATION: Final = _word(
    r"(^|_)(next_?|new_?|last_?|prev_?|old_?)?(obs|observations?|states?|s|s2|o|o2|frames?)($|_)", r"space|dim|size|shape|n_obs|dict"
)
ACTION: Final = _word(r"(^|_)(actions?|acts?|a|u)($|_)", r"space|dim|size|n_act")
ENVIRONMENT: Final = _word(
    r"env|(^|_)venvs?($|_)|(^|_)world($|_)|(^|_)game($|_)", r"env_?(id|name|fn|fns|kwargs|step|steps|config|args|spec|cls)|environ$"
)
VECTOR: Final = _word(r"envs$|venv|vec|(^|_)envs($|_)")
EVALUATION: Final = _word(r"(^|_)(eval|test|evaluate|evaluation|play|demo|validate|validation|enjoy|watch|render|record)($|_|s$|ing)|eval")
OPTIMIZER: Final = _word(r"opt(im|imi[sz]er)?s?($|_)|optim")
POLICY_LOSS: Final = _word(r"(policy|actor|pi|pg|surr\w*|action|clip)_?\w*loss|^loss_?(pi|policy|actor|pg|clip)|a_loss")
VALUE_LOSS: Final = _word(r"(value|critic|vf?|baseline)_?\w*loss|^loss_?(v|vf|value|critic)($|_)|^c_loss")


def identifiers(node: ast.AST) -> Iterator[str]:
    """Every name and attribute below a node."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant) and isinstance(each.slice.value, str):
            yield each.slice.value


def mentions(node: ast.AST, meaning: Meaning) -> bool:
    """Whether a name below the node means that."""
    return any(meaning(name) for name in identifiers(node))


def own_name(node: ast.AST) -> str:
    """What a thing is called: `log_prob` for log_prob, self.log_prob, batch.log_prob[i], batch["log_prob"]."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        return own_name(node.value)
    if isinstance(node, ast.Starred):
        return own_name(node.value)
    return ""
