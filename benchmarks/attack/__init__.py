"""What an attacker, a stranger's files and kills at random moments do to rlclinic."""
