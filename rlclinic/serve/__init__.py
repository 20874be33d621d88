"""The faces of rlclinic: tables over `rlclinic.ops`, and how results look; no logic."""
