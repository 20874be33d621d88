"""The checks, one module per family of symptoms. `rlclinic.diagnosis.rule.rules()` lists them."""
