"""Certificates for tests, made by the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path

KEY_PASSWORD = "key-secret"


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Certificates:
    """An authority, and certificates of a broker and a client; `stranger` is an authority that signed neither."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = self._authority("authority")
        self.stranger = self._authority("stranger")
        self.broker = self.signed("broker", "DNS:localhost")
        self.expired = self.signed("expired", "DNS:localhost", days=0)
        self.client = self.signed("client", "DNS:client")
        self.strange_client = self.signed("strange", "DNS:client", "stranger")
        self.encrypted = folder / "encrypted.pem"
        key = folder / "encrypted.key"
        openssl("pkcs8", "-topk8", "-in", str(folder / "client.key"), "-out", str(key), "-passout", f"pass:{KEY_PASSWORD}", "-v2", "aes256")
        self.encrypted.write_text(key.read_text() + (folder / "client.crt").read_text())

    def _authority(self, name: str) -> Path:
        path = self.folder / f"{name}.crt"
        key = self.folder / f"{name}.key"
        subject = f"/CN={name} of tests"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(path), "-days", "30", "-subj", subject)
        return path

    def signed(self, name: str, alternative: str, authority: str = "authority", days: int = 30, subject: str = "") -> Path:
        """The PEM file of key and certificate."""
        base = self.folder / name
        request, extensions = base.with_suffix(".csr"), base.with_suffix(".ext")
        extensions.write_text(f"subjectAltName={alternative}\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{base}.key", "-out", str(request), "-subj", f"/CN={subject or name}")
        signer = self.folder / authority
        by = ("-CA", f"{signer}.crt", "-CAkey", f"{signer}.key", "-CAcreateserial", "-extfile", str(extensions))
        openssl("x509", "-req", "-in", str(request), "-out", f"{base}.crt", "-days", str(days), *by)
        path = base.with_suffix(".pem")
        path.write_text(base.with_suffix(".key").read_text() + base.with_suffix(".crt").read_text())
        return path
