"""How to get into a broker that does not let everybody in."""

from __future__ import annotations

from ssl import SSLContext
from typing import Literal, TypedDict

__all__ = ["Access"]


class Access(TypedDict, total=False):
    """TLS and SASL, under aiokafka's own names, which its documentation explains."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    ssl_context: SSLContext
    sasl_mechanism: Literal["PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    sasl_plain_username: str
    sasl_plain_password: str
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str
    sasl_oauth_token_provider: object
