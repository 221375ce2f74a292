"""The routers of all pages.

The pages of a further system are a module here, a view in ``web/views``, templates, an entry in this tuple and a
tab in ``web/views/frame.py``.
"""

from zkdeployment.web.pages import (
    api_docs,
    audit,
    checks,
    external_logins,
    fleet,
    history,
    hosts,
    intents,
    locks,
    login,
    plan,
    pool_usage,
    pools,
    rollout,
    services,
    static_files,
)
from zkdeployment.web.pages.acts import fleet as fleet_acts
from zkdeployment.web.pages.acts import pools as pool_acts

PAGE_ROUTERS = (
    login.router,
    external_logins.router,
    fleet.router,
    hosts.router,
    services.router,
    intents.router,
    checks.router,
    pools.router,
    pool_usage.router,
    pool_acts.router,
    rollout.router,
    history.router,
    locks.router,
    plan.router,
    fleet_acts.router,
    audit.router,
    static_files.router,
    api_docs.router,
)
