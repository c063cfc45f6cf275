"""Topologies of Slurm: equal racks, counted by the hosts of leaf switches."""

from __future__ import annotations

import pytest

from client.errors import InputError
from client.importers.slurm_topology import from_slurm_topology

CONF = """
# Two leaves and a spine.
SwitchName=leaf1 Nodes=gpu[01-04]
switchname=leaf2 nodes=gpu[05-07],extra \\
  LinkSpeed=1
SwitchName=spine Switches=leaf[1-2]  # SwitchName=no Nodes=no
"""
SHOWN = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[01-04]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=extra,gpu[05-07]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=extra,gpu[01-07] Switches=leaf[1-2]
"""
BLOCKS = "BlockName=b1 Nodes=a[1-2]n[1-2]\nBlockName=b2 Nodes=c[1,3,5-6]\nBlockSizes=4\n"


@pytest.mark.parametrize("text", [CONF, SHOWN, BLOCKS])
def test_leaves_are_racks(text: str) -> None:
    imported = from_slurm_topology(text)
    assert imported.document == {"cluster": {"nodes": 8, "nodes_per_rack": 4}}
    assert "cluster.gpu" in imported.notes[0]


def test_one_switch_is_no_rack() -> None:
    assert from_slurm_topology("SwitchName=s Nodes=n[1-3]").document == {"cluster": {"nodes": 3}}


def test_unequal_racks_are_cut_to_the_smallest_and_said() -> None:
    imported = from_slurm_topology("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-7]")
    assert imported.document == {"cluster": {"nodes": 6, "nodes_per_rack": 3}}
    assert any("1 nodes left out" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no switch or block"),
        ("SwitchName=spine Switches=leaf[1-2]", "no switch or block"),
        ("SwitchName=a Nodes=n[1-x]", "'1-x' is no range"),
        ("SwitchName=a Nodes=n[1-2", "no list of hosts"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "n1 is at a and at b"),
        ("SwitchName=a Nodes=n[0-99999999999999]", "more than 131072 nodes"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("[", r"\[")):
        from_slurm_topology(text)
