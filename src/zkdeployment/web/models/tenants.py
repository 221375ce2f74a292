"""Tenants, as requests and responses: the users with the role of a tenant or of an admin."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr, model_validator

from zkdeployment.model.names import NameKind, name_problem
from zkdeployment.model.user import IssuedKey, TenantLimits, User
from zkdeployment.pools.public_keys import ssh_keys_problem
from zkdeployment.pools.tenant_session import effective_limits
from zkdeployment.web.models.leasing import (
    GetResult,
    LeasingBody,
    Lifetime,
    PostResult,
    PutResult,
    optional_time,
    time_of,
)

#: What is shown instead of keys, as in Duffy.
_HIDDEN = "**********"

_ABOUT_KEYS = "The public keys with which the tenant logs in to nodes: at most 10, one in each line."


def _ssh_keys(given: SecretStr) -> SecretStr:
    problem = ssh_keys_problem(given.get_secret_value())
    if problem is not None:
        raise ValueError(problem)
    return given


def _user_name(given: str) -> str:
    problem = name_problem(NameKind.USER, given)
    if problem is not None:
        raise ValueError(problem)
    return given


PublicKeys = Annotated[SecretStr, AfterValidator(_ssh_keys)]
Quota = Annotated[int, Field(gt=0, le=1_000_000)]


class _TenantValues(LeasingBody):
    """The part of a tenant that all answers show."""

    id: int
    name: str
    is_admin: bool
    node_quota: int | None
    session_lifetime: int | float | None
    session_lifetime_max: int | float | None
    created_at: datetime
    retired_at: datetime | None
    active: bool
    effective_node_quota: int
    effective_session_lifetime: float
    effective_session_lifetime_max: float


class TenantBody(_TenantValues):
    """A tenant; `effective_*` are its own limits, or those of the pools; lifetimes are in seconds."""

    ssh_key: str | None = Field(description="Asterisks, if the tenant has a key.")

    @classmethod
    def of(cls, user: User, defaults: TenantLimits) -> "TenantBody":
        """Return a tenant."""
        return cls(**_values(user, defaults))


class NewTenantBody(_TenantValues):
    """A new tenant with its API key, which is shown only once."""

    ssh_key: str
    api_key: str

    @classmethod
    def created(cls, issued: IssuedKey, defaults: TenantLimits) -> "NewTenantBody":
        """Return a new tenant with its key."""
        values = _values(issued.user, defaults) | {"ssh_key": issued.user.ssh_key}
        return cls(**values, api_key=issued.key)


class ChangedTenantBody(TenantBody):
    """A tenant after a change; a new API key is shown only if the service made it."""

    api_key: str | None = Field(description="The key that the service made, or asterisks.")

    @classmethod
    def changed(cls, user: User, defaults: TenantLimits, key: str | None) -> "ChangedTenantBody":
        """Return a tenant after a change, with its new key if there is one."""
        return cls(**_values(user, defaults), api_key=key or _HIDDEN)

    @classmethod
    def retired(cls, user: User, defaults: TenantLimits) -> "ChangedTenantBody":
        """Return a tenant that was retired, or not retired."""
        return cls(**_values(user, defaults), api_key=None)


def _values(user: User, defaults: TenantLimits) -> dict[str, Any]:
    limits = effective_limits(user, defaults)
    return {
        "id": user.id,
        "name": user.name,
        "is_admin": user.is_admin,
        "ssh_key": None if user.ssh_key is None else _HIDDEN,
        "node_quota": user.node_quota,
        "session_lifetime": _seconds(user.session_lifetime),
        "session_lifetime_max": _seconds(user.session_lifetime_max),
        "created_at": time_of(user.created_at),
        "retired_at": optional_time(user.retired_at),
        "active": not user.is_retired,
        "effective_node_quota": limits.node_quota,
        "effective_session_lifetime": limits.session_lifetime,
        "effective_session_lifetime_max": limits.session_lifetime_max,
    }


def _seconds(seconds: float | None) -> int | float | None:
    """Return whole seconds without a fraction, as Duffy shows them."""
    return int(seconds) if seconds is not None and seconds == int(seconds) else seconds


class TenantOrder(LeasingBody):
    """A tenant that is to be added."""

    name: Annotated[str, AfterValidator(_user_name)]
    is_admin: bool | None = None
    ssh_key: PublicKeys = Field(description=_ABOUT_KEYS)
    node_quota: Quota | None = None
    session_lifetime: Lifetime | None = None
    session_lifetime_max: Lifetime | None = None


class TenantChange(LeasingBody):
    """Other values of a tenant, or its retirement (`active: false`); a limit of null is the pools' limit again."""

    active: bool | None = None
    ssh_key: PublicKeys | None = Field(None, description=_ABOUT_KEYS)
    api_key: UUID | Literal["reset"] | None = None
    node_quota: Quota | None = None
    session_lifetime: Lifetime | None = None
    session_lifetime_max: Lifetime | None = None

    @model_validator(mode="after")
    def _has_one_purpose(self) -> "TenantChange":
        """Refuse a change without any key, and one that retires the tenant and changes it, too."""
        values = self.model_fields_set - {"active"}
        if not values and self.active is None:
            known = ", ".join(sorted(set(TenantChange.model_fields)))
            raise ValueError(f"expected at least one of {known}")
        if values and self.active is not None:
            raise ValueError("expected either active or other values, found both")
        return self

    def limits(self) -> dict[str, Any]:
        """Return the limits in the request, which may be null."""
        names = {"node_quota", "session_lifetime", "session_lifetime_max"} & self.model_fields_set
        return {name: getattr(self, name) for name in names}


class TenantsResult(GetResult):
    """Tenants by id, retired ones included."""

    tenants: list[TenantBody]


class TenantResult(GetResult):
    """A tenant."""

    tenant: TenantBody


class NewTenantResult(PostResult):
    """The new tenant."""

    tenant: NewTenantBody


class ChangedTenantResult(PutResult):
    """The changed tenant."""

    tenant: ChangedTenantBody
