"""Environments made for the benchmark: no rule, band or paper knows them."""
