"""Plans as manifests for Kubernetes: a JobSet, a PyTorchJob, a TrainJob."""
