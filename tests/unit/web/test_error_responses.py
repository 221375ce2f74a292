import pytest

from zkdeployment.errors import (
    AllStopError,
    ConfigurationError,
    ConflictError,
    DeniedError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    TreeError,
    UnreachableError,
    WaitTimeoutError,
    ZkdeploymentError,
)
from zkdeployment.web.error_responses import error_status


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigurationError, 400),
        (NotFoundError, 404),
        (ForbiddenError, 403),
        (AllStopError, 409),
        (ConflictError, 409),
        (RefusedError, 409),
        (ZkdeploymentError, 409),
        (TreeError, 422),
        (DeniedError, 503),
        (UnreachableError, 503),
        (WaitTimeoutError, 503),
    ],
)
def test_each_kind_of_error_has_a_status(error, status):
    assert error_status(error("x")) == status
