"""A Redis that speaks TLS, with certificates made for it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from aiodlock.testing.servers.base import MissingServerError
from aiodlock.testing.servers.ports import HOST, free_ports
from aiodlock.testing.servers.redis import RedisServer

__all__ = ["TlsRedisServer", "authority_in", "make_certificates", "tls_options"]

# Two authorities: the server's, and one that has not signed it.
_MAKE = f"""
EC="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
CA="-x509 -days 2 -addext keyUsage=critical,keyCertSign"
openssl req $CA $EC -subj /CN=test-ca -keyout ca.key -out ca.crt
openssl req $CA $EC -subj /CN=other-ca -keyout other.key -out other.crt
openssl req $EC -subj /CN=localhost -keyout server.key -out server.csr
printf 'subjectAltName=IP:{HOST}\\nauthorityKeyIdentifier=keyid\\n' > extensions
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.crt
"""


def make_certificates(directory: Path) -> None:
    """Make ``server.crt`` and ``server.key``, for loopback, and ``ca.crt``, which signed it; ``other.crt`` did not."""
    subprocess.run(["sh", "-e", "-c", _MAKE], cwd=directory, check=True, capture_output=True)


def authority_in(directory: str | Path) -> Path:
    """Return the certificate of the authority that signed the servers of *directory*."""
    return Path(directory) / "ca.crt"


def tls_options(directory: Path) -> list[str]:
    """Return a Redis' options for the certificates in *directory*; they are made if they are not there yet."""
    authority = authority_in(directory)
    if not authority.exists():
        make_certificates(directory)
    files = {"cert-file": "server.crt", "key-file": "server.key", "ca-cert-file": authority.name}
    options = [word for name, file in files.items() for word in (f"--tls-{name}", str(directory / file))]
    return [*options, "--tls-auth-clients", "no"]


class TlsRedisServer(RedisServer):
    """A Redis with TLS on ``tls_port``, beside the plain port; ``url`` names the authority that signed it."""

    def __init__(self, *, arguments: Sequence[str] = ()) -> None:
        super().__init__(arguments=arguments)
        (self.tls_port,) = free_ports(1)

    @classmethod
    def missing(cls) -> MissingServerError | None:
        no_openssl = MissingServerError("openssl", install="apt-get install --no-install-recommends openssl")
        return super().missing() or (None if shutil.which("openssl") else no_openssl)

    @property
    def bare_url(self) -> str:
        """The URL without an authority: whoever uses it refuses the server."""
        return f"rediss://{HOST}:{self.tls_port}/0"

    @property
    def url(self) -> str:
        return f"{self.bare_url}?ssl_ca_certs={self.authority}"

    @property
    def authority(self) -> Path:
        return authority_in(self.directory)

    @property
    def other_authority(self) -> Path:
        """One that has not signed this server."""
        return self.directory / "other.crt"

    def command(self) -> Sequence[str]:
        return (*super().command(), "--tls-port", str(self.tls_port), *tls_options(self.directory))
