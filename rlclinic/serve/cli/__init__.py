"""The `rlclinic` command: a table over `rlclinic.ops`."""
