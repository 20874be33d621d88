"""Doses for learning from recorded data: how close to it, how much its better actions count."""

from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.formulas.learning_rate import rounded
from rlclinic.treatment.prescription.group_numbers import Chart


@dose
def closer_to_the_data(chart: Chart) -> Dose | None:
    """A third of the distance: less weight of values, more of imitation or of the penalty."""
    changes = {
        "td3_bc": ("algo.bc_alpha", 1 / 3),
        "cql": ("algo.cql_alpha", 3.0),
        "cal_ql": ("algo.cql_alpha", 3.0),
        "awac": ("algo.awac_lambda", 3.0),
    }
    if chart.algo == "iql":
        expectile = chart.real("algo.expectile")
        return (
            Dose({"algo.expectile": 0.6}, f"values of better than the mean action, not of the best ({expectile:g})") if expectile else None
        )
    if chart.algo not in changes:
        return None
    name, factor = changes[chart.algo]
    value = chart.real(name)
    return None if value is None else Dose({name: rounded((value or 1.0) * factor)}, f"{name} {factor:.2g} times {value:g}")


@dose
def smaller_penalty(chart: Chart) -> Dose | None:
    """A fifth of CQL's penalty."""
    alpha = chart.real("algo.cql_alpha")
    return Dose({"algo.cql_alpha": rounded(alpha / 5)}, f"a fifth of {alpha:g}") if chart.algo in ("cql", "cal_ql") and alpha else None


@dose
def flatter_weights(chart: Chart) -> Dose | None:
    """Advantages count a fifth."""
    return _weigh(chart, 1 / 5, "few weights reach weight_cap")


@dose
def steeper_weights(chart: Chart) -> Dose | None:
    """Advantages count ten times as much."""
    return _weigh(chart, 10.0, "better actions weigh visibly more")


def _weigh(chart: Chart, factor: float, why: str) -> Dose | None:
    if chart.algo == "iql" and (beta := chart.real("algo.beta")):
        return Dose({"algo.beta": rounded(beta * factor)}, f"beta {factor:g} times {beta:g}: {why}")
    if chart.algo == "awac" and (divisor := chart.real("algo.awac_lambda")):
        return Dose({"algo.awac_lambda": rounded(divisor / factor)}, f"lambda {1 / factor:g} times {divisor:g}: {why}")
    return None


@dose
def shorter_training(chart: Chart) -> Dose | None:
    """A third of the gradient steps."""
    budget = chart.budget
    return Dose({"run.max_env_steps": max(int(budget / 3), 100)}, "a third of the gradient steps") if budget else None


@dose
def larger_recorded_share(chart: Chart) -> Dose | None:
    """Half as many new transitions in each batch."""
    if chart.setting("data.then_online") is not True:
        return None
    share = chart.real("data.recorded_share")
    share = 0.5 if share is None else share
    return Dose({"data.recorded_share": rounded((1.0 + share) / 2)}, f"half as many new transitions in a batch as with {share:g}")


@dose
def target_from_the_data(chart: Chart) -> Dose | None:
    """The highest return of the data."""
    asked = chart.real("algo.target_return")
    return None if asked is None else Dose({"algo.target_return": None}, f"the highest return of the data instead of {asked:g}")
