"""A login at an OpenID provider of another site, in a real browser with its rules for cookies."""

import pytest

from support.service import running_service
from support.web.openid import CLIENT_ID, SECRET, OpenIdServer
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.external_logins import RoleRule
from zkdeployment.service.users.user import Role


@pytest.mark.nightly
def test_a_person_logs_in_at_another_site_and_arrives_at_the_page(zookeeper, browser, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with OpenIdServer(host="localhost") as provider:
        settings = ServerSettings(
            openid_issuer=provider.url,
            openid_client_id=CLIENT_ID,
            openid_client_secret=secret,
            openid_roles=(RoleRule(Role.OPERATOR, "", "*"),),
        )
        with running_service(zookeeper, settings=settings) as service:
            page = browser.new_page()
            problems = []
            page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
            page.goto(f"{service.url}/audit?who=ann")
            page.get_by_text("Log in with single sign-on").click()
            page.wait_for_url("**/audit?who=ann")
            assert page.get_by_text("No act is recorded for ann.").is_visible()
            assert page.locator("header").get_by_text("ann").is_visible()
            assert "/token" in provider.requests
            cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
            assert cookies["session"]["sameSite"] == "Strict"
            assert "openid" not in cookies
            page.get_by_role("button", name="Log out").click()
            page.wait_for_url("**/login")
            assert problems == []
            page.close()
