"""What four choices in planning offloads change, each against leaving it.

    python -m benchmarks.choices

How far AdaOffload may delay the first backwards; whether a plan knows which devices share a link to
the host; whether micro-batches keep their order; and which share of a copy's time is counted where
copies overlap. Prints the tables and writes `results/choices.md` and `.json`, with pictures of the
first; 1 if a verifier has anything against a plan. Takes several minutes on one core.
"""
