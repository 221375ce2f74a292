"""The rights that routes require, as types of their parameters."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from starlette.exceptions import HTTPException

from zkdeployment.service.access.identity import CurrentUser
from zkdeployment.service.users.user import Right, Role, User


def require(right: Right) -> Callable[[User], User]:
    """Return a dependency that returns the user of a request if it has a right, and answers 403 otherwise."""

    def check(user: CurrentUser) -> User:
        if not user.may(right):
            raise HTTPException(403, f"the user {user} may not {right.value}: its role is {user.role.value}")
        return user

    return check


#: A user who may read the fleet.
Reader = Annotated[User, Depends(require(Right.READ_FLEET))]

#: A user who may read pools; tenants may read nothing else, but their own sessions.
PoolReader = Annotated[User, Depends(require(Right.READ_POOLS))]

#: A user who may lease nodes: a tenant, or an admin.
Tenant = Annotated[User, Depends(require(Right.LEASE_NODES))]

#: A user who may act on the fleet.
Operator = Annotated[User, Depends(require(Right.ACT_ON_FLEET))]


def require_monitoring(user: CurrentUser) -> User:
    """Return the user of a request if it is a monitoring system, and answer 403 otherwise.

    Other roles are refused: from a fetched deployment the coordinator concludes that the monitoring system has
    received it.
    """
    if user.role is not Role.MONITORING:
        raise HTTPException(
            403, f"the user {user} may not {Right.ANSWER_CHECKS.value}: its role is {user.role.value}"
        )
    return require(Right.ANSWER_CHECKS)(user)


#: A monitoring system: a user of its name.
Monitoring = Annotated[User, Depends(require_monitoring)]
