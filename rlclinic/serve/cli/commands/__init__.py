"""The commands, one module per room of `rlclinic.ops`."""
