"""Learning from an expert that can be asked: experts, labels, rules that say when to ask, and a round of it all."""
