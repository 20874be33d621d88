"""Hand-derived gradients and kernels, held to the losses by tests."""
