"""From the steps of a traced program to the `graph` of a request for a sharding plan.

Knows neither PyTorch nor JAX: `client.torch_extract` and `client.jax_extract` write down what they
traced as a `Trace`, and `build.build_graph` makes the document of it.
"""
