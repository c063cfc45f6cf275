"""From Slurm's network topology to a request's `cluster`: `topology.conf`, or what `scontrol show
topology` prints, which is written alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from client.errors import InputError
from client.importers.imported import Imported
from client.importers.racks import racks_of

MOST_NODES = 2**17
FIELD = re.compile(r"(\w+)=(\S+)")
BRACKETS = re.compile(r"\[([^\]]*)\]")
SPAN = re.compile(r"(\d+)(?:-(\d+))?")
CONTENT_REMEDY = "Give topology.conf, or the output of `scontrol show topology`."


def from_slurm_topology(text: str) -> Imported:
    """The cluster's nodes, and how many of them are behind each leaf switch (or in each block).

    Raises `InputError` where the text names no nodes, or names a node at two switches.
    """
    leaves = {line["name"]: _hosts(line["nodes"]) for line in _leaves(text)}
    if not leaves:
        raise InputError("FILE", "names no switch or block with nodes.", CONTENT_REMEDY)
    switch_of: dict[str, str] = {}
    for switch, hosts in leaves.items():
        for host in hosts:
            if switch_of.setdefault(host, switch) != switch:
                raise InputError(
                    "FILE", f"{host} is at {switch_of[host]} and at {switch}.", CONTENT_REMEDY
                )
    notes = ["Add `cluster.gpu` and `cluster.gpus_per_node`, which a topology does not say."]
    cluster = racks_of([len(set(hosts)) for hosts in leaves.values()], notes)
    if "nodes_per_rack" in cluster:
        notes.append(
            "Add `cluster.inter_rack_bytes_per_s` if less goes through the switches above than "
            "between nodes behind one."
        )
    return Imported({"cluster": cluster}, notes)


def _leaves(text: str) -> Iterator[Mapping[str, str]]:
    """Name and nodes of switches that have no switches below them, and of blocks."""
    for line in text.replace("\\\n", " ").splitlines():
        fields = {name.lower(): value for name, value in FIELD.findall(line.partition("#")[0])}
        name = fields.get("switchname", fields.get("blockname"))
        if name is not None and "nodes" in fields and "switches" not in fields:
            yield {"name": name, "nodes": fields["nodes"]}


def _hosts(expression: str) -> list[str]:
    """The names of a host list such as `a[1-3,07],b2`."""
    found: list[str] = []
    for part in _parts(expression):
        for host in _expanded(part):
            found.append(host)
            if len(found) > MOST_NODES:
                raise InputError("FILE", f"names more than {MOST_NODES} nodes.", CONTENT_REMEDY)
    return found


def _parts(expression: str) -> list[str]:
    """Its parts: commas outside of brackets are between them."""
    return re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", expression)


def _expanded(part: str) -> Iterator[str]:
    match = BRACKETS.search(part)
    if match is None:
        if "[" in part:
            raise InputError("FILE", f"{part[:80]!r} is no list of hosts.", CONTENT_REMEDY)
        yield part
        return
    for number in _numbers(match[1]):
        yield from _expanded(part[: match.start()] + number + part[match.end() :])


def _numbers(ranges: str) -> Iterable[str]:
    """Those of `1-3,07`, with their zeros."""
    for each in ranges.split(","):
        span = SPAN.fullmatch(each)
        if span is None:
            raise InputError("FILE", f"{each[:80]!r} is no range of numbers.", CONTENT_REMEDY)
        first, last = span[1], span[2] or span[1]
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
