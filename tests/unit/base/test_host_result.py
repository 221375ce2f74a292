from zkdeployment.base.deployment import MAX_ERROR_LENGTH, HostResult


def test_a_long_error_is_cut():
    assert HostResult("h", "h", 1.0, 1.0, "x" * 1000).to_json()["error"] == "x" * MAX_ERROR_LENGTH
