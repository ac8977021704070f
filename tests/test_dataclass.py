"""Dataclasses of the project behave like those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest

from hiveacid.dataclass import dataclass

Decorator = Callable[..., Any]
both = pytest.mark.parametrize("make", [dataclasses.dataclass, dataclass], ids=["library", "own"])


@dataclass(frozen=True, slots=True)
class Stored:
    """Value that can be stored."""

    name: str
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Larger(Stored):
    """Value with one more field."""

    unit: str = "bytes"


def value_class(make: Decorator, **options: bool) -> Any:
    @make(**options)
    class Value:
        """Value with each kind of field."""

        LIMIT: ClassVar[int] = 3
        number: int
        text: str = "a"
        items: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False)
        derived: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "derived", self.number + self.LIMIT)

    return Value


@both
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("kw_only", [True, False])
def test_constructor_text_and_comparison(
    make: Decorator, frozen: bool, slots: bool, kw_only: bool
) -> None:
    value = value_class(make, frozen=frozen, slots=slots, kw_only=kw_only)
    one, same, other = value(number=1), value(number=1, items=[5]), value(number=2)
    assert one == same != other
    assert one != 1
    assert one.derived == 4
    assert one.items is not value(number=1).items
    assert repr(one).endswith("Value(number=1, text='a', items=[], derived=4)")
    assert hasattr(one, "__dict__") != slots
    assert [each.name for each in fields(one)] == ["number", "text", "items", "secret", "derived"]
    assert replace(one, text="b").text == "b"
    assert value.__match_args__ == (() if kw_only else ("number", "text", "items", "secret"))
    parameters = inspect.signature(value).parameters
    assert list(parameters) == ["number", "text", "items", "secret"]
    assert parameters["text"].default == "a"
    if kw_only:
        with pytest.raises(TypeError, match=r"Value\.__init__\(\) takes 1 positional argument"):
            value(1)
    else:
        assert value(1, "a") == one
    with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required .* 'number'"):
        value()


@both
def test_frozen_values_refuse_changes_and_can_be_keys(make: Decorator) -> None:
    value = value_class(make, frozen=True, slots=True)
    one = value(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'text'"):
        one.text = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'text'"):
        del one.text
    assert {one: "found"}[value(1)] == "found"


@both
def test_values_that_change_can_be_no_keys(make: Decorator) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(value_class(make)(1))
    same = value_class(make, eq=False)
    one, other = same(1), same(1)
    assert one != other
    assert len({one, other}) == 2


@both
def test_order(make: Decorator) -> None:
    value = value_class(make, frozen=True, order=True)
    assert sorted([value(2), value(1, "b"), value(1)]) == [value(1), value(1, "b"), value(2)]
    assert hash(value(1)) == hash(value(1))


@both
def test_methods_of_a_class_stay(make: Decorator) -> None:
    @make(frozen=True)
    class Value:  # noqa: PLW1641 - the decorator adds it.
        """Value with methods of its own."""

        number: int

        def __repr__(self) -> str:
            return f"<{self.number}>"

        def __eq__(self, other: object) -> bool:
            return True

        @cached_property
        def double(self) -> int:
            return self.number * 2

    value: Any = Value
    assert repr(value(1)) == "<1>"
    assert value(1) == value(2)
    assert hash(value(1)) == hash(value(1))
    assert value(2).double == 4


@both
def test_a_subclass_that_is_no_dataclass_has_attributes_of_its_own(make: Decorator) -> None:
    @make(frozen=True)
    class Value:
        """Value with a subclass."""

        number: int

    class Named(Value):
        def __init__(self, number: int) -> None:
            super().__init__(number)  # type: ignore[call-arg]
            self.name = str(number)

    assert Named(1).name == "1"
    with pytest.raises(dataclasses.FrozenInstanceError):
        Named(1).number = 2


@both
def test_no_fields_and_no_repr(make: Decorator) -> None:
    @make(frozen=True, slots=True, repr=False)
    class Nothing:
        """Value without fields."""

    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1
    assert " object at " in repr(Nothing())


@both
def test_defaults_are_checked(make: Decorator) -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @make
        class Value:
            """Value with a default that all share."""

            items: list[int] = []  # noqa: RUF012


@pytest.mark.parametrize("value", [Stored("a"), Larger("a", (1, 2), "rows")])
def test_values_are_copied_and_pickled(value: Stored) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == copy.deepcopy(value) == value
    assert dataclasses.asdict(value)["name"] == "a"
    assert dataclasses.is_dataclass(value)


def test_a_constructor_is_compiled_once() -> None:
    value = value_class(dataclass)
    value(1)
    constructor = vars(value)["__init__"]
    assert inspect.isfunction(constructor)
    value(2)
    assert vars(value)["__init__"] is constructor


@both
@pytest.mark.parametrize("make_base", [dataclasses.dataclass, dataclass], ids=["library", "own"])
@pytest.mark.parametrize("slots", [True, False])
def test_subclasses_are_frozen_like_their_base(
    make: Decorator, make_base: Decorator, slots: bool
) -> None:
    for frozen in (True, False):
        annotated = type("Base", (), {"__annotations__": {"number": int}})
        base = make_base(frozen=frozen, slots=slots)(annotated)

        def subclass(frozen: bool, base: type = base) -> Any:
            own = {"__annotations__": {"text": str}, "text": "a"}
            return make(frozen=frozen, slots=slots)(type("Sub", (base,), own))

        one = subclass(frozen)(1)
        assert (one, repr(one)) == (replace(one), "Sub(number=1, text='a')")
        if frozen:
            assert hash(one) == hash(replace(one))
            with pytest.raises(dataclasses.FrozenInstanceError):
                one.text = "b"
        else:
            one.text = "b"
        with pytest.raises(TypeError, match="cannot inherit"):
            subclass(not frozen)
