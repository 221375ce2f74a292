"""Values that a command refuses by itself are refused although ZooKeeper does not answer."""

import pytest

from support.commands import invoke


@pytest.mark.all_features
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("intent", "status", "p1/store/v1/shop", "--output", "everything"),
            "output is everything: expected one of",
        ),
        (("intent", "status", "p1/store/v1/shop", "--instance", "first"), "instance is first: expected the id"),
        (("checks", "instances", "first"), "malformed identifier of a check instance: expected a UUID"),
        (("checks", "retry", "first"), "malformed identifier of a check instance: expected a UUID"),
        (("tree", "get", "shop"), "'shop' is not the path of a node: expected /shop"),
        *(
            (
                (*verb, "--timeout", "nan"),
                "Invalid value for '--timeout': expected a number of seconds, found 'nan'",
            )
            for verb in (("resume", "--latest"), ("status", "--wait"), ("pool", "fill", "web"))
        ),
        *(
            (("status", "--wait", "--timeout", seconds), "is not in the range 0<=x<=31536000.0")
            for seconds in ("inf", "1e300", "-1")
        ),
    ],
)
def test_a_malformed_value_is_refused_before_zookeeper_is_asked(arguments, message):
    done = invoke(*arguments, "-z", "127.0.0.1:1")
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
