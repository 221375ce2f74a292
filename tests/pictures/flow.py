"""The flow of data, from a commit to the state of the fleet."""

from pictures.drawing import Picture


def flow() -> Picture:
    """Draw the flow."""
    picture = Picture(
        "flow",
        "The flow of data, from a commit to the state of the fleet",
        "The syncer fetches a commit, reviews its files, builds a publication and writes it into ZooKeeper in one"
        " transaction. A watch wakes the agents. An agent makes a plan from its host's targets and inventory. With"
        " a strategy the coordinator grants each host its turn. The executor takes the steps under locks and"
        " reports the version or the error, which operators, Nagios and Prometheus read.",
    )
    picture.labelled(4, 30, 112, ["git", "tree files,", "strategy"])
    picture.box(180, 4, 412, 96, kind="box")
    picture.text(192, 22, "syncer", "small soft")
    picture.labelled(192, 30, 112, ["builder", "text, live tree,", "difference"], kind="accent")
    picture.labelled(330, 30, 112, ["review", "parse, lint,", "compile targets"], kind="accent")
    picture.labelled(468, 30, 112, ["publication", "tree, targets,", "version: as one"], kind="accent")
    picture.arrow("M116 60H190")
    picture.text(148, 52, "fetch", "small soft mid")
    picture.arrow("M306 60H328", both=True)
    picture.arrow("M442 60H466")
    picture.arrow("M524 90V144")
    picture.text(532, 126, "one transaction", "small soft")

    picture.box(4, 146, 712, 62, kind="good")
    picture.text(16, 166, "ZooKeeper", "strong")
    picture.text(16, 184, "tree, targets by host and role, cluster version, strategy, history", "small soft")
    picture.text(
        16, 201, "locks, grants and reports, and for each host: version, step, error, inventory", "small soft"
    )

    picture.box(4, 266, 484, 112, kind="box")
    picture.text(16, 370, "agent, on every host", "small soft")
    picture.labelled(16, 280, 132, ["plan", "from the targets", "and the inventory"], kind="accent")
    picture.labelled(180, 280, 132, ["gate", "with a strategy:", "wait for the grant"], kind="accent")
    picture.labelled(344, 280, 132, ["executor", "packages, scripts,", "step by step"], kind="accent")
    picture.arrow("M148 310H178")
    picture.arrow("M312 310H342")
    picture.arrow("M82 208V278")
    picture.text(90, 242, "watch, read", "small soft")
    picture.arrow("M246 210V278", both=True)
    picture.text(254, 242, "ask, report", "small soft")
    picture.arrow("M410 278V210")
    picture.text(418, 234, "lock, report", "small soft")
    picture.text(418, 250, "version or error", "small soft")

    picture.labelled(576, 280, 140, ["coordinator", "groups in the", "strategy's order"], kind="accent")
    picture.arrow("M646 210V278", both=True)
    picture.text(638, 242, "grants, reports", "small soft end")

    picture.arrow("M410 340V406")
    picture.labelled(324, 408, 172, ["the host", "/opt, /etc, services"])
    picture.arrow("M532 208V406")
    picture.labelled(508, 408, 208, ["operators", "status, why, Nagios, metrics"])
    return picture
