"""Users of the service, their roles, what each role may do, and users as programs read them.

A user is a person or a program with a name and a key. The adapter stores the key as a hash; these values do not
contain the key.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.names import RESERVED, NameKind, check_node_path, name_problem
from zkdeployment.base.records import Key, Record, invalid
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.history import LoginProblem  # noqa: TC001  records read the types of their fields
from zkdeployment.tree.values import is_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.base.act import ActRight
    from zkdeployment.base.json_values import Value


#: The text in place of masked secrets.
MASK = "***"


class Role(Enum):
    """The roles of users; the value is the word of commands, documents and answers."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    MONITORING = "monitoring"
    TENANT = "tenant"
    ADMIN = "admin"


class Right(Enum):
    """The rights that the service requires; the value completes the sentence "USER may not …"."""

    READ_FLEET = "read the state of the fleet"
    ACT_ON_FLEET = "act on the fleet"
    ANSWER_CHECKS = "answer the checks of a monitoring system"
    READ_POOLS = "read pools and nodes"
    LEASE_NODES = "lease nodes"
    READ_ALL_SESSIONS = "read the sessions of all tenants"
    MANAGE_POOLS = "change nodes and the sessions of all tenants"
    MANAGE_USERS = "manage users"
    READ_AUDIT = "read who acted and who failed to log in"


#: The rights of each role. A monitoring user answers only the checks of the monitoring system of its own name; a
#: tenant reads and changes only its own sessions; the routes compare the names.
RIGHTS: dict[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ_FLEET, Right.READ_POOLS}),
    Role.OPERATOR: frozenset({Right.READ_FLEET, Right.READ_POOLS, Right.ACT_ON_FLEET, Right.READ_AUDIT}),
    Role.MONITORING: frozenset({Right.ANSWER_CHECKS}),
    Role.TENANT: frozenset({Right.READ_POOLS, Right.LEASE_NODES}),
    Role.ADMIN: frozenset(Right),
}


def _paths(value: Any) -> tuple[str, ...]:
    """Return the paths to which a user is limited; a damaged record must not make the user unlimited."""
    if not isinstance(value, list) or not all(isinstance(path, str) and path[:1] == "/" for path in value):
        raise invalid("a list of paths of the tree", value)
    return tuple(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """A user that is to be added.

    ``key_expires_at`` is when the present key expires, in seconds since the epoch (``None``: never). ``paths`` are
    the paths of the tree at and below which the user may act; without paths, the user is not limited. The other
    fields concern tenants; ``None`` stands for the default of the pools: ``ssh_key`` are the public keys that
    leased nodes admit, one in each line, ``node_quota`` the number of nodes in all sessions; the two lifetimes are
    in seconds.
    """

    name: str
    role: Role
    key_expires_at: float | None = None
    paths: Annotated[tuple[str, ...], Key(omit=True, read=_paths)] = ()
    ssh_key: str | None = None
    node_quota: int | None = None
    session_lifetime: float | None = None
    session_lifetime_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User(Record, NewUser):
    """A user of the service.

    Times are in seconds since the epoch. ``retired_at`` is ``None`` until the user is retired: a retired user
    stays on record, and its name is not used again. ``key_number`` counts the keys of the user. ``identity`` is
    ``None`` for a user with a key, else the place and the name of the user's login.
    """

    omits_unset: ClassVar[bool] = True
    id: int
    created_at: float
    retired_at: float | None = None
    key_number: int = 1
    identity: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def is_admin(self) -> bool:
        """Whether the user has the role of an admin, who is also a tenant."""
        return self.role is Role.ADMIN

    @property
    def is_tenant(self) -> bool:
        """Whether the user has a role with which users have sessions of pools, retired or not."""
        return Right.LEASE_NODES in RIGHTS[self.role]

    @property
    def is_retired(self) -> bool:
        """Whether the user was retired."""
        return self.retired_at is not None

    @property
    def rights(self) -> frozenset[Right]:
        """The rights of the user; none after retirement."""
        return frozenset() if self.is_retired else RIGHTS[self.role]

    def may(self, right: Right) -> bool:
        """Return whether the user has a right."""
        return right in self.rights

    def may_act(self, right: ActRight, *paths: str) -> bool:
        """Return whether the user may act on the nodes at all of these paths; no path is the whole fleet."""
        if not self.may(Right.ACT_ON_FLEET):
            return False
        is_limited = bool(self.paths) and not right.is_safe
        return not is_limited or (bool(paths) and not self.paths_outside(paths))

    def paths_outside(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return those of the given paths that are neither at nor below a path to which the user is limited."""
        return tuple(path for path in paths if not any(is_below(path, above) for above in self.paths))

    def key_has_expired(self, now: float) -> bool:
        """Return whether the user's key is no longer valid at ``now``."""
        return self.key_expires_at is not None and self.key_expires_at <= now


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A user and its new key, which is shown once and stored nowhere."""

    user: User
    key: str

    def __repr__(self) -> str:
        return f"IssuedKey({self.user.name}, {MASK})"


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """A refused login; after ``retry_after`` seconds another attempt is accepted."""

    problem: LoginProblem
    retry_after: float = 0.0

    def __str__(self) -> str:
        return self.problem.value


def right_refusal(user: User, right: Right, words: str = "") -> str:
    """Return why a user lacks a right, and the roles that have it; ``words`` describe the right."""
    able = " or ".join(role.value for role in Role if right in RIGHTS[role])
    return f"the user {user} may not {words or right.value}: its role is {user.role.value}; expected {able}"


def act_refusal(user: User, right: ActRight, *paths: str) -> str | None:
    """Return why a user may not act on the nodes at these paths; ``None`` if it may.

    No path stands for the whole fleet.
    """
    if user.may_act(right, *paths):
        return None
    if not user.may(Right.ACT_ON_FLEET):
        return right_refusal(user, Right.ACT_ON_FLEET, right.words)
    act = f"{right.words} at {user.paths_outside(paths)[0]}" if paths else right.words
    return (
        f"the user {user} may not {act}: this user may act only at and below {', '.join(user.paths)} (and stop the"
        " fleet); ask an operator without this limit"
    )


def limit_problem(role: Role, paths: Sequence[str]) -> str | None:
    """Return why a new user of a role cannot be limited to paths of the tree; ``None`` if it can."""
    if paths and role is not Role.OPERATOR:
        return f"only operators can be limited to paths: expected the role operator, found {role.value}"
    return next(filter(None, map(_path_problem, paths)), None)


def _path_problem(path: str) -> str | None:
    if path == "/":
        return "'/' is the whole tree; leave the option out to add an operator without a limit"
    try:
        check_node_path(path)
    except ConfigurationError as error:
        return str(error)
    if path.endswith("/"):
        return f"expected a path of the tree such as /shop/web, without a slash at the end, found {path!a}"
    names = path.split("/")[1:]
    if names[0] in RESERVED:
        return f"expected the path of services, found {path!a}: /{names[0]} is reserved for zkdeployment"
    problem = next(filter(None, (name_problem(NameKind.NODE, name) for name in names)), None)
    return None if problem is None else f"expected a path of the tree, found {path!a}: {problem}"


#: The limits of tenants: names of fields of users, and of ``TenantLimits``.
LIMITS = ("node_quota", "session_lifetime", "session_lifetime_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """The limits of tenants without limits of their own; the lifetimes are in seconds."""

    node_quota: int = 10
    session_lifetime: float = 6 * 3600.0
    session_lifetime_max: float = 12 * 3600.0

    def of(self, user: User) -> TenantLimits:
        """Return the limits of a tenant: its own, and these for missing ones; no lifetime exceeds the maximum."""
        own = {name: limit for name in LIMITS if (limit := getattr(user, name)) is not None}
        found = replace(self, **own)
        return replace(found, session_lifetime=min(found.session_lifetime, found.session_lifetime_max))

    def describe_use(self, held: int) -> str:
        """Return a sentence for a tenant that has a number of nodes."""
        return (
            f"You have {held} of the {counted(self.node_quota, 'node', ',')} that you may lease at the same time."
        )


def limits_to_json(user: User, defaults: TenantLimits) -> dict[str, Value]:
    """Return a user's own limits, and those in force, whose names begin with ``effective_``."""
    limits = defaults.of(user)
    return {
        f"{prefix}{name}": getattr(values, name)
        for name in LIMITS
        for prefix, values in (("", user), ("effective_", limits))
    }


def user_to_json(user: User, defaults: TenantLimits) -> dict[str, Value]:
    """Return a user without secrets; times are in seconds since the epoch, lifetimes in seconds."""
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role.value,
        "is_admin": user.is_admin,
        "active": not user.is_retired,
        "created_at": user.created_at,
        "retired_at": user.retired_at,
        "key_expires_at": user.key_expires_at,
        "identity": user.identity,
        "paths": [*user.paths],
        "ssh_key": None if user.ssh_key is None else MASK,
        **limits_to_json(user, defaults),
    }
