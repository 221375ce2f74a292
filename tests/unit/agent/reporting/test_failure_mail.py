from zkdeployment.agent.reporting.failures import failure_mail
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.stop import Stop
from zkdeployment.strategies.permission import Failure, Phase, RolloutPart

STOP = Stop("h1", "app1.example.com", "r1", "deploy /a 0", "boom", 17.5)
FAILED = DeploymentFailure(8, "deploy /a 0", "/a", 0)


def test_the_mail_names_the_failed_step_the_host_and_the_stop_of_the_fleet():
    subject, text = failure_mail(Failure(STOP, FAILED), "the end\npassword=hunter2", reported=True)
    assert subject == "zkdeployment: app1.example.com (h1) failed at r1"
    facts = "Host:     app1.example.com (h1)\nRevision: r1\nStep:     deploy /a 0\nError:    boom\n\n"
    assert text.startswith(f"{facts}The fleet is stopped:")
    assert text.endswith("The end of the output:\n\nthe end\npassword=***\n")


def test_the_mail_of_a_host_in_a_rollout_reports_that_the_fleet_continues():
    _, text = failure_mail(Failure(STOP, FAILED, RolloutPart("3-1", Phase.DEPLOY)), "", reported=True)
    assert "The fleet continues: rollout 3-1 judges" in text
    assert "output" not in text


def test_the_mail_of_a_failure_that_is_not_recorded_in_zookeeper_reports_no_stop():
    _, text = failure_mail(Failure(STOP, FAILED), "", reported=False)
    assert "ZooKeeper does not answer." in text
    assert "is stopped" not in text


def test_the_mail_of_an_obsolete_failure_reports_that_the_fleet_continues_with_another_publication():
    _, text = failure_mail(Failure(STOP, FAILED), "", reported=True, obsolete=True)
    assert "The fleet continues: it does not deploy that publication any more." in text
    assert "is stopped" not in text
