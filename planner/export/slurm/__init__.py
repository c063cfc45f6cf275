"""Plans as batch scripts of Slurm."""
