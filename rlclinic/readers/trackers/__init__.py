"""What experiment trackers leave on a disk: Weights & Biases' files and MLflow's database, read without their packages."""
