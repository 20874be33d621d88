"""How often the verdicts are wrong: simulations of the product's own decision functions (`python -m benchmarks.proof`)."""
