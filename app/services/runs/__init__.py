"""Training runs: what they report, the plans that follow it, and who looks after them."""
