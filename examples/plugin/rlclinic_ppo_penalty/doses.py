"""Doses: how much of a setting, computed from the run's own numbers."""

from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.group_numbers import Chart

USUAL = 1.0


@dose
def weaker_penalty(chart: Chart) -> Dose | None:
    """A price of change that leaves room for a usual update."""
    price = chart.real("algo.kl_coef")
    if price is None or price <= USUAL:
        return None
    return Dose({"algo.kl_coef": USUAL}, f"a price of {price:g} per unit of KL leaves no room to learn; {USUAL:g} is usual")
