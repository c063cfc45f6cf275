"""From an `nn.Module` to the graph of a request for a sharding plan; see `extraction.extract`.

Needs PyTorch (``pip install 'loadmaster[torch]'``), no GPU and no memory for weights.
"""
