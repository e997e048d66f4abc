"""Environment in which Spark finds this Python, with all packages that are installed for it.

Spark starts `python3` from the PATH for its workers, and its scripts start `python3` and `pyspark` from the PATH. A virtual environment
that is not first on the PATH gets another Python, without pyarrow or this package. Call `use_this_python()` before the first SparkSession,
or start a script of Spark with `spark_environment()`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from odradek.base.errors import OdradekError

MINIMAL_JAVA = 17


class JavaMissing(OdradekError):
    """Error for a missing or outdated Java installation."""


def spark_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a copy of `environment` (default: of this process) for starting Spark's scripts with this Python.

    Raises OdradekError without pyspark.
    """
    output = dict(os.environ if environment is None else environment)
    output["PYSPARK_PYTHON"] = output["PYSPARK_DRIVER_PYTHON"] = sys.executable
    output["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), output.get("PATH", os.defpath)])
    output["SPARK_HOME"] = spark_home()
    # Without this variable Spark looks up the host's name, which fails or gives a foreign address on many machines.
    output.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return output


def use_this_python() -> None:
    """Make Spark sessions of this process start their workers with this Python, unless the user chose another."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def spark_home() -> str:
    """Return the folder of the installed pyspark. Raises OdradekError if pyspark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise OdradekError('pyspark is not installed: pip install "odradek[spark]"')
    return next(iter(spec.submodule_search_locations))


def check_java() -> int:
    """Return the major version of the Java that Spark will use.

    Raises JavaMissing, with advice how to install Java, if Java is missing or older than MINIMAL_JAVA.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"Spark needs Java {MINIMAL_JAVA} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; elsewhere see https://adoptium.net)"
    if java is None:
        raise JavaMissing(f"java is not on the PATH. {advice}")
    try:
        found = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise JavaMissing(f"{java} does not run ({error}). {advice}") from None
    version = major_version(found.stderr)
    if version < MINIMAL_JAVA:
        raise JavaMissing(f"{java} is Java {version}. {advice}")
    return version


def major_version(text: str) -> int:
    """Return 17 for `openjdk version "17.0.15"`, 8 for `java version "1.8.0"`, 0 for a text without a version."""
    parts = text.split('"')
    numbers = parts[1].replace("-", ".").split(".") if len(parts) > 2 else ["0"]
    if numbers[0] == "1" and len(numbers) > 1:
        numbers = numbers[1:]
    return int(numbers[0]) if numbers[0].isdecimal() else 0
