"""Measures the stages of a pipeline with PyTorch and writes the problem that they give.

Needs PyTorch and the standard library only, so that it runs where the model does.
"""
