"""What is gained where devices or stages are not alike; `python -m benchmarks.heterogeneity`."""
