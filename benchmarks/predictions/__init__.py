"""Predictions against published and measured figures.

    python -m benchmarks.predictions

Every reference value that the planner predicts, what it says, and the error. Nothing is tuned per
row; the settings of each are in the modules here. Writes `results/predictions.md` and `.json`.
"""
