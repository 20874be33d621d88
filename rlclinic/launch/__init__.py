"""Starting training: `plan` turns configs into cohorts, `local` runs one process per cohort on this machine."""
