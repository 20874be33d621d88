"""Side by side with peers, and what rlclinic itself costs. Results with provenance in results/, tables in docs/benchmarks.md."""
