"""The API's messages, made from the descriptors in control.binpb, and their way to and from dataclasses.

In a pool of their own, so that nobody else's generated code for the same API is in the way.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import operator
import pathlib
from typing import Any, Callable, Mapping, TypeVar

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from . import types

T = TypeVar("T")

PACKAGE = "parkade.v1"


def _load() -> descriptor_pool.DescriptorPool:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(pathlib.Path(__file__).with_name("control.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_pool = _load()
_service = _pool.FindServiceByName(f"{PACKAGE}.Control")


def _class_of(descriptor: Any) -> Callable[..., Message]:
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool).GetPrototype(descriptor)  # protobuf before 4.22


def new(name: str, values: Mapping[str, Any] | None = None) -> Message:
    """A message of the API, with the fields that `values` gives; None leaves a field alone."""
    message = _class_of(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))()
    _fill(message, values or {})
    return message


def method(name: str) -> tuple[str, Callable[..., Message], Callable[[bytes], Message]]:
    """A call of the service: its path, the class of its request, and how its answers are parsed."""
    found = _service.methods_by_name[name]
    answer = _class_of(found.output_type)
    return f"/{PACKAGE}.Control/{name}", _class_of(found.input_type), answer.FromString  # type: ignore[attr-defined]


def _is_repeated(field: Any) -> bool:
    try:
        return bool(field.is_repeated)
    except AttributeError:  # protobuf before 6.30
        return bool(field.label == field.LABEL_REPEATED)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _enum_class(descriptor: Any) -> type[enum.Enum]:
    """`parkade.v1.Event.Kind` is types.EventKind."""
    name = descriptor.full_name[len(PACKAGE) + 1 :].replace(".", "")
    return getattr(types, name)


def _prefix(descriptor: Any) -> str:
    zero = descriptor.values_by_number[0].name
    return zero[: -len("UNSPECIFIED")]


def _number(descriptor: Any, value: Any) -> int:
    name = value.value if isinstance(value, enum.Enum) else value
    found = isinstance(name, str) and descriptor.values_by_name.get(_prefix(descriptor) + name.upper())
    if not found:
        names = [each.name[len(_prefix(descriptor)) :].lower() for each in descriptor.values[1:]]
        raise ValueError(f"{value!r} is none of {', '.join(names)}")
    return found.number


def _fill(message: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, enum.Enum) and value.value == "unspecified":
            continue
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise TypeError(f"{message.DESCRIPTOR.name} has no {name!r}")
        place = getattr(message, name)
        if _is_map(field):
            entry = field.message_type.fields_by_name["value"]
            for key, item in value.items():
                place[key] = _number(entry.enum_type, item) if entry.enum_type else item
        elif _is_repeated(field):
            place.extend([value] if isinstance(value, str) else value)
        elif field.message_type is None:
            setattr(message, name, _number(field.enum_type, value) if field.enum_type else value)
        elif field.message_type.full_name == "google.protobuf.Duration":
            place.seconds, place.nanos = divmod(round(value * 1e9), 1_000_000_000)
            place.SetInParent()
        else:
            given = value if isinstance(value, Mapping) else {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            _fill(place, given)
            place.SetInParent()


def read(message: Message, kind: type[T]) -> T:
    """The dataclass `kind` with the message's values."""
    return kind(*[get(message) for get in _getters(message.DESCRIPTOR.full_name, kind)])


@functools.cache
def _getters(message: str, kind: type[Any]) -> list[Callable[[Any], Any]]:
    """For each field of the dataclass what gets its value from such a message. Found once: a process has thousands of
    allocations."""
    fields = _pool.FindMessageTypeByName(message).fields_by_name
    return [_getter(fields[each.name]) for each in dataclasses.fields(kind)]


def _getter(field: Any) -> Callable[[Any], Any]:
    get: Callable[[Any], Any] = operator.attrgetter(field.name)
    if _is_map(field):
        one = _reader(field.message_type.fields_by_name["value"])
        return lambda message: {key: one(item) for key, item in get(message).items()}
    one = _reader(field)
    if _is_repeated(field):
        return lambda message: tuple([one(item) for item in get(message)])
    if field.message_type is not None or field.containing_oneof is not None:
        return lambda message: one(get(message)) if message.HasField(field.name) else None
    if field.enum_type is None:
        return get
    return lambda message: one(get(message))


def _reader(field: Any) -> Callable[[Any], Any]:
    """What makes a Python value of one value of the field."""
    if field.enum_type is not None:
        kind, prefix, values = _enum_class(field.enum_type), len(_prefix(field.enum_type)), field.enum_type.values_by_number
        return lambda value: kind(values.get(value, values[0]).name[prefix:].lower())
    if field.message_type is None:
        return lambda value: value
    name = field.message_type.full_name
    if name == "google.protobuf.Duration":
        return lambda value: value.seconds + value.nanos / 1e9
    if name == "google.protobuf.Timestamp":
        return _time
    found = getattr(types, field.message_type.name)
    return lambda value: read(value, found)


def _time(value: Any) -> datetime.datetime:
    at = datetime.datetime.fromtimestamp(value.seconds, datetime.timezone.utc)
    return at + datetime.timedelta(microseconds=value.nanos // 1000)
