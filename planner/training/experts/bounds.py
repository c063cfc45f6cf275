"""What no packing of a layer's experts can be below."""

from __future__ import annotations

from planner.training.experts.layer import Layer


def least_largest_load(layer: Layer) -> int:
    """A bound of the most loaded device's weight.

    The mean, in whole units; and the pigeonhole principle: of the j m + 1 largest experts some of
    m devices holds j + 1, which are at least the smallest j + 1 of them (the bounds of
    multiprocessor scheduling, Dell'Amico and Martello 1995), and where every device
    holds equally many, the smallest of all experts on top.
    """
    usable = sum(capacity > 0 for capacity in layer.capacity)
    weights = layer.weights
    best = -(-layer.total // usable)
    for together in range(1, (len(weights) - 1) // usable + 2):
        last = (together - 1) * usable + 1
        held = sum(weights[last - together : last])
        if layer.equal:
            others = layer.capacity[0] - together
            held += sum(weights[len(weights) - others :]) if others > 0 else 0
        best = max(best, held)
    return best


def least_time_s(layer: Layer) -> float:
    """A bound of `Layer.time_s`: least computing time plus least exchange time.

    An exchange takes what the most loaded device gets; what all devices get if each gets what it
    can in that time; and of each node, what its devices get or, the smaller its part, what they
    send to the others.
    """
    largest = least_largest_load(layer)
    total = layer.total
    arrival = layer.arrival_s
    exchange = min(arrival) * largest
    if min(arrival) > 0:
        exchange = max(exchange, total / sum(1 / own for own in arrival))
    if layer.departure_s:
        for devices in layer.devices_of_node().values():
            into = arrival[devices[0]] / len(devices)
            both = total * layer.departure_s * into / (layer.departure_s + into)
            exchange = max(exchange, both)
    return layer.compute_s * largest + exchange
