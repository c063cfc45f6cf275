"""What each part of the pipeline solver adds; `python -m benchmarks.ablation`."""
