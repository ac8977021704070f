"""A proxy before a metastore that makes it answer like that of a vendor."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from thrift.Thrift import TApplicationException, TType

from hiveacid.jobs.options import AUTO_PROFILE, MetastoreOptions
from hiveacid.metastore.dev.embedded import free_port
from tests.proxy import Server
from tests.vendors.declarations import APACHE, CALLS, Declared, Struct, Type
from tests.vendors.profiles import Profile
from tests.vendors.wire import Field, Fields, Items, Message, Pairs, failure, read, written
from tests.versions import VENDOR

_NOTHING = Struct(())
_LONGS, _TIMES = 2, 8


class Refused(Exception):
    """The vendor's server does not execute a call.

    Attributes:
        type: The type of its TApplicationException.
    """

    def __init__(self, type_: int, text: str) -> None:
        super().__init__(text)
        self.type = type_


class Translation:
    """Translates between the messages of a vendor's metastore and those of Apache's."""

    def __init__(self, profile: Profile) -> None:
        self._unknown = profile.unknown
        self._answers = profile.answers
        self._enums = profile.enums
        self._ignored = {name.encode() for name in profile.ignored}
        self._structs = {**APACHE, **profile.structs}
        # The declarations are those of version 4.
        self._calls = CALLS if profile.apache.startswith("4") else {}

    def question(self, call: Message) -> Message:
        """Translate a call into one for Apache's metastore.

        Raises:
            Refused: The vendor's server would not execute it.
        """
        if call.name in self._unknown:
            text = f"Invalid method name: '{call.name}'"
            raise Refused(TApplicationException.UNKNOWN_METHOD, text)
        arguments, _ = self._calls.get(call.name, (_NOTHING, _NOTHING))
        return replace(call, fields=self._fields(call.fields, arguments, arguments, reads=True))

    def answer(self, answer: Message) -> Message:
        """Translate an answer of Apache's metastore."""
        if not answer.is_answer:
            return answer
        if text := self._answers.get(answer.name):
            return replace(answer, fields={0: Field(TType.STRING, text.encode())})
        _, result = self._calls.get(answer.name, (_NOTHING, _NOTHING))
        return replace(answer, fields=self._fields(answer.fields, result, result, reads=False))

    def _fields(self, fields: Fields, source: Struct, target: Struct, *, reads: bool) -> Fields:
        """Translate the fields of a struct.

        Args:
            fields: The fields.
            source: Their declaration.
            target: The declaration for the result. If it is the same, undeclared fields remain.
            reads: Whether the vendor's server reads them.
        """
        numbers = {field.name: field.number for field in target.fields}
        declared = {field.number: field for field in source.fields}
        found: Fields = {}
        for number, sent in fields.items():
            field = declared.get(number)
            if field is None:
                if source is target:
                    found[number] = sent
            elif field.name in numbers and not (reads and self._skips(field, sent)):
                value = self._value(sent.value, field.type, reads=reads)
                found[numbers[field.name]] = Field(sent.type, value)
        return found

    def _skips(self, field: Declared, sent: Field) -> bool:
        """Return whether the vendor's server leaves a field unset: it expects another type or value."""
        highest = self._enums.get(field.type.name)
        return sent.type != field.type.number or (highest is not None and sent.value > highest)

    def _value(self, value: Any, type_: Type, *, reads: bool) -> Any:
        match value:
            case Items():
                (element,) = type_.elements
                items = [self._value(each, element, reads=reads) for each in value.values]
                return Items(value.type, items)
            case Pairs():
                _, of_value = type_.elements
                entries = [
                    (key, self._value(each, of_value, reads=reads)) for key, each in value.entries
                ]
                return Pairs(value.key, value.value, entries)
            case dict() if type_.name in self._structs:
                return self._struct(value, type_.name, reads=reads)
        return value

    def _struct(self, fields: Fields, name: str, *, reads: bool) -> Fields:
        theirs, apaches = self._structs[name], APACHE[name]
        if not reads:
            if name == "ColumnStatisticsData":
                fields = _with_longs(fields, theirs)
            return self._fields(fields, apaches, theirs, reads=False)
        found = self._fields(fields, theirs, apaches, reads=True)
        numbers = {field.name: field.number for field in apaches.fields}
        for field in theirs.fields:
            if field.is_required and numbers[field.name] not in found:
                text = f"Required field '{field.name}' is unset! Struct:{name}"
                raise Refused(TApplicationException.PROTOCOL_ERROR, text)
        if name == "ColumnStatisticsData" and not found:
            raise Refused(TApplicationException.INTERNAL_ERROR, "Internal error: no statistics")
        if name == "EnvironmentContext" and 1 in found:
            settings = found[1].value
            kept = [each for each in settings.entries if each[0] not in self._ignored]
            found[1] = Field(TType.MAP, settings._replace(entries=kept))
        return found


def _with_longs(data: Fields, theirs: Struct) -> Fields:
    """Return the statistics of timestamps as longs if the vendor has no others."""
    if _TIMES not in data or any(field.number == _TIMES for field in theirs.fields):
        return data
    found = dict(data[_TIMES].value)
    for bound in (1, 2):
        if bound in found:
            found[bound] = found[bound].value[1]
    return {_LONGS: Field(TType.STRUCT, found)}


class VendorMetastore:
    """A metastore that answers like a vendor's, and otherwise is the one behind it.

    Attributes:
        profile: The vendor.
        behind: The metastore behind the proxy.
        asked: All calls as clients have sent them, in their order.
    """

    def __init__(self, profile: Profile, metastore: Server, *, is_stated: bool = False) -> None:
        """Describe it; it listens from the moment it is entered.

        Args:
            profile: The vendor.
            metastore: The metastore behind the proxy.
            is_stated: Whether the options of clients state the profile.
        """
        self.profile = profile
        self._stated = profile.name if is_stated else AUTO_PROFILE
        self.asked: list[Message] = []
        self.behind = metastore
        self._translation = Translation(profile)
        self._server = _Listener(("127.0.0.1", free_port()), self._serve)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    @property
    def uri(self) -> str:
        """The address of the proxy."""
        return f"thrift://127.0.0.1:{self._server.server_address[1]}"

    @property
    def options(self) -> MetastoreOptions:
        """The options of a client."""
        return self.stated(self._stated)

    def stated(self, profile: str) -> MetastoreOptions:
        """The options of a client to which the user states a profile."""
        return MetastoreOptions(uris=self.uri, metastore_profile=profile)

    def _serve(self, client: socket.socket, *_: object) -> None:
        """Answer the calls of a connection in turn, until the client or the metastore ends it."""
        address = ("127.0.0.1", int(self.behind.uri.rpartition(":")[2]))
        try:
            with (
                socket.create_connection(address) as server,
                client.makefile("rb") as questions,
                server.makefile("rb") as answers,
            ):
                while call := read(questions.read):
                    self.asked.append(call)
                    try:
                        server.sendall(written(self._translation.question(call)))
                    except Refused as refused:
                        client.sendall(written(failure(call, refused.type, str(refused))))
                        if refused.type == TApplicationException.PROTOCOL_ERROR:
                            return
                        continue
                    answer = read(answers.read)
                    if answer is None:
                        return
                    client.sendall(written(self._translation.answer(answer)))
        except (OSError, ValueError):
            return  # One of both was killed, or speaks something else.


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def of_vendor(metastore: Any) -> Iterator[Any]:
    """Return a metastore, with the profile of `make vendors` if it runs."""
    if VENDOR is None or metastore.version != VENDOR.apache:
        yield metastore
        return
    with VendorMetastore(VENDOR, metastore, is_stated=VENDOR.is_stated) as vendor:
        yield vendor
