from zkdeployment.base.daemon.cycles import jittered, spread


def test_a_jittered_pause_differs_by_up_to_its_share():
    pauses = [jittered(100, 0.1) for _ in range(200)]
    assert all(90 <= pause <= 110 for pause in pauses)
    assert len(set(pauses)) > 1


def test_a_spread_delay_is_at_most_the_given_seconds():
    assert all(0 <= spread(5) <= 5 for _ in range(200))
    assert spread(0) == 0
