"""The routers of all pages.

The pages of a further system are a module here, a view in ``web/views``, templates, an entry in this tuple and a
tab in ``web/views/frame.py``.
"""

from zkdeployment.checks import pages
from zkdeployment.intents import pages as intents
from zkdeployment.pools import pages as pool_acts
from zkdeployment.pools import pages as pool_usage
from zkdeployment.pools import pages as pools
from zkdeployment.rollouts import pages as rollout
from zkdeployment.service.pages import acts as fleet_acts
from zkdeployment.service.pages import fleet, login, static_files
from zkdeployment.service.pages import fleet as audit
from zkdeployment.service.pages import login as external_logins
from zkdeployment.service.pages import static_files as api_docs

PAGE_ROUTERS = (
    external_logins.router,
    login.external_router,
    audit.router,
    fleet.hosts_router,
    fleet.services_router,
    intents.router,
    pages.router,
    pool_usage.router,
    pools.usage_router,
    pool_acts.acts_router,
    rollout.router,
    fleet.history_router,
    fleet.locks_router,
    fleet.plan_router,
    fleet_acts.router,
    fleet.audit_router,
    api_docs.router,
    static_files.docs_router,
)
