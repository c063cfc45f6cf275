"""Published tables of models on GPU clusters, and what the planner predicts for the same models.

    python -m benchmarks.models [a100] [h100]

`a100`: four models on 8 x A100-40GB; `h100`: two on 16 x H100-80GB; both without an argument. Plans
are made in this process, without a service. Writes `results/models-a100` and `results/models-h100`
(`.json`, `.md`); exits with 1 if a plan is refused by the verifier, or missing or longer where a
classic schedule fits.
"""
