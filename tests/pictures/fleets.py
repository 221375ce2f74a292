"""Several fleets under one promoter: git is the only connection between them."""

from pictures.drawing import Picture

#: The fleets: the left edge, the name, and the groups' order.
_FLEETS = ((4, "eu-1", "canary"), (256, "eu-2", "europe"), (508, "us-1", "america"))


def fleets() -> Picture:
    """Draw three fleets, their branches, and the promoter."""
    picture = Picture(
        "fleets",
        "Three fleets under promotion",
        "People push commits to the main branch of one repository. The promoter reads the main branch and the"
        " state that the service of each fleet reports, and moves the branches of the fleets forward to commits of"
        " the main branch, group by group. The syncer of each fleet follows its own branch and publishes into its"
        " own ZooKeeper. No fleet has access to another one.",
    )
    picture.labelled(4, 12, 112, ["people", "git push"])
    picture.box(180, 4, 536, 74, kind="good")
    picture.text(192, 22, "git server", "small soft")
    picture.labelled(192, 30, 112, ["main"], kind="accent")
    picture.arrow("M116 46H190")
    for x, name, _ in _FLEETS:
        picture.labelled(330 + x // 2, 30, 112, [f"fleets/{name}"], kind="accent")
    picture.labelled(256, 128, 208, ["promoter", "groups, bake times, metrics"], kind="accent")
    picture.arrow("M248 62V106Q248 146 254 146")
    picture.text(240, 104, "reads main", "small soft end")
    picture.arrow("M464 146H560V80")
    picture.text(568, 104, "moves branches forward,", "small soft")
    picture.text(568, 120, "to commits of main", "small soft")
    for x, name, group in _FLEETS:
        picture.box(x, 236, 208, 132, kind="box")
        picture.text(x + 12, 254, f"fleet {name}: group {group}", "small soft")
        picture.labelled(x + 12, 264, 88, ["syncer"], kind="accent")
        picture.labelled(x + 108, 264, 88, ["service"], kind="accent")
        picture.labelled(x + 12, 318, 184, ["ZooKeeper, agents"], kind="good")
        picture.arrow(f"M{x + 56} 294V316")
        picture.arrow(f"M{x + 152} 316V294")
        picture.arrow(f"M{x + 152} 262Q{x + 152} 212 360 176")
    picture.text(4, 192, "reports and dry runs of services", "small soft")
    picture.text(360, 388, "Each syncer fetches its own branch from the git server.", "small soft mid")
    return picture
