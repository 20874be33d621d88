"""Many small worlds, drawn from families, so that the diagnosis is measured on environments that no rule was written for."""
