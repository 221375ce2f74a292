"""Forms, bodies and records follow from the class of an act."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import field, replace

import pytest
from pydantic import ValidationError

from zkdeployment.base.act import ActRight
from zkdeployment.base.errors import ForbiddenError
from zkdeployment.base.values import dataclass
from zkdeployment.checks.user_acts import AbandonSystem, AllowRemoval, RetryInstance
from zkdeployment.intents.user_acts import ResumeGroup
from zkdeployment.pools.user_acts import ACTS as POOL_ACTS
from zkdeployment.service.act import ActOption, Actor, FormAct, given
from zkdeployment.service.act_routes import request_body
from zkdeployment.service.acts import all_acts
from zkdeployment.service.users.user import Right, Role, User

PAINT = ActRight("paint the fleet")
ANN = User(id=1, name="ann", role=Role.OPERATOR, created_at=0.0)
ALL = (*all_acts(), *POOL_ACTS, RetryInstance, AbandonSystem, AllowRemoval, ResumeGroup)


@dataclass(frozen=True, kw_only=True)
class Paint(FormAct[str, list[str]]):
    """Paint hosts."""

    NAME = "paint"
    RIGHT = PAINT
    BUTTON = "Paint"
    OPERATION = "paint"

    colour: str = given(least=1, most=5, hidden=True)
    coats: int = given(1, least=1, most=3)
    glossy: bool = given(default=False, label="Glossy", explanation="It shines.")
    pot: list[str] = field(default_factory=list)

    def read(self, visit):
        raise NotImplementedError

    def concerned(self, found):
        return (found,)

    def objection(self, found):
        return "" if found == "/shop" else "Only the shop is painted."

    def consequences(self, found):
        return (f"{found} becomes {self.colour}.",)

    def perform(self, adapters, actor):
        adapters.append(self.colour)
        return actor.record(self, f"paint {self.colour}", "/shop")


def test_a_form_has_the_subject_the_options_and_the_objection_of_its_act():
    form = Paint(colour="red").form("/shop")

    assert (form.title, form.button, form.fields) == ("Paint", "Paint", (("colour", "red"),))
    assert form.options == (ActOption("glossy", "Glossy", "It shines."),)
    assert (form.consequences, form.objection) == (("/shop becomes red.",), "")
    assert Paint(colour="red").form("/db").objection == "Only the shop is painted."


def test_the_fields_of_a_form_are_those_that_it_shows():
    act = Paint.of_form({"colour": "red", "glossy": "yes", "coats": "9", "reason": " so\tit is "}, None)

    assert act == Paint(colour="red", glossy=True, reason="so it is")


def test_a_body_has_the_fields_with_their_bounds():
    body = request_body(Paint)

    assert dict(body(reason="r", colour="red")) == {"reason": "r", "colour": "red", "coats": 1, "glossy": False}
    for wrong in ({"colour": "crimson"}, {"colour": "red", "coats": 4}, {"colour": "red", "pot": []}, {}):
        with pytest.raises(ValidationError):
            body(reason="r", **wrong)
    with pytest.raises(ValidationError, match="the reason is empty"):
        body(reason=" ", colour="red")


def test_an_act_is_recorded_only_if_the_actor_may_perform_it():
    pot: list[str] = []
    act = Paint(colour="red", reason="spring")
    ann, terminal = Actor("ann", lambda: 5.0, ANN), Actor("bob@h1", lambda: 6.0)

    assert str(act.perform(pot, ann)) == "paint red by ann: spring"
    assert act.perform(pot, terminal).by == "bob@h1"
    limited = replace(ann, user=replace(ANN, paths=("/db",)))
    with pytest.raises(ForbiddenError, match="ann may not paint the fleet at /shop: this user may act only"):
        act.perform(pot, limited)
    with pytest.raises(ForbiddenError, match=r"may not change nodes .*: its role is operator; expected admin"):
        ann.require(Right.MANAGE_POOLS)


@pytest.mark.parametrize("act", ALL, ids=lambda act: act.__name__)
def test_each_act_is_described_and_its_fields_are_fields(act):
    assert inspect.getdoc(act)
    assert act.__doc__ != FormAct.__doc__
    assert act.RIGHT
    undecorated = [name for name, value in vars(act).items() if isinstance(value, dataclasses.Field)]
    assert undecorated == []
    declared = {name for name, kind in inspect.get_annotations(act).items() if "ClassVar" not in kind}
    assert declared <= {each.name for each in dataclasses.fields(act)}


def test_names_of_forms_and_paths_of_operations_are_unique():
    for attribute in ("NAME", "PATH"):
        found = [value for act in all_acts() if (value := getattr(act, attribute, ""))]
        assert len(found) == len({*found}), attribute
