"""Sums that lean on exact totals: total times mean decay, plus what kept events differ from it. Begin at `leaning`."""
