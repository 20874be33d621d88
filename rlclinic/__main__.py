"""`python -m rlclinic`: the same as the `rlclinic` command."""

from rlclinic.serve.cli.app import main

main()
