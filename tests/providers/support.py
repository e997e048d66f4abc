"""Settings that define all configuration providers, and files for the providers to read."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = "org.apache.kafka.common.config.provider"
FILE, DIRECTORY, ENV = (f"{_PACKAGE}.{name}" for name in ("FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider"))
PROVIDERS = {
    "config.providers": "file,dir,env",
    "config.providers.file.class": FILE,
    "config.providers.dir.class": DIRECTORY,
    "config.providers.env.class": ENV,
}


def only(name: str, **parameters: str) -> dict[str, str]:
    """Return the settings that define one provider, with parameters (underscores become dots)."""
    settings = {"config.providers": name, f"config.providers.{name}.class": PROVIDERS[f"config.providers.{name}.class"]}
    return settings | {f"config.providers.{name}.param.{key.replace('_', '.')}": value for key, value in parameters.items()}


def secrets(folder: Path) -> Path:
    """Make a directory with some files, and a properties file in the directory. Return the path of the properties file."""
    folder.mkdir(exist_ok=True)
    (folder / "user").write_text("alice\n")
    (folder / "empty").write_text("")
    (folder / "more").mkdir(exist_ok=True)
    (folder / "more" / "deep").write_text("deep")
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to(folder / "user")
    path = folder / "secrets.properties"
    path.write_text("password=hunter2\npartitions = 7\nempty=\nreference=${file:x:y}\nun\\u0069code=\\u00e9\nkey\\ with\\:colon=colon\n")
    return path
