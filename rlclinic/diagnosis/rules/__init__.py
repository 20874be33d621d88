"""The checks, one module per family of symptoms. `rlclinic.diagnosis.registry.rules()` lists them."""
