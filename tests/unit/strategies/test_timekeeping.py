import pytest

from zkdeployment.strategies.timekeeping import cycle_interval


@pytest.mark.parametrize(("hosts", "seconds"), [(0, 0.2), (1000, 0.2), (5000, 0.5), (10_000, 1.0)])
def test_large_rollouts_are_coordinated_less_often(hosts, seconds):
    assert cycle_interval(hosts) == pytest.approx(seconds)
