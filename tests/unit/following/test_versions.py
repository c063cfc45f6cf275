"""A version passes only from one state to the next."""

from __future__ import annotations

from itertools import product

import pytest

from planner.following.versions import VersionRecord, VersionState, may_become

LEGAL = {
    ("published", "scheduled"),
    ("published", "superseded"),
    ("scheduled", "running"),
    ("scheduled", "superseded"),
    ("running", "confirmed"),
    ("running", "rolled_back"),
}


@pytest.mark.parametrize(("one", "other"), list(product(VersionState, VersionState)))
def test_only_legal_transitions_are_allowed(one: VersionState, other: VersionState) -> None:
    version = VersionRecord(2, one, "interval", 5)
    legal = (one.value, other.value) in LEGAL
    assert may_become(one, other) == legal
    if legal:
        assert version.to(other, apply_at_iteration=9).apply_at_iteration == 9
    else:
        with pytest.raises(ValueError, match="version 2"):
            version.to(other)


def test_a_version_survives_its_document() -> None:
    version = VersionRecord(3, VersionState.RUNNING, "interval", 5, 9, 0.1, 0.05, copy_of=1)
    assert VersionRecord.from_document(version.to_document()) == version
