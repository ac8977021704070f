"""Texts without their secrets: the one rule for errors, reports, logs, and shown jobs.

A secret is recognized by the name before it, by its place in an address, by its form, or because the
caller knows it. When in doubt, too much is hidden.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"
# Names whose values are secret even if they look like words.
_CERTAIN = (
    r"secret|passw(?:or)?d|pwd|passphrase|jaas|connection[._-]?string|authorization"
    r"|(?:access|private|keystore|account|api)[._-]?key|shared[._-]?access[._-]?signature"
)
_NAME = rf"(?:{_CERTAIN}|token|credential|(?<![a-z])(?:sas|sig|signature)(?![a-z]))"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
# The end of a quoted value: its quote, after as many backslashes as before the first one.
_CLOSED = r"(?<!\\)(?P=escape)(?P=quote)"
# A name with its value: quoted, or up to a space or the next parameter of an address.
_PAIR = re.compile(
    rf"(?P<name>{_NAME}[\w.-]{{0,80}})(?P<sign>\\*[\"']?\s{{0,3}}(?P<mark>=>?|:)\s{{0,3}})"
    r"(?P<value>(?P<escape>\\*)(?P<quote>[\"'])"
    rf"(?:(?P=quote)(?P=quote)|(?!{_CLOSED})[\s\S])*(?:{_CLOSED}|$)"
    r"|(?:(?:bearer|basic)\s+)?[^\s&]+)",
    re.IGNORECASE,
)
_SURE = re.compile(_CERTAIN, re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{1,15}[.,;:!]?")
_ADDRESS = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,15})://(?P<rest>(?:(?![a-z][a-z0-9+.-]{0,15}://)\S)*)",
    re.IGNORECASE,
)
_WITH_KEYS = ("s3", "s3a", "s3n", "http", "https")
# Their addresses have no passwords: a colon precedes a port.
_WITHOUT_PASSWORDS = ("hdfs", "webhdfs", "swebhdfs", "viewfs", "thrift", "spark", "file")
_PORT = re.compile(r"[^:]*:[0-9]{1,5}")
# A header with credentials, a JSON web token, and the id of a key of Amazon's.
_FORMS = re.compile(
    r"(?P<before>\b(?:bearer|basic)\s+)(?=\S{16}|\S*\d)[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    re.IGNORECASE,
)
# A shorter text is in many words.
_SHORTEST = 4
_Value = TypeVar("_Value")


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """Return a text without its secrets.

    Args:
        text: Any text.
        known: Secrets that the text may quote in any place, also encoded for addresses or JSON.
    """
    for secret in sorted(set(known), key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            for form in dict.fromkeys(_encoded(secret)):
                text = text.replace(form, HIDDEN)
    text = _PAIR.sub(_without_value, address_without_secrets(text))
    return _FORMS.sub(lambda found: f"{found['before'] or ''}{HIDDEN}", text)


def address_without_secrets(text: str) -> str:
    """Return a text with addresses without passwords and keys."""
    return _ADDRESS.sub(_without_login, text)


def options_without_secrets(options: _Value) -> _Value | dict[str, object]:
    """Return options without secrets, for display.

    Args:
        options: Names to values; a value other than a mapping is returned unchanged.
    """
    if not isinstance(options, Mapping):
        return options
    return {name: _shown(str(name), value) for name, value in options.items()}


def secrets_of(options: Mapping[str, object]) -> Iterator[str]:
    """Yield the secrets in options: the values of secret names, and passwords in addresses."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from secrets_of(value)
            continue
        text = str(value)
        if _SECRET_NAME.search(name):
            yield text
            # An id and its secret, as the catalogs of Iceberg have them.
            if (secret := text.partition(":")[2].strip()) and "://" not in text:
                yield secret
            continue
        for address in _ADDRESS.finditer(text):
            _, login, _ = _login(address)
            if secret := login.partition(":")[2]:
                yield secret
                yield unquote(secret)


def _shown(name: str, value: object) -> object:
    if _SECRET_NAME.search(name):
        return HIDDEN
    return without_secrets(value) if isinstance(value, str) else value


def _encoded(secret: str) -> Iterator[str]:
    yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret))
    yield from (json.dumps(secret)[1:-1], repr(secret)[1:-1])


def _login(address: re.Match[str]) -> tuple[str, str, str]:
    """Split an address into its scheme, the user with the password or "", and the rest.

    A password may contain slashes: the user and the password end at the last "@".
    """
    scheme, rest = address["scheme"].lower(), address["rest"]
    login, at, place = rest.rpartition("@")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not at or ("@" not in host and ":" not in host):
        return scheme, "", rest
    if "@" not in host and scheme in _WITHOUT_PASSWORDS and _PORT.fullmatch(host):
        return scheme, "", rest
    return scheme, login, place


def _without_login(address: re.Match[str]) -> str:
    scheme, login, rest = _login(address)
    user, colon, _ = login.partition(":")
    if not colon and scheme not in _WITH_KEYS:
        return address[0]
    if not login:
        return address[0]
    shown = HIDDEN if scheme in _WITH_KEYS and not (colon and scheme.startswith("http")) else user
    return f"{address['scheme']}://{shown}{colon and f':{HIDDEN}'}@{rest}"


def _without_value(pair: re.Match[str]) -> str:
    value = pair["value"]
    prose = pair["mark"] == ":" and _WORD.fullmatch(value) and not _SURE.search(pair["name"])
    return pair[0] if prose else f"{pair['name']}{pair['sign']}{HIDDEN}"
