"""Dataclasses whose methods are made cheaply: the standard library compiles six for each class."""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

# Half of the time of the imports of a small change went into compiling methods, most of which never ran.
if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass, with the behaviour of the standard library.

        The constructor is compiled when it is called first. All other methods are the same functions for
        each class.

        Args:
            cls: The class, of a decorator without arguments.
            options: ``frozen``, ``slots``, ``kw_only``, ``eq``, ``order``, ``repr``, as there.
        """
        if cls is not None:
            return _made(cls, **options)
        return lambda cls: _made(cls, **options)


class _Constructor:
    """Constructor of a class, which is compiled when it is needed."""

    def __init__(self, owner: type, frozen: bool) -> None:
        self._owner = owner
        self._frozen = frozen

    def __get__(self, instance: object, _: type | None = None) -> Callable[..., None]:
        constructor = _constructor(self._owner, self._frozen)
        self._owner.__init__ = constructor  # type: ignore[misc]
        bound: Callable[..., None] = constructor.__get__(instance, self._owner)
        return bound


def _constructor(owner: Any, frozen: bool) -> Any:
    values: dict[str, Any] = {"_absent_": dataclasses.MISSING, "_set_field_": object.__setattr__}
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}
    lines = []
    for field in dataclasses.fields(owner):
        name, default, made = field.name, f"_default_{field.name}_", f"_make_{field.name}_()"
        value, parameter = name, name
        if field.default is not dataclasses.MISSING:
            values[default] = field.default
            parameter, value = f"{name}={default}", name if field.init else default
        elif field.default_factory is not dataclasses.MISSING:
            values[made[:-2]] = field.default_factory
            parameter = f"{name}=_absent_"
            value = f"{made} if {name} is _absent_ else {name}" if field.init else made
        elif not field.init:
            continue
        if field.init:
            parameters[bool(field.kw_only)].append(parameter)
        lines.append(
            f"_set_field_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"
        )
    if hasattr(owner, "__post_init__"):
        lines.append("self.__post_init__()")
    names = parameters[False] + (["*", *parameters[True]] if parameters[True] else [])
    text = f"def __init__({', '.join(names)}):\n  " + "\n  ".join(lines or ["pass"])
    # The names of the fields are those of the class itself.
    exec(text, values)
    constructor = values["__init__"]
    constructor.__qualname__ = f"{owner.__qualname__}.__init__"
    constructor.__module__ = owner.__module__
    constructor.__annotations__ = {
        field.name: field.type for field in dataclasses.fields(owner) if field.init
    } | {"return": None}
    return constructor


def _made(
    cls: type,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    order: bool = False,
    repr: bool = True,
    kw_only: bool = False,
) -> type:
    written = set(vars(cls))
    # With a base, the standard library compares whether both are frozen.
    inherits = dataclasses.is_dataclass(cls)
    made: Any = dataclasses.dataclass(
        init=False,
        repr=False,
        eq=order,
        order=order,
        slots=slots,
        kw_only=kw_only,
        frozen=frozen and inherits,
    )(cls)
    made.__dataclass_params__.frozen = frozen
    methods: dict[str, Any] = {"__init__": _Constructor(made, frozen)}
    if repr:
        methods["__repr__"] = _text
    if eq:
        methods |= _comparison(made, frozen)
    if frozen:
        methods |= _protection(made)
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
    # A class with an own __eq__ has no __hash__, by the language.
    hidden = written - {"__hash__"} if vars(cls).get("__hash__") is None else written
    for name, method in methods.items():
        if name not in hidden:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _comparison(made: Any, frozen: bool) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(made) if field.compare]
    # A getter of one name returns no tuple.
    values = (
        attrgetter(*names) if len(names) > 1 else lambda item: [getattr(item, n) for n in names]
    )

    def equal(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: object) -> int:
        return hash(tuple(values(self)))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


def _protection(made: Any) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(made)}

    # A subclass that is no dataclass may have attributes of its own.
    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return {"__setattr__": set_attribute, "__delattr__": delete_attribute}


def _text(self: Any) -> str:
    shown = [
        f"{field.name}={getattr(self, field.name)!r}"
        for field in dataclasses.fields(self)
        if field.repr
    ]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
