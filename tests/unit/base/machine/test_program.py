"""The settings of the running program."""

import gc

from zkdeployment.base.machine.program import collect_rarely


def test_rare_collections_affect_only_new_objects():
    before = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.get_threshold() == (20_000, *before[1:])
    finally:
        gc.set_threshold(*before)
