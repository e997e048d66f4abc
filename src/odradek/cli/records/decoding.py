"""Options for the decoding of keys and values before printing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import click

from odradek.base.errors import OdradekError
from odradek.cli.records.console_formatter import Formatter, Undecodable
from odradek.cli.records.record_json import Decoded, json_bytes
from odradek.client.types import ConsumerRecord

F = TypeVar("F", bound=Callable[..., object])

DECODERS: Final = ("avro", "json", "protobuf", "registry")
_TEXTS: Final = ("string", "short", "integer", "long", "float", "double", "boolean", "uuid")
_META: Final = "odradek.decoding"
_SCHEMA_ADVICE: Final = "name the source of the schemas with --schema-registry URL or --schema-registry FOLDER"


class Decoding(NamedTuple):
    """Values of the options: names of decoders by part ("key", "value"), URL or folder of the schemas, configurations of the registry."""

    decoders: dict[str, str]
    registry: str | None
    settings: tuple[tuple[str, str], ...]


def decoding_options(function: F) -> F:
    """Add --key-decoder, --value-decoder, kcat's -s, --schema-registry (kcat's -r) and --schema-registry-property to a command."""
    choice = click.Choice([*DECODERS, *_TEXTS])
    shown = f"{'|'.join(DECODERS)}|long|..."
    options = (
        click.option(
            "--value-decoder", expose_value=False, callback=_store, type=choice, metavar=shown,
            help="Print values as JSON. avro, protobuf and registry (any type of schema) use a schema; json checks that values are JSON. "
            f"Also {', '.join(_TEXTS)}.",
        ),
        click.option("--key-decoder", expose_value=False, callback=_store, type=choice, metavar=shown, help="The same for keys."),
        click.option(
            "-s", "serdes", expose_value=False, callback=_store, multiple=True, metavar="[key=|value=]DECODER",
            help="kcat's option: a decoder for values or keys, or without a prefix for both; may be repeated.",
        ),
        click.option(
            "-r", "--schema-registry", "registry", expose_value=False, callback=_store, envvar="ODRADEK_SCHEMA_REGISTRY", show_envvar=True,
            metavar="URL|FOLDER", help="Source of schemas: the URL of a registry, or a folder of files such as 7.avsc.",
        ),
        click.option(
            "--schema-registry-property", "registry_settings", expose_value=False, callback=_store, multiple=True, metavar="KEY=VALUE",
            help="A configuration of the registry, such as basic.auth.user.info=NAME:PASSWORD; may be repeated.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def _store(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value:
        context.meta.setdefault(_META, {})[option.name] = value


def chosen_decoding(context: click.Context) -> Decoding | None:
    """Return the decoding that the command line asks for, None without a decoder.

    Raises UsageError for malformed options and for options that contradict one another.
    """
    given: dict[str, Any] = context.meta.get(_META, {})
    decoders: dict[str, str] = {}
    pairs = [(part, given[f"{part}_decoder"]) for part in ("key", "value") if f"{part}_decoder" in given]
    for text in given.get("serdes", ()):
        part, equals, name = text.partition("=")
        part, name = (part, name) if equals else ("", text)
        if part not in ("", "key", "value") or name not in (*DECODERS, *_TEXTS):
            raise click.UsageError(f"-s {text}: expected [key=|value=]DECODER; the decoders are {', '.join((*DECODERS, *_TEXTS))}")
        pairs += [(each, name) for each in ((part,) if part else ("key", "value"))]
    for part, name in pairs:
        if decoders.setdefault(part, name) != name:
            raise click.UsageError(f"give only one decoder for the {part}, not both of {decoders[part]} and {name}")
    registry: str | None = given.get("registry")
    settings = tuple(_pair(each) for each in given.get("registry_settings", ()))
    if settings and registry is None:
        raise click.UsageError("--schema-registry-property requires --schema-registry")
    for part, name in decoders.items():
        if name in ("avro", "protobuf", "registry") and registry is None:
            raise click.UsageError(f"{name} for the {part}: {_SCHEMA_ADVICE}")
    from_environment = context.get_parameter_source("registry") is click.core.ParameterSource.ENVIRONMENT
    if registry is not None and not from_environment and not {"avro", "protobuf", "registry"} & set(decoders.values()):
        raise click.UsageError("--schema-registry requires a decoder that uses it: avro, protobuf or registry")
    if not decoders:
        return None
    return Decoding(decoders, registry, settings)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--schema-registry-property {text}: expected KEY=VALUE")
    return name, value


def decoded(render: Formatter, decoding: Decoding | None, *, nested: bool = False) -> Formatter:
    """Return a formatter that decodes keys and values and calls `render`. Without `decoding` that is `render` itself.

    `render` receives keys and values as JSON text, or with `nested` as JSON values (`Decoded`). Raises ConfigError for unsuitable
    settings. The formatter raises Undecodable for a record that cannot be decoded.
    """
    if decoding is None:
        return render
    decode = {part: _decoder(part, name, decoding) for part, name in decoding.decoders.items()}
    from odradek.client.schemas.json_values import json_text, plain_json

    def show(part: str, value: Any) -> Any:
        if nested:
            return Decoded(plain_json(value))
        if decoding.decoders[part] in _TEXTS and isinstance(value, str):
            return value.encode("utf-8", "replace")  # from one of the plain decoders, such as "string": printed without quotes
        return json_bytes(json_text(value))

    def render_decoded(record: ConsumerRecord) -> bytes:
        changed: dict[str, Any] = {}
        for part, read in decode.items():
            content: bytes | None = record.key if part == "key" else record.value
            if content is None:
                continue
            try:
                changed[part] = show(part, read(content, record.headers))
            except (OdradekError, ValueError) as error:
                raise Undecodable(f"the {part} cannot be decoded: {error}") from None
        return render(record._replace(**changed))

    return render_decoded


def _decoder(part: str, name: str, decoding: Decoding) -> Callable[[bytes, Any], Any]:
    if name in _TEXTS:
        from odradek.client.core.serialization import CODECS

        read = CODECS[name].read
        assert read is not None
        return lambda content, _: _read_text(read, name, content)
    from odradek.client.schemas.decoding import DecoderSettings

    needs = name != "json"
    built = DecoderSettings(name, decoding.registry if needs else None, decoding.settings if needs else (), part).build()
    return built.decode


def _read_text(read: Callable[[bytes], Any], name: str, content: bytes) -> Any:
    try:
        return read(content)
    except (struct.error, ValueError):
        raise Undecodable(f"{len(content)} bytes are not a valid {name}") from None
