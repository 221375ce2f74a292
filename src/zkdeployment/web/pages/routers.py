"""The routers of all pages.

The pages of a further system (checks, pools) are a module here, a view in ``web/views``, templates, an
entry in this tuple and a tab in ``web/views/frame.py``.
"""

from zkdeployment.web.pages import (
    acts,
    api_docs,
    audit,
    external_logins,
    fleet,
    history,
    hosts,
    intents,
    locks,
    login,
    plan,
    rollout,
    services,
    static_files,
)

PAGE_ROUTERS = (
    login.router,
    external_logins.router,
    fleet.router,
    hosts.router,
    services.router,
    intents.router,
    rollout.router,
    history.router,
    locks.router,
    plan.router,
    acts.router,
    audit.router,
    static_files.router,
    api_docs.router,
)
