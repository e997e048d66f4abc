"""MIT KDC of Debian with its realm in a folder. Nothing of the system's configuration is read or changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from interop.peers import free_port

REALM = "ODRADEK.TEST"
_SBIN = "/usr/sbin:/sbin"

_CLIENT = """[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    ticket_lifetime = {lifetime}
    clockskew = {skew_s}
    kdc_timesync = 0
    qualify_shortname = ""
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {realm}
"""
_SERVER = """[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/kadm5.acl
        max_life = 1h
        max_renewable_life = 0
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
"""


class Kdc:
    """Kerberos realm with its KDC."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.config = folder / "krb5.conf"
        self.write_config()
        (folder / "kdc.conf").write_text(_SERVER.format(realm=REALM, port=self.port, folder=folder))
        self._process: subprocess.Popen[bytes] | None = None

    def write_config(self, lifetime: str = "1h", skew_s: int = 300) -> None:
        """Write the clients' configuration: lifetime of requested tickets, and seconds for which expired tickets are still accepted."""
        self.config.write_text(_CLIENT.format(realm=REALM, port=self.port, lifetime=lifetime, skew_s=skew_s))

    def variables(self) -> Mapping[str, str]:
        """Return environment variables for processes in this realm. They hide the caches and keytabs of the system's user."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5CCNAME": f"FILE:{self.folder}/cache",
            "KRB5_KTNAME": f"FILE:{self.folder}/none.keytab",
            "KRB5_CLIENT_KTNAME": f"FILE:{self.folder}/none.keytab",
            "KRB5RCACHENAME": f"dfl:{self.folder}",
            "KRB5RCACHEDIR": str(self.folder),
        }

    def start(self) -> None:
        """Create the realm and start its KDC. Raises RuntimeError when a program fails."""
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        environment = self._environment()
        with (self.folder / "out.log").open("wb") as log:
            self._process = subprocess.Popen([_program("krb5kdc"), "-n", "-r", REALM], env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while b"commencing operation" not in self._log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the KDC does not start: {self._log().decode()}")
            time.sleep(0.02)  # until the log file says that the KDC runs

    def stop(self) -> None:
        """Stop the KDC. The realm's database stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def add(self, *principals: str, life: str = "1h") -> None:
        """Add principals with random keys."""
        for each in principals:
            self.admin("addprinc", "-randkey", "-maxlife", life, each)

    def keytab(self, name: str, *principals: str, new_keys: bool = False) -> Path:
        """Write a keytab with the keys of principals, after changing the keys if `new_keys`, and return its path."""
        path = self.folder / f"{name}.keytab"
        path.unlink(missing_ok=True)
        for each in principals:
            self.admin("ktadd", "-k", str(path), *([] if new_keys else ["-norandkey"]), each)
        return path

    def kinit(self, principal: str, keytab: Path, cache: Path, *options: str) -> None:
        """Put a ticket into a cache."""
        self._run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{cache}", *options, principal)

    def admin(self, *words: str) -> None:
        """Run a command of kadmin."""
        self._run("kadmin.local", "-r", REALM, *words)

    def _log(self) -> bytes:
        path = self.folder / "kdc.log"
        return path.read_bytes() if path.exists() else b""

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables(), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"), "LC_ALL": "C"}

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run([_program(program), *words], env=self._environment(), capture_output=True, check=False, timeout=60)
        if done.returncode or b"while" in done.stderr:
            raise RuntimeError(f"{program} {' '.join(words)}: {done.stderr.decode()}")


def _program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SBIN}")
    if path is None:
        raise RuntimeError(f"{name} is missing: interop/kerberos.sh installs Debian's Kerberos, or says what is needed")
    return path


@contextlib.contextmanager
def kdc(folder: Path) -> Iterator[Kdc]:
    """Make a realm and start its KDC. This process uses the realm until the block ends."""
    realm = Kdc(folder)
    before = {name: os.environ.get(name) for name in realm.variables()}
    os.environ.update(realm.variables())
    try:
        realm.start()
        yield realm
    finally:
        realm.stop()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
