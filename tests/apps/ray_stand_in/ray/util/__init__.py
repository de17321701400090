"""Has the scheduling strategies."""
