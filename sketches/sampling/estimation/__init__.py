"""Kept events with their probabilities (`poisson_sample`), decayed sums (`horvitz_thompson`), limits (`intervals`)."""
