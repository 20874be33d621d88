"""From a diagnosis to a proven cure: prescriptions, trials, adoption, probes, searches."""
