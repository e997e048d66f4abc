"""Definition of configuration keys, and conversion of text to values (org.apache.kafka.common.config.ConfigDef).

Defaults are kept as text and parsed on request, so that a configuration parses only the keys that were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, cast, overload

from odradek.base.errors import ConfigError

ConfigValue = bool | int | float | str | list[str] | None
"""BOOLEAN -> bool; INT, SHORT, LONG -> int; DOUBLE -> float; STRING, CLASS, PASSWORD -> str; LIST -> list[str]; None: not set."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Validator = Callable[[str, ConfigValue], None]
"""Function of the key's name and its parsed value; raises ConfigError."""


class ConfigType(IntEnum):
    """Types of values, with the numbers of DescribeConfigs (DescribeConfigsResponse.ConfigType)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(IntEnum):
    """Importance of a key to operators."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

if TYPE_CHECKING:
    _Boolean = Literal[ConfigType.BOOLEAN]
    _Integer = Literal[ConfigType.INT, ConfigType.SHORT, ConfigType.LONG]
    _Double = Literal[ConfigType.DOUBLE]
    _Text = Literal[ConfigType.STRING, ConfigType.CLASS, ConfigType.PASSWORD]
    _List = Literal[ConfigType.LIST]

REQUIRED = "\0required"
"""Default of a key that must be given."""

_INTEGER_BITS = {ConfigType.INT: 31, ConfigType.SHORT: 15, ConfigType.LONG: 63}


class Key(Generic[T_co]):
    """Configuration key, generic over the Python type of its values (`ConfigValue`); that of a key without a default includes None.

    `default` is text as in a properties file, None for "not set", or REQUIRED.
    """

    __slots__ = ("default", "doc", "importance", "internal", "name", "type", "validator")

    # fmt: off
    @overload
    def __init__(self: Key[bool], name: str, type: _Boolean, default: str, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self: Key[int], name: str, type: _Integer, default: str, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self: Key[int | None], name: str, type: _Integer, default: None, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self: Key[float], name: str, type: _Double, default: str, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self: Key[str], name: str, type: _Text, default: str, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self: Key[str | None], name: str, type: _Text, default: None, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self: Key[list[str]], name: str, type: _List, default: str, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self: Key[list[str] | None], name: str, type: _List, default: None, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    @overload
    def __init__(self, name: str, type: ConfigType, default: str | None, importance: Importance, doc: str,
                 validator: Validator | None = None, *, internal: bool = False) -> None: ...
    # fmt: on

    def __init__(
        self,
        name: str,
        type: ConfigType,
        default: str | None,
        importance: Importance,
        doc: str,
        validator: Validator | None = None,
        *,
        internal: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.importance = importance
        self.doc = doc
        self.validator = validator
        self.internal = internal

    def __str__(self) -> str:
        return self.name

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def parse(self, text: str | None, *, setting: str | None = None) -> T_co:
        """Return the validated value of `text`. Raises ConfigError for an invalid value.

        The error is one line that names the key, or `setting`, the key's full name with the prefix of a listener.
        """
        name = setting or self.name
        value = None if text is None else parse_value(name, self.type, text)
        if self.validator is not None:
            self.validator(name, value)
        return cast("T_co", value)

    def default_value(self) -> T_co:
        """Return the parsed default. Raises ConfigError when the key is required."""
        if self.required:
            raise ConfigError(f'Missing required configuration "{self.name}" which has no default value.')
        return self.parse(self.default)


def keys_in(names: Mapping[str, object]) -> tuple[Key[Any], ...]:
    """Return the keys of a module, `globals()`, in the order in which it defines them."""
    return tuple(value for value in names.values() if isinstance(value, Key))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


class ConfigDef:
    """Set of keys."""

    __slots__ = ("keys",)

    def __init__(self, *groups: Iterable[Key[ConfigValue]]) -> None:
        self.keys: dict[str, Key[ConfigValue]] = {key.name: key for group in groups for key in group}

    def __contains__(self, key: str | Key[object]) -> bool:
        return (key if isinstance(key, str) else key.name) in self.keys

    def __iter__(self) -> Iterator[Key[ConfigValue]]:
        return iter(self.keys.values())

    def __getitem__(self, name: str) -> Key[ConfigValue]:
        return self.keys[name]

    def parse(self, given: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Parse the given values; undefined keys are left out (the caller decides what an unknown key means)."""
        keys = self.keys
        return {name: keys[name].parse(text) for name, text in given.items() if name in keys}


class Config:
    """Values of the keys of a definition: the given ones, else the defaults, which are parsed when they are first read.

    `config[LOG_RETENTION_MS]` has the type of the key. Reading a key that the definition does not have raises KeyError, and reading a
    required key that was not given raises ConfigError.
    """

    __slots__ = ("_given", "_values", "definition")

    def __init__(self, definition: ConfigDef, values: Mapping[str, ConfigValue]) -> None:
        """Hold `values`, which `definition` has parsed."""
        self.definition = definition
        self._given = dict.fromkeys(values)
        self._values: dict[str, ConfigValue] = dict(values)

    def __getitem__(self, key: Key[T]) -> T:
        try:
            return self._values[key.name]  # type: ignore[return-value]  # No cast: requests read some of these keys.
        except KeyError:
            value = self._values[key.name] = self._default(self.definition[key.name])
            return cast("T", value)

    def _default(self, key: Key[ConfigValue]) -> ConfigValue:
        """Return the value of a key of the definition that was not given."""
        return key.default_value()

    def is_set(self, key: Key[object]) -> bool:
        """Return whether the key was given rather than defaulted."""
        return key.name in self._given


def invalid(name: str, value: object, why: str = "") -> ConfigError:
    """Return the error for a value that does not fit its key, in Kafka's form."""
    shown = "null" if value is None else "true" if value is True else "false" if value is False else value
    if isinstance(shown, list):
        shown = ",".join(str(item) for item in shown)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    line = f"Invalid value {shown} for configuration {name}{': ' + why if why else ''}"
    return ConfigError(" ".join(line.splitlines()))


def setting_text(name: str, value: object) -> str:
    """Return a value given in Python as the text of a properties file.

    Raises ConfigError naming the key when the type has no such text.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    shown = f"of type {type(value).__name__}"
    items = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else (None,)
    texts = [each for each in items if isinstance(each, str)]
    if len(texts) < len(items):
        raise invalid(name, shown, "it must be text, a number, a boolean or a list of texts")
    return ",".join(texts)


def parse_value(name: str, type: ConfigType, text: str) -> ConfigValue:
    """Parse a value by type, as ConfigDef.parseType. Raises ConfigError naming the key."""
    trimmed = text.strip()
    if type is BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise invalid(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if type in _INTEGER_BITS:
        return _parse_integer(name, type, text, trimmed)
    if type is DOUBLE:
        return _parse_double(name, text, trimmed)
    if type is LIST:
        return [item.strip() for item in trimmed.split(",")] if trimmed else []
    return trimmed


def _parse_integer(name: str, type: ConfigType, text: str, trimmed: str) -> int:
    limit = 1 << _INTEGER_BITS[type]
    digits = trimmed[1:] if trimmed[:1] in ("-", "+") else trimmed
    if 0 < len(digits) < 40 and digits.isdecimal():
        number = int(trimmed)
        if -limit <= number < limit:
            return number
    raise invalid(name, text, f"Not a number of type {type.name}")


def _parse_double(name: str, text: str, trimmed: str) -> float:
    number = trimmed[:-1] if trimmed[-1:] in "dDfF" and trimmed[-2:-1].isdigit() else trimmed
    lowered = number.lower().lstrip("+-")
    words = {"nan": "NaN", "infinity": "Infinity", "inf": ""}
    try:
        if "_" in number or (lowered in words and number.lstrip("+-") != words[lowered]):
            raise ValueError
        return float(number)
    except ValueError:
        raise invalid(name, text, "Not a number of type DOUBLE") from None


def format_value(type: ConfigType, value: ConfigValue) -> str | None:
    """Return the text of a value, as ConfigDef.convertToString (passwords are not hidden here)."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if type is DOUBLE:
        return format_double(float(value))
    return str(value)


def format_double(value: float) -> str:
    """Return Java's Double.toString for the values of configurations."""
    text = repr(value)
    if "e" not in text and 1e-3 <= abs(value) < 1e7:
        return text
    if value == 0 or value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    sign, digits, exponent = _decimal_parts(text)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal_parts(text: str) -> tuple[str, str, int]:
    from decimal import Decimal

    number = Decimal(text).normalize().as_tuple()
    digits = "".join(map(str, number.digits))
    return "-" if number.sign else "", digits, int(number.exponent) + len(digits) - 1


# -- validators ---------------------------------------------------------------------------------------------------------------------


class Range:
    """Validator of a number with inclusive bounds; None as a bound is open, None as a value is refused (ConfigDef.Range)."""

    __slots__ = ("maximum", "minimum")

    def __init__(self, minimum: float | None, maximum: float | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def __call__(self, name: str, value: ConfigValue) -> None:
        if value is None:
            raise invalid(name, None, "Value must be non-null")
        assert isinstance(value, (int, float))
        if self.minimum is not None and value < self.minimum:
            raise invalid(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise invalid(name, value, f"Value must be no more than {self.maximum}")

    def __str__(self) -> str:
        low = "..." if self.minimum is None else f"{self.minimum},..."
        return f"[{low}]" if self.maximum is None else f"[{low},{self.maximum}]"


class OneOf:
    """Validator of a string from a fixed set (ConfigDef.ValidString)."""

    __slots__ = ("ignore_case", "values")

    def __init__(self, *values: str, ignore_case: bool = False) -> None:
        self.values = values
        self.ignore_case = ignore_case

    def __call__(self, name: str, value: ConfigValue) -> None:
        if self.ignore_case:
            if not isinstance(value, str) or value.upper() not in (v.upper() for v in self.values):
                raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(self.values)}")
        elif value not in self.values:
            raise invalid(name, value, f"String must be one of: {', '.join(self.values)}")

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.ignore_case else ''}[{', '.join(self.values)}]"


class ListOf:
    """Validator of a list without duplicates or empty items, whose items are in `values` unless that is empty (ConfigDef.ValidList)."""

    __slots__ = ("empty", "null", "values")

    def __init__(self, *values: str, empty: bool = True, null: bool = False) -> None:
        self.values = values
        self.empty = empty
        self.null = null

    def __call__(self, name: str, value: ConfigValue) -> None:
        if value is None:
            if self.null:
                return
            raise ConfigError(f"Configuration '{name}' values must not be null.")
        assert isinstance(value, list)
        if not value and not self.empty:
            allowed = f" Valid values include: [{', '.join(self.values)}]" if self.values else " Valid values include: any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty.{allowed}")
        if len(set(value)) != len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for item in value:
            if not item:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.values and item not in self.values:
                raise invalid(name, item, f"String must be one of: {', '.join(self.values)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]" if self.values else ""


def non_empty(name: str, value: ConfigValue) -> None:
    """Check that a string is not empty (ConfigDef.NonEmptyString). Raises ConfigError."""
    if value == "":
        raise invalid(name, value, "String must be non-empty")


def non_null(name: str, value: ConfigValue) -> None:
    """Check that a value is set (ConfigDef.NonNullValidator). Raises ConfigError."""
    if value is None:
        raise invalid(name, None, "entry must be non null")


def at_least(minimum: float) -> Range:
    """Return a range without an upper bound."""
    return Range(minimum)


def between(minimum: float, maximum: float) -> Range:
    """Return a range with both bounds, inclusive."""
    return Range(minimum, maximum)
